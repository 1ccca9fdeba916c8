//! The steps of a case on any face. proof/conformance/README.md says what they do; the face's
//! [`Place`] does it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use onetrip::{Cancelled, Canceller, Error, TransactionOptions};
use onetrip_lab::proxy::Proxy;
use serde_json::Value as Json;

use super::statements::{Asked, Came, transaction_options};
use super::{Case, check_end, check_error};

pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
pub(super) type Answer<'a> = Boxed<'a, Result<Came, Error>>;
pub(super) type Done<'a> = Boxed<'a, Result<(), Error>>;

/// A submitted statement. A blocking face submits it only when its answer is awaited.
pub(super) struct Sent<'a> {
    pub(super) answer: Answer<'a>,
    pub(super) canceller: Option<Canceller>,
}

/// A target of statements: a client, or what it lends. A face implements the calls that it has.
pub(super) trait Place {
    fn ask<'a>(&'a self, asked: &'a Asked) -> Sent<'a>;

    fn session(&self) -> Boxed<'_, Result<Box<dyn Place>, Error>> {
        panic!("there is no session here")
    }

    fn begin(&mut self, _: TransactionOptions) -> Boxed<'_, Result<Box<dyn Place + '_>, Error>> {
        panic!("no transaction begins here")
    }

    fn savepoint(&mut self) -> Box<dyn Place + '_> {
        panic!("there are no savepoints here")
    }

    fn pipeline(&self) -> Box<dyn Group> {
        panic!("there are no pipelines here")
    }

    fn batch<'a>(&'a self, _: &'a Batch) -> Boxed<'a, (Option<u64>, Failures)> {
        panic!("there are no batches here")
    }

    /// Runs texts in a transaction, in at most this many attempts. Returns how many it took.
    fn run<'a>(&'a self, _: u32, _: &'a [String]) -> Boxed<'a, (u64, Result<(), Error>)> {
        panic!("nothing is run again here")
    }

    /// Ends a transaction or a savepoint: in the way the case names, or with its last statement.
    fn end<'a>(self: Box<Self>, _: End<'a>) -> Done<'a>
    where
        Self: 'a,
    {
        panic!("this has no end")
    }
}

/// How a transaction or a savepoint ends.
pub(super) enum End<'a> {
    Commit,
    Rollback,
    /// If nobody awaits it, it leaves with what comes next.
    Release {
        awaited: bool,
    },
    Drop,
    /// With its last statement.
    With(&'a Asked),
}

/// Statements that share sync points.
pub(super) trait Group {
    fn ask(&mut self, asked: &Asked) -> Answer<'static>;
    fn sync(&mut self) -> Done<'static>;
    fn flush(&mut self);
    fn finish(self: Box<Self>) -> Done<'static>;
}

/// One statement and many parameter sets.
pub(super) struct Batch {
    pub(super) text: String,
    pub(super) sets: Vec<Vec<i64>>,
    pub(super) is_atomic: bool,
}

/// The sets of a batch that failed, by their index.
pub(super) type Failures = Vec<(Option<u64>, Error)>;

/// A case while it runs.
pub(super) struct Run<'a> {
    pub(super) case: &'a Case,
    /// The face, as the cases call it.
    pub(super) face: &'static str,
    pub(super) table: &'a str,
    pub(super) client: &'a dyn Place,
    /// A client that is not under test: it checks the state, and does what has to happen meanwhile.
    pub(super) other: &'a dyn Place,
    /// The proxy between the client and its server.
    pub(super) proxy: &'a Proxy,
}

