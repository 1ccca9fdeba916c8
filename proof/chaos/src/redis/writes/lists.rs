//! Pipelines: independent commands, atomic ones, and pipelines that are dropped.

use onetrip::Error;
use onetrip::redis::{Pipeline, Position, Running, Sends};

use super::RedisWriter;
use crate::ledger::{Begun, Claim};
use crate::redis::keys::{push, put, refused, written};

/// A command of a pipeline: its unit, the position of its reply, and the reply it must get.
type Added = (Begun, Position<i64>, i64);

impl RedisWriter {
    /// Up to a hundred commands, some of which are refused, and some of which are scripts.
    pub(crate) async fn pipeline(&mut self) {
        let (commands, running) = self.run_pipeline();
        if self.random.one_in(10) {
            drop(running);
            return commands.into_iter().for_each(|(unit, ..)| self.end_as(unit, Claim::Forgotten));
        }
        let replies = running.await;
        for (unit, position, own) in commands {
            let result = replies.as_ref().map_err(Clone::clone);
            self.take(unit, result.and_then(|replies| replies.get(position)), own);
        }
    }

    fn run_pipeline(&mut self) -> (Vec<Added>, Running) {
        let count = self.some(2..100);
        let pipeline = self.client.pipeline();
        let mut commands = Vec::new();
        for unit in self.begin_each("command of a pipeline", count) {
            let (position, own) = self.add(&pipeline, unit.numbers.start);
            commands.push((unit, position, own));
        }
        (commands, pipeline.run())
    }

    /// Adds a command that writes a number. Returns the position of its reply and the reply it must
    /// get.
    fn add(&mut self, pipeline: &Pipeline<'_>, n: i64) -> (Position<i64>, i64) {
        let tag = self.tag();
        match self.random.below(16) {
            0 => (pipeline.send(refused(tag, n)), n),
            1 => (pipeline.script(self.own.script.call([written(tag)], [n])), n),
            _ => (pipeline.send(put(tag, n)), n + 1),
        }
    }

    fn take(&self, mut unit: Begun, result: Result<i64, Error>, own: i64) {
        unit.claim(&result);
        self.expect(&unit, result.ok(), own);
        self.end(unit);
    }

    /// A pipeline that is dropped before it is run: none of its commands is ever sent.
    pub(crate) async fn pipeline_given_up(&mut self) {
        let count = self.some(1..5);
        let units = self.begin_each("pipeline that is given up", count);
        let pipeline = self.client.pipeline();
        for unit in &units {
            let _ = pipeline.send::<i64>(put(0, unit.numbers.start));
        }
        drop(pipeline);
        units.into_iter().for_each(|unit| self.end_as(unit, Claim::RolledBack));
    }

    /// All or none. If the server refuses to queue a command, none of them runs; if a command fails
    /// as it runs, the others still take effect.
    pub(crate) async fn atomic(&mut self) {
        let (tag, rows) = (self.tag(), self.some(2..12));
        let (mut unit, mut wrong) = (self.begin("atomic", rows), None);
        let list = self.client.atomic();
        let mut places = Vec::new();
        for n in unit.numbers.clone() {
            match self.random.one_in(2) {
                true => _ = list.send::<i64>(put(tag, n)),
                false => places.push((n, list.send::<u64>(push(tag, n)))),
            }
        }
        match self.random.below(12) {
            0 => _ = list.cmd("GET").send::<()>(),
            1 => {
                let other = self.begin("failure within an atomic list", 1);
                let at = list.send::<i64>(refused(tag, other.numbers.start));
                wrong = Some((other, at));
            }
            _ => {}
        }
        let running = list.run();
        if self.random.one_in(10) {
            drop(running);
            wrong.into_iter().for_each(|(other, _)| self.end_as(other, Claim::Forgotten));
            return self.end_as(unit, Claim::Forgotten);
        }
        let result = running.await;
        unit.claim(&result);
        for (n, place) in places {
            let at = result.as_ref().ok().map(|replies| replies.get(place).unwrap());
            at.into_iter().for_each(|at| self.own.book.placed(tag, at, n));
        }
        if let Some((mut other, at)) = wrong {
            other.claim(&result.and_then(|replies| replies.get(at)));
            self.end(other);
        }
        self.end(unit);
    }
}
