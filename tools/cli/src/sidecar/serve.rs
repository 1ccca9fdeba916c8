//! Listens for programs, and carries each of them to the server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use onetrip_postgres::client::early::{Saved, Words};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::carry::Carrier;
use super::servers::Servers;
use super::stream::Stream;
use super::warm::Warm;
use super::{SidecarArgs, told};
use crate::output::{End, print, tell};
use crate::profile::tls::TlsArgs;
use crate::stop::Stop;

/// Says a line that is no answer to the user's command.
pub(super) fn say(text: &str) {
    tell(&format!("onetrip: sidecar: {text}"));
}

/// A sidecar that listens, until it is dropped.
pub(super) struct Front {
    pub(super) addr: SocketAddr,
    /// What it carries to.
    pub(super) server: String,
    carrier: Arc<Carrier>,
    listener: TcpListener,
}

/// Carries until SIGINT (Ctrl-C), SIGTERM or SIGHUP, and then until no program is in a transaction.
///
/// # Errors
/// It can't listen, or its output can't be written.
pub(super) fn serve(args: &SidecarArgs) -> Result<(), End> {
    let (Some(listen), Some(name)) = (args.listen, &args.to) else {
        return Err("--listen and --to belong together".to_owned().into());
    };
    let stop = Stop::catch(|| {})?;
    let (end, ends) = watch::channel(false);
    let opener = Opener::new(args, ends);
    let runtime = runtime()?;
    let front = opener.open(listen, name, |name| std::env::var(name).ok(), &runtime)?;
    stop.tidy_first("programs that were in a transaction lost it");
    print(&format!(
        "{} -> {}; Ctrl-C lets transactions end, and says what was saved",
        front.addr, front.server
    ))?;
    let requested = stop.requested();
    let (saved, connections) = runtime.block_on(async move {
        let mut open = JoinSet::new();
        tokio::select! {
            never = front.accept(&mut open) => match never {},
            _ = requested => {}
        }
        // From now on programs are refused.
        let carrier = front.carrier.clone();
        drop(front);
        end.send_replace(true);
        while open.join_next().await.is_some() {}
        carrier.end();
        carrier.saved()
    });
    stop.tidied();
    print(&told(&saved, connections))
}

/// Carries on all cores: a program must not wait for another one.
pub(super) fn runtime() -> Result<Runtime, String> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
    crate::runtime::runtime(threads)
}

/// Opens sidecars.
pub(super) struct Opener<'a> {
    args: &'a SidecarArgs,
    tls: TlsArgs,
    ends: watch::Receiver<bool>,
}

impl Opener<'_> {
    pub(super) fn new(args: &SidecarArgs, ends: watch::Receiver<bool>) -> Opener<'_> {
        let tls = TlsArgs::in_clear(args.tls, args.tls_root.clone());
        Opener { args, tls, ends }
    }

    /// Listens, to carry to the server of this name.
    ///
    /// # Errors
    /// It can't listen there, or the server can't be reached that way: one line.
    pub(super) fn open(
        &self,
        listen: SocketAddr,
        name: &str,
        variable: impl Fn(&str) -> Option<String>,
        runtime: &Runtime,
    ) -> Result<Front, String> {
        if name.starts_with("redis") {
            return Err(format!("--to {name}: only PostgreSQL has a sidecar"));
        }
        if !listen.ip().is_loopback() && !self.args.allow_remote {
            return Err(format!(
                "{listen} is not a loopback address: whoever can connect there reaches the \
                 database; listen on 127.0.0.1 or [::1], or allow it with --allow-remote"
            ));
        }
        let servers = Servers::of(name, &self.tls, variable);
        let servers = servers.map_err(|error| format!("--to: {error}"))?;
        let server = servers.name();
        let warm = Some(self.args.warm).filter(|it| *it > 0).map(Warm::new);
        if let Some(warm) = &warm {
            runtime.spawn(Warm::tend(Arc::downgrade(warm)));
        }
        let words: Words = self.args.words();
        let max = self.args.max_clients;
        let carrier = Carrier::new(servers, warm, words, max, self.ends.clone(), say);
        let listener = runtime.block_on(TcpListener::bind(listen));
        let listener = listener.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "{listen} is in use; choose another port with --listen, or port 0 for a free one"
            ),
            _ => format!("can't listen on {listen}: {error}; choose another with --listen"),
        })?;
        let addr = listener.local_addr().map_err(|error| error.to_string())?;
        Ok(Front { addr, server, carrier: Arc::new(carrier), listener })
    }
}

impl Front {
    /// Accepts programs for ever. They live in `open`.
    pub(super) async fn accept(&self, open: &mut JoinSet<()>) -> std::convert::Infallible {
        loop {
            // What has ended is forgotten.
            while open.try_join_next().is_some() {}
            let Ok((program, _)) = self.listener.accept().await else {
                // No descriptor is left until a connection ends.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            if program.set_nodelay(true).is_ok() {
                open.spawn(self.carrier.clone().carry(Stream::Tcp(program)));
            }
        }
    }

    /// What was saved, and by how many connections.
    pub(super) fn saved(&self) -> (Saved, u64) {
        self.carrier.saved()
    }
}
