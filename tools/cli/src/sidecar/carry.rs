//! One connection of a program, and the one to the server that belongs to it.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use onetrip_postgres::client::early::{Asked, Early, Saved, Time, Words};
use tokio::sync::watch;
use tokio::time::timeout;

use super::dial::{Met, Place, Saying, Unmet};
use super::keys::{Keys, Known};
use super::metrics::Counts;
use super::servers::Servers;
use super::stream::Stream;
use super::warm::Warm;

/// What all sidecars of one listener share, whatever their settings become.
pub(super) struct Shared {
    pub(super) counts: Counts,
    pub(super) keys: Arc<Keys>,
    start: Instant,
    /// Whether connections end as soon as they are idle.
    ends: watch::Receiver<bool>,
    say: fn(&str),
}

/// How programs that come now are served.
pub(super) struct Carrier {
    pub(super) shared: Arc<Shared>,
    pub(super) servers: Arc<Servers>,
    /// Connections that are kept for programs, if any are.
    warm: Option<Arc<Warm>>,
    words: Words,
    max_clients: u64,
}

/// Bytes that are read at once.
const READ: usize = 8 << 10;

/// How long a program may take to say what it wants: PostgreSQL's default of
/// `authentication_timeout`.
pub(super) const BEGINNING_MAX: Duration = Duration::from_secs(60);

/// How long a server may take to cancel.
const CANCEL_MAX: Duration = Duration::from_secs(60);

/// How long a program that is told why it is ended may take to read it.
const GOODBYE_MAX: Duration = Duration::from_secs(2);

impl Shared {
    pub(super) fn new(ends: watch::Receiver<bool>, say: fn(&str)) -> Arc<Shared> {
        let (counts, keys) = (Counts::default(), Arc::default());
        Arc::new(Shared { counts, keys, start: Instant::now(), ends, say })
    }

    /// What was saved until now, and by how many connections.
    pub(super) fn saved(&self) -> (Saved, u64) {
        let saved = *self.counts.saved.lock().unwrap_or_else(PoisonError::into_inner);
        (saved, self.counts.sessions.get())
    }
}

impl Carrier {
    pub(super) fn new(
        shared: Arc<Shared>,
        servers: Servers,
        warm: Option<Arc<Warm>>,
        words: Words,
        max_clients: u32,
    ) -> Carrier {
        let (servers, max_clients) = (Arc::new(servers), max_clients.into());
        Carrier { shared, servers, warm, words, max_clients }
    }

    /// The counts as text.
    pub(super) fn metrics(&self) -> String {
        let (saved, _) = self.shared.saved();
        let (idle, resetting) = self.warm.as_ref().map_or((0, 0), |it| it.waiting());
        self.shared.counts.text(&saved, idle, resetting)
    }

    /// No program comes any more.
    pub(super) fn end(&self) {
        self.warm.iter().for_each(|warm| warm.end());
    }

    pub(super) fn now(&self) -> Time {
        Time::ZERO.after(self.shared.start.elapsed())
    }

    /// Carries a program until one side ends.
    pub(super) async fn carry(self: Arc<Carrier>, program: Stream) {
        let mut counted =
            Counted { early: Early::new(self.words).only(self.servers.target()), carrier: &self };
        // An error is the end of one side; dropping both tells the other.
        let _ = self.try_carry(program, &mut counted.early).await;
    }

    async fn try_carry(
        self: &Arc<Carrier>,
        mut program: Stream,
        early: &mut Early,
    ) -> io::Result<()> {
        let mut ends = self.shared.ends.clone();
        let asked = tokio::select! {
            asked = timeout(BEGINNING_MAX, self.asked(&program, early)) => asked??,
            _ = ends.wait_for(|it| *it) => Asked::Nothing,
        };
        let _room = match asked {
            Asked::Nothing => return Ok(()),
            Asked::Garbage => {
                self.shared.counts.garbage.add(1);
                (self.shared.say)(GARBAGE);
                return Ok(());
            }
            // It needs no room among the sessions, of which it may free one.
            Asked::Cancel => None,
            Asked::Session => match self.room() {
                Some(room) => Some(room),
                None => {
                    early.end("53300", "sorry, too many clients already");
                    return self.goodbye(&mut program, early).await;
                }
            },
        };
        let packet = self.taken(early);
        if asked == Asked::Cancel {
            self.cancel(&packet).await;
            return self.goodbye(&mut program, early).await;
        }
        let login = self.warm.as_ref().and_then(|warm| {
            let login = self.servers.login(&packet)?;
            Some((warm, login))
        });
        match login {
            None => self.serve(&program, &packet, early).await?,
            Some((warm, login)) => {
                let admitted = tokio::select! {
                    admitted = self.admit(&program, warm, &login, early) => Some(admitted?),
                    _ = ends.wait_for(|it| *it) => None,
                };
                match admitted {
                    None => early.end("57P01", STOPPED),
                    Some(None) => {}
                    Some(Some(session)) => self.lend(&program, warm, session, early).await?,
                }
            }
        }
        self.goodbye(&mut program, early).await
    }

