//! Streams of commands.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_core::Stream;

use super::RedisWriter;
use crate::ledger::{Begun, Claim};
use crate::redis::keys::put;

impl RedisWriter {
    /// A few hundred commands; each begins when it is taken from the iterator. Each command taken
    /// ends, unless the stream is dropped.
    pub(crate) async fn stream(&mut self) {
        let (count, window) = (self.some(1..400), self.some(1..100));
        let last = if self.random.one_in(4) { self.some(0..count) } else { i64::MAX };
        let taken: Arc<Mutex<VecDeque<Begun>>> = Arc::default();
        let (task, ledger, tags) = (self.task, self.ledger.clone(), self.own.keys.tags);
        let begin = |_| {
            let unit = ledger.begin(task, "command of a stream", 1);
            let n = unit.numbers.start;
            taken.lock().unwrap().push_back(unit);
            put(n as u64 % tags, n)
        };
        let stream = self.client.stream::<i64, _>((0..count).map(begin)).window(window as usize);
        let mut stream = pin!(stream);
        for _ in 0..last {
            let Some(result) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await else { return };
            let unit = taken.lock().unwrap().pop_front();
            // Without a connection the stream takes no command.
            let Some(unit) = unit else { return };
            self.answered(unit, &result);
        }
        let rest = std::mem::take(&mut *taken.lock().unwrap());
        rest.into_iter().for_each(|unit| self.end_as(unit, Claim::Forgotten));
    }
}
