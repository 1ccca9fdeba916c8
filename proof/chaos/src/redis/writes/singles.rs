//! Commands that stand alone: shared, pushed, counted, late, forgotten, rejected, repeatable, and
//! scripts.

use std::time::Duration;

use onetrip::redis::{Command, Reply, Sends};

use super::RedisWriter;
use crate::ledger::{Begun, Claim};
use crate::redis::keys::{push, put, refused, written};
use crate::writer::polled;

impl RedisWriter {
    /// Several commands at once; each reply is the command's own number plus one.
    pub(crate) async fn singles(&mut self) {
        let count = self.some(1..6);
        let mut units = Vec::new();
        for _ in 0..count {
            let (tag, unit) = (self.tag(), self.begin("single", 1));
            let reply = self.client.send::<i64>(put(tag, unit.numbers.start));
            units.push((unit, reply));
        }
        for (unit, reply) in units {
            self.answered(unit, &reply.await);
        }
    }

    /// Several pushes at once; each reply is the position of the number.
    pub(crate) async fn pushes(&mut self) {
        let (count, tag) = (self.some(1..6), self.tag());
        let units = self.begin_each("push", count);
        let push = |unit: &Begun| self.client.send::<u64>(push(tag, unit.numbers.start));
        let replies: Vec<Reply<u64>> = units.iter().map(push).collect();
        for (mut unit, reply) in units.into_iter().zip(replies) {
            let result = reply.await;
            unit.claim(&result);
            result.iter().for_each(|at| self.own.book.placed(tag, *at, unit.numbers.start));
            self.end(unit);
        }
    }

    /// Several INCRs of the task's counter at once.
    pub(crate) async fn counts(&mut self) {
        let count = self.some(1..8);
        let key = self.own.keys.counter(self.task);
        let mut units = Vec::new();
        for _ in 0..count {
            units.push((self.begin("count", 0), self.client.cmd("INCR").arg(&key).send::<i64>()));
        }
        let mut counted = Vec::new();
        for (mut unit, reply) in units {
            let result = reply.await;
            unit.claim(&result);
            counted.push((Claim::of(&result), result.ok()));
            self.end(unit);
        }
        self.own.book.counted(self.task, counted);
    }

    /// ECHO: a short or a long text must come back unchanged.
    pub(crate) async fn echo(&mut self) {
        let mut unit = self.begin("echo", 0);
        let times = self.some(1..2_000) as usize;
        let text = format!("{}:{} ", self.task, self.random.below(1 << 40)).repeat(times);
        let result = self.client.cmd("ECHO").arg(&text).send::<String>().await;
        unit.claim(&result);
        self.expect(&unit, result.ok(), text);
        self.end(unit);
    }

    pub(crate) async fn rejected_single(&mut self) {
        let (tag, mut unit) = (self.tag(), self.begin("single that is refused", 1));
        let result = self.client.send::<i64>(refused(tag, unit.numbers.start)).await;
        unit.claim(&result);
        self.end(unit);
    }

    /// One command with a short deadline.
    pub(crate) async fn hurried_single(&mut self) {
        let time = Duration::from_millis(1 + self.random.below(60));
        let (tag, unit) = (self.tag(), self.begin("single with a deadline", 1));
        let reply = self.client.timeout(time).send::<i64>(put(tag, unit.numbers.start));
        self.answered(unit, &reply.await);
    }

    /// One command whose reply is dropped, at once or after it was polled some times.
    pub(crate) async fn forgotten_single(&mut self) {
        let (tag, unit) = (self.tag(), self.begin("single whose reply is dropped", 1));
        let mut reply = self.client.send::<i64>(put(tag, unit.numbers.start));
        let early = polled(&mut reply, self.random.below(3)).await;
        drop(reply);
        self.end_as(unit, early.map_or(Claim::Forgotten, |result| Claim::of(&result)));
    }

    /// One command that may run twice, so it is sent again when its connection is lost.
    pub(crate) async fn repeated_single(&mut self) {
        let (tag, mut unit) = (self.tag(), self.begin("repeatable single", 1));
        let n = unit.numbers.start;
        let set = Command::new("HSET").arg(written(tag)).arg(n).arg(n + 1);
        let result = self.client.repeatable().send::<i64>(set).await;
        unit.claim(&result);
        self.end(unit);
    }

    /// A script that writes all its numbers or none. Now and then the server's script cache is
    /// flushed.
    pub(crate) async fn script(&mut self) {
        if self.random.one_in(20) {
            let unit = self.begin("forgetting scripts", 0);
            let _ = self.client.cmd("SCRIPT FLUSH").send::<()>().await;
            // Some nodes may have done it and others not.
            self.end_as(unit, Claim::Forgotten);
        }
        let (tag, rows) = (self.tag(), self.some(1..20));
        let mut unit = self.begin("script", rows);
        let call = self.own.script.call([written(tag)], unit.numbers.clone());
        let result = self.client.script::<i64>(call).await;
        unit.claim(&result);
        self.expect(&unit, result.ok(), unit.numbers.end - 1);
        self.end(unit);
    }
}