    /// Room for one more program, until it is dropped.
    fn room(&self) -> Option<Room<'_>> {
        let counts = &self.shared.counts;
        let is_free = counts.open.enter(self.max_clients);
        let count = if is_free { &counts.sessions } else { &counts.too_many };
        count.add(1);
        is_free.then(|| Room(counts))
    }

    /// Tells a program why it has no server.
    pub(super) fn tell(&self, unmet: Unmet, early: &mut Early) {
        self.shared.counts.unmet.add(1);
        match unmet {
            Unmet::Said(said) => early.from_server(self.now(), &said),
            Unmet::Failed(why) => {
                (self.shared.say)(&why);
                // sqlclient_unable_to_establish_sqlconnection
                early.end("08001", &format!("onetrip sidecar: {why}"));
            }
        }
    }

    /// Takes what the program has said first, before the server is known.
    fn taken(&self, early: &mut Early) -> BytesMut {
        let packet = BytesMut::from(early.to_server());
        early.server_took(self.now(), packet.len());
        packet
    }

    /// Waits until the program goes away, while it has nothing to say.
    pub(super) async fn left(&self, program: &Stream, early: &mut Early) -> io::Result<()> {
        while early.wants_program() {
            program.ready(true, false).await?;
            if !self.read_program(program, early)? {
                return Ok(());
            }
        }
        std::future::pending().await
    }

    /// Passes a request to cancel on to the server that it is for, and waits for its end.
    async fn cancel(&self, packet: &[u8]) {
        self.shared.counts.cancels.add(1);
        let met = match self.shared.keys.find(packet) {
            Some((servers, place, request)) => {
                servers.meet_at(place, Saying::Cancel(&request)).await
            }
            // It may be of a program that is not known here. With several servers it is not known
            // which it is for.
            None if self.servers.are_several() => return,
            None => self.servers.meet(Saying::Cancel(packet)).await,
        };
        if let Ok(met) = met {
            let end = async {
                while met.stream.read(&mut BytesMut::new()).await? {}
                Ok(())
            };
            let _: io::Result<()> = timeout(CANCEL_MAX, end).await.unwrap_or(Ok(()));
        }
    }

    /// Carries between a program and the server that takes its login.
    async fn serve(&self, program: &Stream, packet: &[u8], early: &mut Early) -> io::Result<()> {
        let (mut ends, begin) = (self.shared.ends.clone(), self.now());
        let met = tokio::select! {
            met = self.servers.meet(Saying::Login(packet)) => Some(met),
            left = self.left(program, early) => return left,
            _ = ends.wait_for(|it| *it) => None,
        };
        let Met { mut stream, place, said, .. } = match met {
            Some(Ok(met)) => met,
            Some(Err(unmet)) => {
                self.tell(unmet, early);
                return Ok(());
            }
            None => {
                early.end("57P01", STOPPED);
                return Ok(());
            }
        };
        self.shared.counts.waited(self.now().since(begin));
        early.from_server(self.now(), &said);
        let carried = self.splice(program, &mut stream, place, &mut None, early).await;
        if early.is_unfit() {
            self.servers.lineage().note_unfit(place.host);
        }
        carried
    }

    /// Reads until it is clear what the program wants.
    async fn asked(&self, program: &Stream, early: &mut Early) -> io::Result<Asked> {
        loop {
            self.write_program(program, early)?;
            match early.asked() {
                Asked::Nothing => {}
                asked => return Ok(asked),
            }
            program.ready(true, !early.to_program().is_empty()).await?;
            if !self.read_program(program, early)? {
                return Ok(Asked::Nothing);
            }
        }
    }

    /// Passes on both ways until the server ends, or the program is to be ended.
    pub(super) async fn splice(
        &self,
        program: &Stream,
        server: &mut Stream,
        place: Place,
        known: &mut Option<Known>,
        early: &mut Early,
    ) -> io::Result<()> {
        let mut ends = self.shared.ends.clone();
        let (mut has_ended, mut is_shut) = (false, false);
        loop {
            if *ends.borrow() && (early.is_idle() || early.is_logging_in()) {
                early.end("57P01", STOPPED);
            }
            if early.is_over() {
                return Ok(());
            }
            if known.is_none()
                && let Some(key) = early.key()
            {
                *known = self.shared.keys.know(key, &self.servers, place, key.clone());
            }
            if early.has_news() {
                self.report(early);
            }
            self.write_server(server, early)?;
            if early.has_left() && !has_ended {
                has_ended = true;
                early.program_ended();
            }
            if has_ended && early.returns().is_some() {
                return Ok(());
            }
            // If nobody listens any more, what was said is still done.
            if has_ended || self.write_program(program, early).is_err() {
                has_ended = true;
                let len = early.to_program().len();
                early.program_took(self.now(), len);
            }
            if has_ended && !is_shut && early.has_sent_all() {
                is_shut = true;
                server.shut_down().await?;
            }
            let reads = !has_ended && early.wants_program();
            let writes = !has_ended && !early.to_program().is_empty();
            tokio::select! {
                ready = program.ready(reads, writes) => {
                    ready?;
                    if reads && !self.read_program(program, early).unwrap_or(false) {
                        has_ended = true;
                        early.program_ended();
                    }
                }
                ready = server.ready(early.wants_server(), !early.to_server().is_empty()) => {
                    ready?;
                    if early.wants_server() && !self.read_server(server, early)? {
                        return Ok(());
                    }
                }
                _ = ends.changed() => {}
            }
        }
    }

    fn report(&self, early: &mut Early) {
        let saved = &self.shared.counts.saved;
        early.report(&mut saved.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// False at the end.
    pub(super) fn read_program(&self, program: &Stream, early: &mut Early) -> io::Result<bool> {
        let mut bytes = [0; READ];
        let read = program.try_read(&mut bytes)?;
        if let Some(len) = read {
            early.from_program(self.now(), &bytes[..len]);
        }
        Ok(read != Some(0))
    }

    /// False at the end.
    fn read_server(&self, server: &Stream, early: &mut Early) -> io::Result<bool> {
        let mut bytes = [0; READ];
        let read = server.try_read(&mut bytes)?;
        if let Some(len) = read {
            early.from_server(self.now(), &bytes[..len]);
        }
        Ok(read != Some(0))
    }

    /// Writes what there is room for.
    pub(super) fn write_program(&self, program: &Stream, early: &mut Early) -> io::Result<()> {
        while !early.to_program().is_empty() {
            let Some(len) = program.try_write(early.to_program())? else { break };
            early.program_took(self.now(), len);
        }
        Ok(())
    }

    /// Writes what there is room for.
    fn write_server(&self, server: &Stream, early: &mut Early) -> io::Result<()> {
        while !early.to_server().is_empty() {
            let Some(len) = server.try_write(early.to_server())? else { break };
            early.server_took(self.now(), len);
        }
        Ok(())
    }

    /// Writes what is left for the program, and hears it out: if what it has still sent were not
    /// read, it might not see why it is ended.
    async fn goodbye(&self, program: &mut Stream, early: &mut Early) -> io::Result<()> {
        let goodbye = async {
            while !early.to_program().is_empty() {
                program.ready(false, true).await?;
                self.write_program(program, early)?;
            }
            program.shut_down().await?;
            loop {
                program.ready(true, false).await?;
                if program.try_read(&mut [0; READ])? == Some(0) {
                    return Ok(());
                }
            }
        };
        timeout(GOODBYE_MAX, goodbye).await.unwrap_or(Ok(()))
    }
}

/// Counts what was saved even where the connection is dropped.
struct Counted<'a> {
    early: Early,
    carrier: &'a Carrier,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.carrier.report(&mut self.early);
    }
}

/// A program that is connected.
struct Room<'a>(&'a Counts);

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.0.open.leave();
    }
}

const STOPPED: &str = "terminating connection due to administrator command";

const GARBAGE: &str = "a client that does not speak PostgreSQL was turned away (of TLS only \
                       sslmode=disable or prefer works here)";
