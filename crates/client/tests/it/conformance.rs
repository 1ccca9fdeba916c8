//! The cases in `conformance/`, which every language runs. Their form is described in its README.

mod statements;
mod values;

use onetrip::{Error, Outcome, Session};
use serde_json::Value as Json;

use crate::pooled::shared;
use crate::support::*;
use statements::{Asked, ask};

/// Runs each case of a file under its name, on tables of its own.
async fn each_case(file: &str, run: impl AsyncFn(&Case)) {
    let cases = cases(file);
    assert!(!cases.is_empty(), "{file} has no cases");
    for json in cases {
        let case = Case { name: json["name"].as_str().unwrap().to_owned(), json };
        println!("{file}: {}", case.name);
        // A pooler may not allow one of them.
        match shared().refusal(&format!("conformance::{}", case.name)) {
            Some(why) => skipped(&format!("{}: {why}", case.name)),
            None => run(&case).await,
        }
    }
}

fn cases(file: &str) -> Vec<Json> {
    let path = format!("{}/../../conformance/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let file: Json = serde_json::from_str(&text).unwrap();
    file["cases"].as_array().unwrap().clone()
}

struct Case {
    name: String,
    json: Json,
}

impl Case {
    /// What stands in a list of the case, or nothing.
    fn list(&self, key: &str) -> &[Json] {
        self.json[key].as_array().map_or(&[], Vec::as_slice)
    }

    /// The statements of a list, on this table.
    fn statements(&self, key: &str, table: &str) -> Vec<Asked> {
        self.list(key).iter().map(|it| Asked::new(it, table)).collect()
    }

    /// A new name of a table, after what the case sets up on it.
    async fn set_up(&self, session: &Session) -> String {
        let table = shared().new_name();
        for text in self.list("setup") {
            session.script(&text.as_str().unwrap().replace("{t}", &table)).await.unwrap();
        }
        table
    }

    /// What has to hold afterwards.
    async fn then(&self, session: &Session, table: &str) {
        for asked in self.statements("then", table) {
            asked.check(ask!(session, asked).await, &self.name);
        }
    }

    /// An error that the case asks for, or none.
    fn check_end(&self, expected: &Json, ended: Result<(), Error>) {
        match (expected.is_null(), ended) {
            (true, ended) => ended.unwrap(),
            (false, Ok(())) => panic!("{}: it succeeded in place of {expected}", self.name),
            (false, Err(error)) => check_error(&error, expected, &self.name),
        }
    }
}

/// Whether an error is the one that was expected.
fn check_error(error: &Error, expected: &Json, name: &str) {
    let outcome = match error.outcome() {
        Outcome::NotSent => "NotSent",
        Outcome::Rejected => "Rejected",
        Outcome::Applied => "Applied",
        Outcome::Unknown => "Unknown",
    };
    let wanted = expected["outcome"].as_str().unwrap();
    assert!(wanted == "any" || wanted == outcome, "{name}: {outcome}: {error}");
    if let Some(sqlstate) = expected["sqlstate"].as_str() {
        assert_eq!(error.sqlstate(), Some(sqlstate), "{name}: {error}");
    }
    if let Some(message) = expected["message"].as_str() {
        assert_eq!(error.server().unwrap().message, message, "{name}");
    }
}

#[test]
fn values_are_read_as_they_are_and_sent_back_as_the_same() {
    run(async {
        let session = session().await;
        each_case("postgres_values.json", async |case| {
            let table = case.set_up(&session).await;
            values::check(&session, case, &table).await;
            if let Some(drop) = case.json["drop"].as_str() {
                session.script(&drop.replace("{t}", &table)).await.unwrap();
            }
        })
        .await;
    });
}

#[test]
fn statements_return_the_same_one_by_one_and_pipelined() {
    run(async {
        let session = session().await;
        each_case("postgres_statements.json", async |case| {
            let table = case.set_up(&session).await;
            for asked in case.statements("statements", &table) {
                asked.check(ask!(session, asked).await, &case.name);
            }
            case.then(&session, &table).await;

            let table = case.set_up(&session).await;
            let all = case.statements("statements", &table);
            let mut replies = Vec::new();
            for asked in &all {
                replies.push(ask!(session, asked));
            }
            for (asked, reply) in all.iter().zip(replies) {
                asked.check(reply.await, &case.name);
            }
            case.then(&session, &table).await;
        })
        .await;
    });
}

#[test]
fn a_list_of_statements_with_one_sync_point_stands_or_falls_as_a_whole() {
    run(async {
        let (client, session) = (client().await, session().await);
        each_case("postgres_pipelines.json", async |case| {
            let table = case.set_up(&session).await;
            let all = case.statements("statements", &table);
            let mut pipeline = client.pipeline();
            let mut replies = Vec::new();
            for asked in &all {
                replies.push(ask!(pipeline, asked));
            }
            case.check_end(&case.json["error"], pipeline.finish().await);
            for (asked, reply) in all.iter().zip(replies) {
                asked.check(reply.await, &case.name);
            }
            case.then(&session, &table).await;
        })
        .await;
    });
}

#[test]
fn transactions_return_and_leave_what_they_should() {
    run(async {
        let (client, session) = (client().await, session().await);
        each_case("postgres_transactions.json", async |case| {
            let table = case.set_up(&session).await;
            let options = statements::transaction_options(&case.json["begin"]);
            let tx = client.begin_with(options).await.unwrap();
            for asked in case.statements("statements", &table) {
                asked.check(ask!(tx, asked).await, &case.name);
            }
            let end = &case.json["end"];
            if end == "rollback" {
                tx.rollback().await.unwrap();
            } else {
                case.check_end(&end["commit"], tx.commit().await);
            }
            case.then(&session, &table).await;
        })
        .await;
    });
}
