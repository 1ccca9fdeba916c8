//! The Sentinels: who they are, and what each said in this round.

use onetrip_engine::Time;

use super::answer::{Answer, SENTINELS_MAX};
use super::believe::{Seen, believe, distinct, is_majority, known, newest};
use super::line::{Line, LineId};
use super::{Output, Role, Sentinels};
use crate::redirect::Address;

/// One Sentinel.
pub(super) struct Peer {
    pub(super) address: Address,
    is_configured: bool,
    pub(super) line: Option<Line>,
    /// Its id, once it was told.
    id: Option<String>,
    said: Said,
}

/// What it said in this round. The failure or the answer of an earlier round stays until there is
/// something newer to say, so that an error at the beginning of a round has reasons too.
enum Said {
    Nothing,
    Answer(Answer),
    /// An answer of an earlier round. It explains, and does not count.
    Earlier(Answer),
    Failed(String),
}

impl Peer {
    pub(super) fn new(address: Address, is_configured: bool) -> Peer {
        Peer { address, is_configured, line: None, id: None, said: Said::Nothing }
    }

    /// Its connection has ended. An answer that it gave before stays.
    pub(super) fn fail(&mut self, why: &str) {
        self.line = None;
        if !matches!(self.said, Said::Answer(_)) {
            self.said = Said::Failed(why.to_owned());
        }
    }

    pub(super) fn explain(&self) -> String {
        let said = match &self.said {
            Said::Nothing => "did not answer yet",
            Said::Failed(why) => why,
            Said::Answer(answer) => return format!("{} names {}", self.address, named(answer)),
            Said::Earlier(answer) => {
                let named = named(answer);
                return format!("{} names {named}, and was asked again", self.address);
            }
        };
        format!("{}: {said}", self.address)
    }

    fn awaits(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.deadline != Time::NEVER)
    }
}

/// The master that a Sentinel names, and since when.
fn named(answer: &Answer) -> String {
    let epoch = answer.epoch.map(|epoch| format!(" (epoch {epoch})"));
    format!("{}{}", answer.master, epoch.unwrap_or_default())
}

impl Sentinels {
    pub(super) fn peer_of(&self, line: LineId) -> Option<usize> {
        let has = |peer: &Peer| peer.line.as_ref().is_some_and(|it| it.id == line);
        self.peers.iter().position(has)
    }

    /// Closes the connection of a Sentinel, if it has one; `why` if that is a failure.
    pub(super) fn drop_line(&mut self, at: usize, why: Option<&str>) {
        let peer = &mut self.peers[at];
        if let Some(line) = peer.line.take() {
            self.outputs.push_back(Output::Close { line: line.id });
        }
        if let Some(why) = why {
            peer.said = Said::Failed(why.to_owned());
        }
    }

    /// Does what the time and the last event ask for.
    pub(super) fn settle(&mut self, now: Time) {
        if self.is_closed {
            return;
        }
        let is_late = |peer: &Peer| peer.line.as_ref().is_some_and(|line| line.deadline <= now);
        for at in 0..self.peers.len() {
            if is_late(&self.peers[at]) {
                self.drop_line(at, Some("did not answer in time"));
            }
        }
        self.end_round(now);
        let was_decided = self.rounds.is_decided;
        if self.rounds.begins(now) {
            self.begin_round(now, was_decided);
        }
        if self.reads.due() <= now && self.reads.choose(now) {
            self.outputs.push_back(Output::Changed(Role::Replica));
        }
    }

    /// A Sentinel answered all questions.
    pub(super) fn take_answer(&mut self, now: Time, at: usize, answer: Answer) {
        let of_others = answer.sentinels.clone();
        let peer = &mut self.peers[at];
        peer.id.clone_from(&answer.id);
        peer.said = Said::Answer(answer);
        for (address, id) in of_others {
            let is_known = |peer: &Peer| peer.address == address || (id.is_some() && peer.id == id);
            if self.peers.len() < SENTINELS_MAX && !self.peers.iter().any(is_known) {
                self.peers.push(Peer { id, ..Peer::new(address, false) });
                let last = self.peers.len() - 1;
                self.ask(now, last);
            }
        }
        self.decide(now);
        // Announcements of a few are enough.
        let watched = |peer: &&Peer| peer.line.is_some() && !peer.awaits();
        if self.peers.iter().filter(watched).count() > self.limits.watched_max {
            self.drop_line(at, None);
        }
    }

