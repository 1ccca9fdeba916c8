//! Pipelines and batches on the client, in sessions and in transactions.

use onetrip::{Pipeline, Reply, Row};

use super::{INSERT, PLAIN, SessionsWriter};
use crate::ledger::{Begun, Claim};

impl SessionsWriter {
    /// One segment on a shared connection, a session or within a transaction.
    pub(crate) async fn pipeline(&mut self) {
        let rows = self.some(2..9);
        let mut unit = self.begin("pipeline", rows);
        match self.random.below(3) {
            0 => {
                let pipeline = self.client.pipeline();
                self.fill_and_finish(&mut unit, pipeline).await;
            }
            1 => match self.client.session().await {
                Ok(session) => self.fill_and_finish(&mut unit, session.pipeline()).await,
                Err(error) => unit.claim::<()>(&Err(error)),
            },
            _ => match self.client.begin().await {
                Ok(tx) => {
                    let mut inner = tx.pipeline();
                    let replies = self.fill(&mut inner, &unit);
                    drop(inner.finish());
                    unit.claim(&tx.commit().await);
                    self.take_all(&unit, replies).await;
                }
                Err(error) => unit.claim::<()>(&Err(error)),
            },
        }
        self.end(unit);
    }

    async fn fill_and_finish(&mut self, unit: &mut Begun, mut pipeline: Pipeline) {
        let replies = self.fill(&mut pipeline, unit);
        unit.claim(&pipeline.finish().await);
        self.take_all(unit, replies).await;
    }

    fn fill(&mut self, pipeline: &mut Pipeline, unit: &Begun) -> Vec<Reply<Row>> {
        let last = self.random.one_in(8).then_some(unit.numbers.end - 1);
        let push = |n: i64| pipeline.query_one(INSERT, &[&n, &false, &(Some(n) != last)]);
        unit.numbers.clone().map(push).collect()
    }

    async fn take_all(&self, unit: &Begun, replies: Vec<Reply<Row>>) {
        for (number, reply) in unit.numbers.clone().zip(replies) {
            let row = reply.await;
            row.iter().for_each(|row| self.hold("a pipeline", number, row));
        }
    }

    /// Several independent segments.
    pub(crate) async fn segments(&mut self) {
        let count = self.some(2..5);
        let mut pipeline = self.client.pipeline();
        let mut segments = Vec::new();
        for _ in 0..count {
            let rows = self.some(1..4);
            let unit = self.begin("segment", rows);
            let replies = self.fill(&mut pipeline, &unit);
            segments.push((unit, replies, pipeline.sync()));
        }
        let finished = pipeline.finish().await;
        for (mut unit, replies, sync) in segments {
            unit.claim(&sync.await);
            self.take_all(&unit, replies).await;
            if finished.is_ok() {
                unit.say(Claim::Acknowledged);
            }
            self.end(unit);
        }
    }

    /// A reply is taken before the pipeline's end; then the pipeline is finished or dropped.
    pub(crate) async fn pipeline_in_part(&mut self) {
        let rows = self.some(2..5);
        let mut unit = self.begin("pipeline of which a reply is taken early", rows);
        let mut pipeline = self.client.pipeline();
        let mut replies = self.fill(&mut pipeline, &unit);
        let early = replies.remove(0).await;
        unit.provisional(&early);
        early.iter().for_each(|row| self.hold("an early reply", unit.numbers.start, row));
        match self.random.one_in(2) {
            true => {
                drop(pipeline);
                unit.say(Claim::RolledBack);
            }
            false => unit.claim(&pipeline.finish().await),
        }
        self.end(unit);
    }

    /// All rows or none, by the client or a session.
    pub(crate) async fn atomic_batch(&mut self) {
        if !self.own.setting.knows_names() {
            return self.pipeline().await;
        }
        let rows = self.some(2..40);
        let mut unit = self.begin("atomic batch", rows);
        let bad = self.random.one_in(8).then_some(unit.numbers.end - 1);
        let rows = unit.numbers.clone().map(|n| (n, Some(n) != bad));
        let session = match self.random.one_in(2) {
            true => self.client.session().await.ok(),
            false => None,
        };
        let batch = match &session {
            Some(session) => Box::pin(session.batch(PLAIN, rows).atomic()) as AtomicBatch<'_>,
            None => Box::pin(self.client.batch(PLAIN, rows).atomic()),
        };
        if self.random.one_in(10) {
            drop(batch);
            unit.say(Claim::Forgotten);
        } else {
            let result = batch.await.map_err(|error| error.error().clone());
            unit.claim(&result);
        }
        self.end(unit);
    }

    /// Each row by itself.
    pub(crate) async fn isolated_batch(&mut self) {
        if !self.own.setting.knows_names() {
            return self.inserts().await;
        }
        let count = self.some(2..12);
        let mut units = self.begin_each("row of an isolated batch", count);
        let bad = self.random.one_in(3).then_some(units[0].numbers.start);
        let rows: Vec<_> = units.iter().map(|unit| unit.numbers.start).collect();
        let rows: Vec<_> = rows.into_iter().map(|n| (n, Some(n) != bad)).collect();
        let report = self.client.batch(PLAIN, rows).isolated().await;
        for error in report.errors() {
            let index = error.index().expect("an error in a report has the number of its row");
            units[index as usize].claim::<()>(&Err(error.error().clone()));
        }
        let failed: Vec<_> = report.errors().iter().filter_map(|error| error.index()).collect();
        let taken = report.affected().len();
        for (index, mut unit) in units.into_iter().enumerate() {
            let index = index as u64;
            if !failed.contains(&index) {
                // A row that the batch never took from the iterator was not sent.
                let is_taken = index < taken;
                unit.say(if is_taken { Claim::Acknowledged } else { Claim::NotSent });
            }
            self.end(unit);
        }
    }
}

type AtomicBatch<'a> = std::pin::Pin<
    Box<dyn Future<Output = Result<onetrip::Affected, onetrip::BatchError>> + Send + 'a>,
>;
