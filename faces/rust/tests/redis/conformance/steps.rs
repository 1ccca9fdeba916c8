//! The steps of `redis_policies.json`, one after the other.

use std::pin::Pin;

use onetrip::Error;
use onetrip::redis::{Client, Reply, Session, Subscription, Value};
use serde_json::Value as Json;

use super::{Asked, json_of, on_key, send};
use crate::support::{key, server};

/// Where a step's commands go.
#[derive(Clone, Copy)]
enum At<'a> {
    Client(&'a Client),
    Session(&'a Session),
}

/// Builds and sends a list of commands on any target that sends lists.
macro_rules! list {
    ($self:expr, $to:expr, $way:ident, $step:expr) => {{
        let list = $to.$way();
        let all = $self.all(&$step[stringify!($way)]);
        let positions: Vec<_> = all.iter().map(|it| send!(list, it)).collect();
        match (list.run().await, &$step["refused"]) {
            (Err(error), refused) if !refused.is_null() => $self.refused(&error, refused),
            (ended, refused) => {
                assert!(refused.is_null(), "{}: it was not refused", $self.name);
                let replies = ended.unwrap();
                for (asked, position) in all.iter().zip(positions) {
                    asked.check(replies.get(position), &$self.name);
                }
            }
        }
    }};
}

/// A case while it runs.
struct Run {
    name: String,
    key: String,
    client: Client,
    /// A client that is not under test.
    other: Client,
}

impl Run {
    fn steps<'a>(
        &'a self,
        at: At<'a>,
        heard: &'a mut Option<Subscription>,
        steps: &'a Json,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            for step in steps.as_array().into_iter().flatten() {
                self.step(at, heard, step).await;
            }
        })
    }

    async fn step(&self, at: At<'_>, heard: &mut Option<Subscription>, step: &Json) {
        let at = if step["on"] == "other" { At::Client(&self.other) } else { at };
        if step["command"].is_array() || step["script"].is_string() {
            let asked = Asked::new(step, &self.key);
            asked.check(send_at(at, &asked).await, &self.name);
        } else if step["session"].is_array() {
            let session = self.client.session().await.unwrap();
            self.steps(At::Session(&session), heard, &step["session"]).await;
        } else if step["pipeline"].is_array() {
            match at {
                At::Client(client) => list!(self, client, pipeline, step),
                At::Session(session) => list!(self, session, pipeline, step),
            }
        } else if step["atomic"].is_array() {
            match at {
                At::Client(client) => list!(self, client, atomic, step),
                At::Session(session) => list!(self, session, atomic, step),
            }
        } else if step["together"].is_array() {
            let all = self.all(&step["together"]);
            let replies: Vec<_> = all.iter().map(|it| send_at(at, it)).collect();
            self.steps(at, heard, &step["meanwhile"]).await;
            for (asked, reply) in all.iter().zip(replies) {
                asked.check(reply.await, &self.name);
            }
        } else {
            self.wait(at, heard, step).await;
        }
    }

    /// Watches keys, and waits for what others do.
    async fn wait(&self, at: At<'_>, heard: &mut Option<Subscription>, step: &Json) {
        let texts = |json: &Json| -> Vec<String> {
            let all = on_key(json, &self.key);
            all.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
        };
        if step["watch"].is_array() {
            let At::Session(session) = at else { panic!("a session watches") };
            session.watch(texts(&step["watch"])).await.unwrap();
        } else if step["subscribe"].is_array() {
            let mut subscription =
                Some(self.client.subscribe(texts(&step["subscribe"])).await.unwrap());
            self.steps(at, &mut subscription, &step["steps"]).await;
        } else if step["hear"].is_array() {
            let message = heard.as_mut().unwrap().next().await.unwrap();
            let came = [message.channel, message.payload];
            assert_eq!(
                came.map(|it| String::from_utf8(it.to_vec()).unwrap())[..],
                texts(&step["hear"])
            );
        } else if step["reconnects"].is_u64() {
            let reconnects = heard.as_ref().unwrap().reconnects();
            assert_eq!(Some(reconnects), step["reconnects"].as_u64(), "{}", self.name);
        } else if step["until"].is_object() {
            let asked = Asked::new(&step["until"], &self.key);
            let at = if step["until"]["on"] == "other" { At::Client(&self.other) } else { at };
            let wanted = &asked.expected["reply"];
            let holds =
                |it: Result<Value, Error>| it.is_ok_and(|it| json_of(&it, wanted) == *wanted);
            while !holds(send_at(at, &asked).await) {
                tokio::task::yield_now().await;
            }
        } else {
            panic!("{}: there is no step {step}", self.name);
        }
    }

    fn all(&self, commands: &Json) -> Vec<Asked> {
        commands.as_array().unwrap().iter().map(|it| Asked::new(it, &self.key)).collect()
    }

    fn refused(&self, error: &Error, expected: &Json) {
        let outcome = format!("{:?}", error.outcome());
        assert_eq!(Some(&*outcome), expected["outcome"].as_str(), "{}: {error}", self.name);
        if let Some(code) = expected["code"].as_str() {
            assert_eq!(error.code(), code, "{}: {error}", self.name);
        }
    }
}

fn send_at(at: At<'_>, asked: &Asked) -> Reply<Value> {
    match at {
        At::Client(client) => send!(client, asked),
        At::Session(session) => send!(session, asked),
    }
}

#[tokio::test]
async fn each_policy_is_as_the_cases_say() {
    let Some(server) = server(Default::default()) else { return };
    let path =
        format!("{}/../../proof/conformance/redis_policies.json", env!("CARGO_MANIFEST_DIR"));
    let file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(!cases.is_empty(), "there are no cases");
    for case in cases {
        let name = case["name"].as_str().unwrap().to_owned();
        println!("{name}");
        assert!(case["differs"]["rust"].is_null(), "{name}: it is the measure");
        let key = format!("{{{}}}", key("conformance"));
        let client = Client::connect(&server.url()).await.unwrap();
        let other = Client::connect(&server.url()).await.unwrap();
        let run = Run { name, key, client, other };
        run.steps(At::Client(&run.client), &mut None, &case["steps"]).await;
    }
}