    fn begin_round(&mut self, now: Time, was_decided: bool) {
        // Sentinels that were learned, and that nobody knows any more, are left out.
        let voices: Vec<Answer> = self.answers().cloned().collect();
        let is_known = |peer: &Peer| {
            !was_decided
                || peer.is_configured
                || matches!(peer.said, Said::Answer(_))
                || voices.iter().any(|it| it.sentinels.iter().any(|one| one.0 == peer.address))
        };
        for at in (0..self.peers.len()).rev() {
            self.drop_line(at, None);
            if !is_known(&self.peers[at]) {
                self.peers.remove(at);
            }
        }
        for at in 0..self.peers.len() {
            self.ask(now, at);
        }
    }

    fn ask(&mut self, now: Time, at: usize) {
        self.opened += 1;
        let line = LineId(self.opened);
        let peer = &mut self.peers[at];
        peer.said = match std::mem::replace(&mut peer.said, Said::Nothing) {
            Said::Answer(answer) => Said::Earlier(answer),
            other => other,
        };
        peer.line = Some(Line::new(line, now.after(self.limits.answer_time_max)));
        let (address, send) = (peer.address.clone(), self.questions.bytes.clone());
        self.outputs.push_back(Output::Open { line, address, send });
    }

    fn end_round(&mut self, now: Time) {
        if self.rounds.is_open && !self.peers.iter().any(Peer::awaits) {
            self.rounds.end(now);
            if !self.rounds.is_decided {
                self.outputs.push_back(Output::NotFound);
            }
        }
    }

    fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.peers.iter().filter_map(|peer| match &peer.said {
            Said::Answer(answer) => Some(answer),
            _ => None,
        })
    }

    /// How many Sentinels there are, of which these answered.
    fn known(&self, voices: &[&Answer]) -> usize {
        known(voices, (self.silent(voices, true), self.silent(voices, false)))
    }

    /// How many did not answer, of those that were configured or of the others.
    fn silent(&self, voices: &[&Answer], configured: bool) -> usize {
        let mut ids: Vec<&Option<String>> = voices.iter().map(|voice| &voice.id).collect();
        let is_silent = |peer: &&Peer| {
            peer.is_configured == configured && !matches!(peer.said, Said::Answer(_))
        };
        let mut count = 0;
        for peer in self.peers.iter().filter(is_silent) {
            if peer.id.is_none() || !ids.contains(&&peer.id) {
                ids.push(&peer.id);
                count += 1;
            }
        }
        count
    }

    /// How many answered, if that is no majority.
    pub(super) fn lacks(&self) -> Option<String> {
        let voices = distinct(self.answers());
        let (heard, known) = (voices.len(), self.known(&voices).max(self.known));
        let needed = known / 2 + 1;
        (!is_majority(heard, known))
            .then(|| format!("{heard} of {known} Sentinels answered, and {needed} must"))
    }

    /// Another Sentinel has answered: what do they show by now?
    fn decide(&mut self, now: Time) {
        let answers: Vec<Answer> = self.answers().cloned().collect();
        let voices = distinct(answers.iter());
        let known = self.known(&voices);
        let newest = newest(&voices, self.told.as_ref());
        // Those who know of fewer Sentinels than there were must be a majority of what there was.
        let believed = believe(&voices, known.max(self.known), newest.as_ref());
        let is_newer = |it: &Seen| self.seen.as_ref().is_some_and(|seen| seen.epoch < it.epoch);
        let seen = match believed {
            Some(seen) => {
                self.known = known;
                seen
            }
            // A majority gives an epoch to a failover. So one Sentinel that knows a newer epoch is
            // enough for a client that knew an older one.
            None => match newest.clone().filter(is_newer) {
                Some(newer) => newer,
                None => return self.told = newest,
            },
        };
        let of_this = voices.iter().filter(|voice| voice.master == seen.address);
        let replicas: Option<Vec<Address>> =
            of_this.map(|voice| voice.replicas.clone()).reduce(|all, more| [all, more].concat());
        self.learn(seen);
        if replicas.is_some_and(|replicas| self.reads.learn(now, replicas)) {
            self.outputs.push_back(Output::Changed(Role::Replica));
        }
    }

    fn learn(&mut self, seen: Seen) {
        let is_same = self.seen.as_ref().is_some_and(|old| {
            old.address == seen.address
                && (old.epoch.is_none() || seen.epoch.is_none() || old.epoch == seen.epoch)
        });
        let was_confirmed = self.is_confirmed;
        if !is_same {
            self.number += 1;
            self.failure = None;
        }
        // What is new was not lost yet. Of what is not, only later answers count.
        self.is_confirmed |= !is_same || self.rounds.counts();
        self.rounds.is_decided |= self.is_confirmed;
        self.told = Some(seen.clone());
        self.seen = Some(seen);
        if !is_same || self.is_confirmed != was_confirmed {
            self.outputs.push_back(Output::Changed(Role::Master));
        }
    }
}
