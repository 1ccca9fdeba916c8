//! Listens for programs, and carries each of them to the server.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use onetrip_postgres::client::early::Saved;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::carry::{Carrier, Shared};
use super::listener::Listener;
use super::servers::Servers;
use super::settings::{Listen, Log, Settings};
use super::warm::Warm;
use super::{SidecarArgs, scrape, systemd, told};
use crate::output::{End, print, set_json, tell};
use crate::stop::Stop;

/// Says a line that is no answer to the user's command.
pub(super) fn say(text: &str) {
    tell(&format!("onetrip: sidecar: {text}"));
}

/// A sidecar, apart from where it listens.
pub(super) struct Front {
    /// What it carries to.
    pub(super) server: String,
    shared: Arc<Shared>,
    /// How programs that come now are served.
    carrier: Mutex<Arc<Carrier>>,
}

/// Carries until SIGINT (Ctrl-C), SIGTERM or SIGHUP, and then until no program is in a transaction.
/// With a file of settings, SIGHUP reads it again.
///
/// # Errors
/// It can't listen, or its output can't be written.
pub(super) fn serve(args: &SidecarArgs, settings: &Settings) -> Result<(), End> {
    let (Some(listen), Some(name)) = (&settings.listen, &settings.to) else {
        return Err("--listen and --to belong together".to_owned().into());
    };
    let stop = Stop::catch_with(args.config.is_some(), || {})?;
    let (end, ends) = watch::channel(false);
    let runtime = runtime()?;
    let opener = Opener { settings, ends };
    let variable = |name: &str| std::env::var(name).ok();
    let (listener, front) = opener.open(listen, name, variable, &runtime)?;
    let _runs = runtime.enter();
    // Caught before anybody is told that it is ready: until then it would end the process.
    let mut hang_up = match args.config {
        Some(_) => Some(signal(SignalKind::hangup()).map_err(|error| error.to_string())?),
        None => None,
    };
    let metrics = settings.metrics.map(|at| scrape::listen(at, settings.allow_remote));
    let metrics = metrics.transpose()?;
    stop.tidy_first("programs that were in a transaction lost it");
    print(&format!(
        "{} -> {}; Ctrl-C lets transactions end, and says what was saved{}",
        listener.name,
        front.server,
        metrics.as_ref().map_or_else(String::new, scrape::place)
    ))?;
    systemd::notify("READY=1");
    let (saved, connections) = runtime.block_on(async {
        let mut open = JoinSet::new();
        let drained = async {
            tokio::select! {
                never = front.accept(&listener, &mut open) => match never {},
                never = front.read_again(args, settings, hang_up.as_mut()) => match never {},
                _ = stop.requested() => {}
            }
            systemd::notify("STOPPING=1");
            // From now on programs are refused.
            drop(listener);
            end.send_replace(true);
            while open.join_next().await.is_some() {}
        };
        // Counts are handed out to the end.
        tokio::select! {
            () = drained => {}
            never = front.hand_out(metrics.as_ref()) => match never {},
        }
        front.carrier().end();
        front.saved()
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
    pub(super) settings: &'a Settings,
    pub(super) ends: watch::Receiver<bool>,
}

impl Opener<'_> {
    /// Listens, to carry to the server of this name.
    ///
    /// # Errors
    /// It can't listen there, or the server can't be reached that way: one line.
    pub(super) fn open(
        &self,
        listen: &Listen,
        name: &str,
        variable: impl Fn(&str) -> Option<String>,
        runtime: &Runtime,
    ) -> Result<(Listener, Front), String> {
        let _runs = runtime.enter();
        let shared = Shared::new(self.ends.clone(), say);
        let carrier = carrier(self.settings, name, variable, shared.clone())?;
        let listener = Listener::open(listen, self.settings.allow_remote)?;
        let server = carrier.servers.name();
        Ok((listener, Front { server, shared, carrier: Mutex::new(Arc::new(carrier)) }))
    }
}

/// Carries as these settings say. It needs a runtime.
fn carrier(
    settings: &Settings,
    name: &str,
    variable: impl Fn(&str) -> Option<String>,
    shared: Arc<Shared>,
) -> Result<Carrier, String> {
    let wrong = |why: &str| format!("{}: {why}", settings.to_from);
    if name.starts_with("redis") {
        return Err(wrong("only PostgreSQL has a sidecar"));
    }
    let servers = Servers::of(name, &settings.tls, variable).map_err(|error| wrong(&error))?;
    let warm = Some(settings.warm).filter(|it| *it > 0).map(Warm::new);
    if let Some(warm) = &warm {
        tokio::spawn(Warm::tend(Arc::downgrade(warm)));
    }
    Ok(Carrier::new(shared, servers, warm, settings.words, settings.max_clients))
}

impl Front {
    fn carrier(&self) -> Arc<Carrier> {
        self.carrier.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Accepts programs for ever. They live in `open`.
    pub(super) async fn accept(&self, listener: &Listener, open: &mut JoinSet<()>) -> Infallible {
        loop {
            // What has ended is forgotten.
            while open.try_join_next().is_some() {}
            match listener.accept().await {
                Ok(program) => {
                    open.spawn(self.carrier().carry(program));
                }
                // No descriptor is left until a connection ends.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Hands out the counts for ever, if somebody may ask.
    async fn hand_out(&self, metrics: Option<&TcpListener>) -> Infallible {
        match metrics {
            Some(listener) => scrape::serve(listener, || self.carrier().metrics()).await,
            None => std::future::pending().await,
        }
    }

    /// Reads the settings again at each SIGHUP, for programs that come from then on. What is wrong
    /// changes nothing.
    async fn read_again(
        &self,
        args: &SidecarArgs,
        first: &Settings,
        hang_up: Option<&mut Signal>,
    ) -> Infallible {
        let Some(hang_up) = hang_up else { return std::future::pending().await };
        loop {
            hang_up.recv().await;
            match self.change(args, first) {
                Ok(()) => say("the settings were read again"),
                Err(error) => say(&format!("the settings stay as they were: {error}")),
            }
        }
    }

    fn change(&self, args: &SidecarArgs, first: &Settings) -> Result<(), String> {
        let settings = Settings::of(args)?;
        for (key, is_same) in [
            ("listen", settings.listen == first.listen),
            ("metrics", settings.metrics == first.metrics),
        ] {
            if !is_same {
                return Err(format!("another {key} needs a restart"));
            }
        }
        let name = settings.to.as_deref().unwrap_or_default();
        let variable = |name: &str| std::env::var(name).ok();
        let new = Arc::new(carrier(&settings, name, variable, self.shared.clone())?);
        set_json(settings.log == Log::Json);
        let mut now = self.carrier.lock().unwrap_or_else(PoisonError::into_inner);
        // Its warm connections may be of another server.
        std::mem::replace(&mut *now, new).end();
        Ok(())
    }

    /// What was saved, and by how many connections.
    pub(super) fn saved(&self) -> (Saved, u64) {
        self.shared.saved()
    }
}
