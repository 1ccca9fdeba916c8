//! Pipelines: with one sync point, with several, and those that are given up.

use onetrip::{Pipeline, Reply};

use super::{INSERT, PostgresWriter};
use crate::ledger::{Begun, Claim};

impl PostgresWriter {
    /// One segment. Now and then it is flushed, a reply is taken early, or a row is refused and all
    /// others with it.
    pub(crate) async fn pipeline(&mut self) {
        let rows = self.some(2..9);
        let mut unit = self.begin("pipeline", rows);
        let mut pipeline = self.client.pipeline();
        let mut replies = self.push(&mut pipeline, &unit);
        if self.random.one_in(4) {
            pipeline.flush();
        }
        if self.random.one_in(4) {
            unit.provisional(&replies.remove(0).await);
        }
        unit.claim(&pipeline.finish().await);
        self.take(&mut unit, replies).await;
        self.end(unit);
    }

    /// Several segments, each a transaction of its own.
    pub(crate) async fn pipeline_of_segments(&mut self) {
        let count = self.some(2..5);
        let mut pipeline = self.client.pipeline();
        let mut segments = Vec::new();
        for _ in 0..count {
            let rows = self.some(1..4);
            let unit = self.begin("segment of a pipeline", rows);
            let replies = self.push(&mut pipeline, &unit);
            segments.push((unit, replies, pipeline.sync()));
        }
        // The result has the first failure, which may be that of any segment.
        let finished = pipeline.finish().await;
        for (mut unit, replies, sync) in segments {
            unit.claim(&sync.await);
            self.take(&mut unit, replies).await;
            if finished.is_ok() {
                unit.say(Claim::Acknowledged);
            }
            self.end(unit);
        }
    }

    /// Dropped before it is finished: what was sent is undone.
    pub(crate) async fn pipeline_given_up(&mut self) {
        let rows = self.some(1..5);
        let unit = self.begin("pipeline that is given up", rows);
        let mut pipeline = self.client.pipeline();
        let mut replies = self.push(&mut pipeline, &unit);
        match self.random.below(3) {
            0 => {}
            1 => pipeline.flush(),
            _ => drop(replies.remove(0).await),
        }
        drop(pipeline);
        self.end_as(unit, Claim::RolledBack);
    }

    fn push(&mut self, pipeline: &mut Pipeline, unit: &Begun) -> Vec<Reply<u64>> {
        let spoilt = self.random.one_in(8);
        let last = unit.numbers.end - 1;
        let numbers = unit.numbers.clone();
        let push = |n: i64| pipeline.execute(INSERT, &[&n, &!(spoilt && n == last)]);
        numbers.map(push).collect()
    }

    /// Takes replies after their pipeline has ended: they are final.
    async fn take(&self, unit: &mut Begun, replies: Vec<Reply<u64>>) {
        for reply in replies {
            let result = reply.await;
            unit.claim(&result);
            self.expect(unit, result.ok(), 1);
        }
    }
}
