//! What happens to the Sentinels and the servers.

use onetrip_redis::client::sentinel::LineId;

use super::World;
use super::host::Connection;
use super::model::announcement;

pub(super) enum Event {
    /// The client writes, if it is connected.
    Write,
    /// Something goes wrong.
    Trouble,
    /// Nothing goes wrong any more.
    Calm,
    Answer(LineId),
    Connect(u64),
    Timeout(u64),
    /// A Sentinel hears from the others of the newest configuration.
    Hear(usize),
    /// A Sentinel, or a server, can be reached again.
    ReachSentinel(usize),
    ReachServer(usize),
    /// A Sentinel is among the others again.
    Join(usize),
    /// A server that crashed is back.
    Start(usize),
    /// The Sentinels make a server the replica of the master, unless it is the master.
    Demote(usize),
}

impl World {
    pub(super) fn happen(&mut self, event: Event) {
        match event {
            Event::Write => {
                self.write();
                self.schedule(100, Event::Write);
            }
            Event::Trouble => {
                if self.now.as_nanos() < super::CHAOS.as_nanos() as u64 {
                    self.trouble();
                    let wait = 100 + self.rng.below(6000);
                    self.schedule(wait, Event::Trouble);
                }
            }
            Event::Calm => self.calm(),
            Event::Answer(line) => self.answer(line),
            Event::Connect(number) => self.connected(number),
            Event::Timeout(number) => self.timed_out(number),
            Event::Hear(at) => self.hear(at),
            Event::ReachSentinel(at) => self.sentinels[at].is_reached = true,
            Event::ReachServer(at) => self.servers[at].is_reached = true,
            Event::Join(at) => {
                self.sentinels[at].is_joined = true;
                self.hear(at);
            }
            Event::Start(at) => {
                self.servers[at].is_up = true;
                let wait = self.rng.below(2000);
                self.schedule(wait, Event::Demote(at));
            }
            Event::Demote(at) => self.demote(at),
        }
    }

    fn trouble(&mut self) {
        let (sentinel, server) = (self.rng.index(self.sentinels.len()), self.rng.index(3));
        let wait = 100 + self.rng.below(8000);
        match self.rng.below(8) {
            0..3 => self.fail_over(),
            3 => {
                self.say(&format!("sentinel-{sentinel} is out of the client's reach"));
                self.sentinels[sentinel].is_reached = false;
                // Half of the time its connections end, otherwise they fall silent.
                if self.rng.one_in(2) {
                    self.cut_lines(sentinel);
                }
                self.schedule(wait, Event::ReachSentinel(sentinel));
            }
            4 => {
                self.say(&format!("sentinel-{sentinel} is cut off from the others"));
                self.sentinels[sentinel].is_joined = false;
                self.schedule(wait, Event::Join(sentinel));
            }
            5 => {
                self.say(&format!("server-{server} is out of the client's reach"));
                self.servers[server].is_reached = false;
                self.schedule(wait, Event::ReachServer(server));
            }
            6 if self.was_connected && self.sentinels.iter().all(|it| !it.is_blank) => {
                self.say(&format!("sentinel-{sentinel} loses its memory"));
                self.cut_lines(sentinel);
                let it = &mut self.sentinels[sentinel];
                (it.is_joined, it.is_blank, it.epoch, it.master) = (false, true, 0, 0);
                self.schedule(wait, Event::Join(sentinel));
                self.forget_epochs();
            }
            _ => {
                self.say("the connection to the master is lost");
                self.lose("it was lost");
            }
        }
    }

    /// If the Sentinel that has lost its memory was the only one that knew of the last failover, all of
    /// them agree on the master of before, and the client may believe that.
    fn forget_epochs(&mut self) {
        let known = self.sentinels.iter().map(|it| it.epoch).max().unwrap_or(0);
        if known < self.learned {
            self.learned = known;
            self.report.count("an epoch that no Sentinel knows any more");
        }
    }

    /// The Sentinels that are joined make a replica the master, if they are a majority.
    fn fail_over(&mut self) {
        let joined: Vec<usize> =
            (0..self.sentinels.len()).filter(|at| self.sentinels[*at].is_joined).collect();
        let able = |at: &usize| *at != self.master && self.servers[*at].is_up;
        let able: Vec<usize> = (0..3).filter(able).collect();
        if joined.len() <= self.sentinels.len() / 2 || able.is_empty() {
            return;
        }
        let (old, leader) = (self.master, self.rng.pick(&joined));
        (self.master, self.epoch) = (self.rng.pick(&able), self.epoch + 1);
        let (new, epoch) = (self.master, self.epoch);
        self.say(&format!("failover {epoch}: server-{old} to server-{new}, led by {leader}"));
        self.report.count("failover");
        (self.servers[new].is_master, self.servers[new].epoch) = (true, epoch);
        if self.connection == (Connection::None) {
            self.report.count("failover while not connected");
        }
        // The old master crashes and comes back as it was, or goes on until it is told.
        let wait = self.rng.below(5000);
        if self.rng.one_in(2) {
            self.servers[old].is_up = false;
            self.schedule(wait, Event::Start(old));
        } else {
            self.report.count("the old master went on");
            self.schedule(wait, Event::Demote(old));
        }
        self.hear(leader);
        for at in 0..self.sentinels.len() {
            let wait = self.rng.below(2000);
            self.schedule(wait, Event::Hear(at));
        }
    }

    fn hear(&mut self, at: usize) {
        let sentinel = &mut self.sentinels[at];
        if !sentinel.is_joined {
            return;
        }
        sentinel.is_blank = false;
        if sentinel.epoch == self.epoch {
            return;
        }
        let old = self.servers[sentinel.master].address.clone();
        (sentinel.epoch, sentinel.master) = (self.epoch, self.master);
        if sentinel.is_reached {
            let text = announcement(&old, &self.servers[self.master].address);
            for line in self.lines_of(at) {
                if !self.subscribed.contains(&line) {
                    continue;
                }
                self.client.handle_input(self.now, line, text.as_bytes());
            }
        }
    }

    fn demote(&mut self, at: usize) {
        if at == self.master || !self.servers[at].is_up {
            return;
        }
        self.servers[at].is_master = false;
        // The server closes its clients' connections; the news may be lost.
        let is_here = matches!(self.connection, Connection::Open { server, .. } if server == at);
        if is_here && self.servers[at].is_reached && self.rng.one_in(2) {
            self.lose("the server closed it");
        }
    }

    fn cut_lines(&mut self, at: usize) {
        for line in self.lines_of(at) {
            self.lines.remove(&line);
            self.client.handle_closed(self.now, line, "its connection was lost");
        }
    }

    fn lines_of(&self, at: usize) -> Vec<LineId> {
        let mut lines: Vec<LineId> =
            self.lines.iter().filter(|(_, of)| **of == at).map(|(line, _)| *line).collect();
        lines.sort();
        lines
    }

    fn calm(&mut self) {
        for at in 0..self.sentinels.len() {
            let sentinel = &mut self.sentinels[at];
            (sentinel.is_reached, sentinel.is_joined) = (true, true);
            self.hear(at);
        }
        for at in 0..self.servers.len() {
            (self.servers[at].is_up, self.servers[at].is_reached) = (true, true);
            self.demote(at);
        }
    }
}
