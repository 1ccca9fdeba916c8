//! `onetrip sidecar --run`: a program whose servers are replaced by sidecars, until it ends.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use onetrip_postgres::client::early::Saved;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::listener::Listener;
use super::serve::{Front, Opener, runtime, say};
use super::settings::{Listen, Settings};
use super::{SidecarArgs, told};
use crate::output::End;
use crate::profile::environment::{Speaks, Target, Variables, replaced};
use crate::profile::run::{child, code};

/// Runs the program, and ends with its exit status.
///
/// # Errors
/// No server is named, or the program can't be run. The program's status, if it isn't 0.
pub(super) fn run(args: &SidecarArgs, settings: &Settings) -> Result<(), End> {
    if !matches!(args.listen, None | Some(Listen::Tcp(_))) {
        return Err("--run leads the program to a port: --listen IP:PORT".to_owned().into());
    }
    let (end, ends) = watch::channel(false);
    let runtime = runtime()?;
    let variables: Variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(_, value)| !value.contains("redis://") && !value.contains("rediss://"))
        .collect();
    let opener = Opener { settings, ends };
    let mut opened = Fronts { args, opener, variables: &variables, open: BTreeMap::new() };
    let set = opened.replace(&runtime)?;
    let mut fronts = Vec::new();
    let mut listeners = Vec::new();
    for (listener, front) in opened.open.into_values() {
        say(&format!("{} -> {}", listener.name, front.server));
        fronts.push(Arc::new(front));
        listeners.push(listener);
    }
    let names: Vec<&str> = set.keys().map(String::as_str).collect();
    say(&format!("replaced {}", names.join(", ")));
    let status = runtime.block_on(async {
        let mut accepting = JoinSet::new();
        for (listener, front) in listeners.into_iter().zip(fronts.clone()) {
            accepting.spawn(async move {
                let mut open = JoinSet::new();
                match front.accept(&listener, &mut open).await {}
            });
        }
        child(&args.command, &set).await
    });
    end.send_replace(true);
    drop(runtime);
    let (mut saved, mut connections) = (Saved::default(), 0);
    for front in &fronts {
        let (of_front, count) = front.saved();
        saved.add(&of_front);
        connections += count;
    }
    say(&told(&saved, connections));
    match code(status?) {
        0 => Ok(()),
        code => Err(End::Status(code)),
    }
}

/// One sidecar for each server that the environment names, or one for `--to`.
struct Fronts<'a> {
    args: &'a SidecarArgs,
    opener: Opener<'a>,
    variables: &'a Variables,
    open: BTreeMap<String, (Listener, Front)>,
}

impl Fronts<'_> {
    /// Opens the sidecars. Returns the variables that lead the program to them.
    fn replace(&mut self, runtime: &Runtime) -> Result<Variables, String> {
        let Some(to) = &self.args.to else {
            return replaced(self.variables, true, |target| match target.speaks {
                Speaks::Postgres => self.front(&target.url(), runtime),
                Speaks::Redis => redis(target),
            })
            .map(|it| it.set);
        };
        let front = self.front(to, runtime)?;
        // As if libpq's variables named the server.
        let mut variables = self.variables.clone();
        variables.insert("PGHOST".to_owned(), front.ip().to_string());
        variables.insert("PGPORT".to_owned(), front.port().to_string());
        replaced(&variables, true, |_| Ok(front)).map(|it| it.set)
    }

    fn front(&mut self, name: &str, runtime: &Runtime) -> Result<SocketAddr, String> {
        if let Some((listener, _)) = self.open.get(name) {
            return address(listener);
        }
        let free = Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listen = self.args.listen.as_ref().unwrap_or(&free);
        let variable = |name: &str| self.variables.get(name).cloned();
        let (listener, front) = self.opener.open(listen, name, variable, runtime)?;
        let addr = address(&listener)?;
        self.open.insert(name.to_owned(), (listener, front));
        Ok(addr)
    }
}

fn address(listener: &Listener) -> Result<SocketAddr, String> {
    listener.address().ok_or_else(|| format!("{} is no port", listener.name))
}

/// Where Redis is, as nothing else is named.
fn redis(target: &Target) -> Result<SocketAddr, String> {
    target.to_string().parse().map_err(|_| format!("{target} has no sidecar"))
}