impl Run<'_> {
    pub(super) async fn steps(&self, here: &mut dyn Place, steps: &Json) {
        for step in steps.as_array().into_iter().flatten() {
            match step["differs"][self.face].as_str() {
                None => self.step(here, step).await,
                Some(why) => {
                    let same = !panics(self.step(here, step)).await;
                    assert!(!same, "{}: it differs no more: {why}", self.case.name);
                }
            }
        }
    }

    /// Checks what has to hold afterwards.
    pub(super) async fn then(&self) {
        for asked in self.case.list("then").iter().map(|it| self.asked(it)) {
            asked.check(self.other.ask(&asked).answer.await, &self.case.name);
        }
    }

    fn step<'a>(&'a self, here: &'a mut dyn Place, step: &'a Json) -> Boxed<'a, ()> {
        Box::pin(async move {
            let name = &self.case.name;
            if step["text"].is_string() {
                let to = match step["on"].as_str() {
                    None => &*here,
                    Some("client") => self.client,
                    Some("other") => self.other,
                    Some(other) => panic!("{name}: nothing is called {other}"),
                };
                let asked = self.asked(step);
                asked.check(to.ask(&asked).answer.await, name);
            } else if step["session"].is_array() {
                let mut session = self.client.session().await.unwrap();
                self.steps(&mut *session, &step["session"]).await;
            } else if !step["transaction"].is_null() {
                let options = transaction_options(&step["transaction"]);
                let mut tx = here.begin(options).await.unwrap();
                self.steps(&mut *tx, &step["steps"]).await;
                self.end(tx, &step["end"]).await;
            } else if !step["savepoint"].is_null() {
                let mut savepoint = here.savepoint();
                self.steps(&mut *savepoint, &step["savepoint"]).await;
                self.end(savepoint, &step["end"]).await;
            } else if step["trips"].is_u64() {
                self.proxy.reset_stats();
                self.steps(here, &step["steps"]).await;
                let trips = self.proxy.stats().trips;
                assert_eq!(Some(trips), step["trips"].as_u64(), "{name}: trips");
            } else if let Some(times) = step["times"].as_u64() {
                for _ in 0..times {
                    self.steps(here, &step["steps"]).await;
                }
            } else {
                self.list(here, step).await;
            }
        })
    }

    /// Runs statements that belong together.
    async fn list(&self, here: &dyn Place, step: &Json) {
        if step["together"].is_array() {
            self.together(here, &step["together"]).await;
        } else if step["pipeline"].is_array() {
            self.pipeline(here, step).await;
        } else if step["batch"].is_string() {
            self.batch(here, step).await;
        } else if step["run"].is_array() {
            let texts: Vec<String> =
                list(&step["run"]).iter().map(|it| self.on_table(it)).collect();
            let attempts_max = step["attempts_max"].as_u64().unwrap_or(10);
            let (attempts, ended) = here.run(attempts_max as u32, &texts).await;
            check_end(&step["error"], ended, &self.case.name);
            assert_eq!(Some(attempts), step["attempts"].as_u64(), "{}", self.case.name);
        } else {
            panic!("{}: there is no step {step}", self.case.name);
        }
    }

    async fn together(&self, here: &dyn Place, statements: &Json) {
        let all: Vec<Asked> = list(statements).iter().map(|it| self.asked(it)).collect();
        let mut sent: Vec<Sent<'_>> = all.iter().map(|it| here.ask(it)).collect();
        for (asked, sent) in all.iter().zip(&mut sent) {
            if asked.is_marked("killed") {
                self.once_it_runs(asked, "select pg_terminate_backend(pid)").await;
            } else if asked.is_marked("cancelled") {
                self.once_it_runs(asked, "select true").await;
                let cancelled = sent.canceller.take().unwrap().cancel();
                assert_eq!(cancelled.await, Cancelled::Yes, "{}", self.case.name);
            }
        }
        for (asked, sent) in all.iter().zip(sent) {
            asked.check(sent.answer.await, &self.case.name);
        }
    }

    /// Runs this query on the process that runs a statement, once there is one.
    async fn once_it_runs(&self, asked: &Asked, what: &str) {
        let sql = format!(
            "{what} from pg_stat_activity where wait_event = 'PgSleep' \
             and query = $1"
        );
        let ask = serde_json::json!({"text": sql, "parameters": [asked.text], "rows": []});
        let question = Asked::new(&ask, self.table);
        while !question.is_answered(self.other.ask(&question).answer.await) {}
    }

    async fn pipeline(&self, here: &dyn Place, step: &Json) {
        let name = &self.case.name;
        let mut group = here.pipeline();
        let mut open = Vec::new();
        for item in list(&step["pipeline"]) {
            if !item["sync"].is_null() {
                open.push(Open::Sync(group.sync(), &item["sync"]["error"]));
            } else if item["flush"] == true {
                group.flush();
            } else {
                let asked = self.asked(item);
                let answer = group.ask(&asked);
                match item["early"] == true {
                    true => asked.check(answer.await, name),
                    false => open.push(Open::Answer(answer, asked)),
                }
            }
        }
        check_end(&step["error"], group.finish().await, name);
        for open in open {
            match open {
                Open::Sync(sync, error) => check_end(error, sync.await, name),
                Open::Answer(answer, asked) => asked.check(answer.await, name),
            }
        }
    }

    async fn batch(&self, here: &dyn Place, step: &Json) {
        let name = &self.case.name;
        let set = |it: &Json| list(it).iter().map(|it| it.as_i64().unwrap()).collect();
        let batch = Batch {
            text: self.on_table(&step["batch"]),
            sets: list(&step["sets"]).iter().map(set).collect(),
            is_atomic: step["how"] == "atomic",
        };
        let (total, failures) = here.batch(&batch).await;
        let wanted = step["total"].as_u64();
        assert_eq!(total, wanted, "{name}: rows of the batch: {failures:?}");
        let expected = list(&step["failed"]);
        assert_eq!(failures.len(), expected.len(), "{name}: {failures:?}");
        for ((index, error), expected) in failures.iter().zip(expected) {
            assert_eq!(*index, expected["index"].as_u64(), "{name}: {error}");
            check_error(error, &expected["error"], name);
        }
    }

    async fn end(&self, place: Box<dyn Place + '_>, end: &Json) {
        let last = self.asked_if_any(&end["with"]);
        let (end, expected) = match (end.as_str(), &last) {
            (_, Some(last)) => (End::With(last), &Json::Null),
            (Some("commit"), _) => (End::Commit, &Json::Null),
            (Some("rollback"), _) => (End::Rollback, &Json::Null),
            (Some("release"), _) => (End::Release { awaited: false }, &Json::Null),
            (Some("drop"), _) => (End::Drop, &Json::Null),
            _ if end["commit"].is_object() => (End::Commit, &end["commit"]),
            _ if end["release"].is_object() => (End::Release { awaited: true }, &end["release"]),
            _ => panic!("{}: nothing ends by {end}", self.case.name),
        };
        check_end(expected, place.end(end).await, &self.case.name);
    }

    fn asked(&self, json: &Json) -> Asked {
        Asked::new(json, self.table)
    }

    fn asked_if_any(&self, json: &Json) -> Option<Asked> {
        json.is_object().then(|| self.asked(json))
    }

    fn on_table(&self, text: &Json) -> String {
        text.as_str().unwrap().replace("{t}", self.table)
    }
}

/// Replies of a pipeline that were not checked yet.
enum Open<'a> {
    Answer(Answer<'static>, Asked),
    Sync(Done<'static>, &'a Json),
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

/// Whether a check of these steps fails.
pub(super) async fn panics(mut steps: Boxed<'_, ()>) -> bool {
    let mut poll =
        move |cx: &mut std::task::Context<'_>| match catch_unwind(AssertUnwindSafe(|| {
            steps.as_mut().poll(cx)
        })) {
            Ok(poll) => poll.map(|()| false),
            Err(_) => Poll::Ready(true),
        };
    std::future::poll_fn(move |cx| poll(cx)).await
}
