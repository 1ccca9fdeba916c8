//! The cases in `proof/conformance/`, which every language runs. Their form is described in its
//! README.

mod places;
mod statements;
mod steps;
mod values;
mod waiting;

use onetrip::{Error, Outcome, Session, blocking};
use serde_json::{Value as Json, json};

use crate::pooled::shared;
use crate::support::*;
use steps::{Place, Run};

/// The steps of a case, in each of the ways to run it.
type Ways = fn(&Json) -> Vec<Json>;

/// Files whose cases need their steps derived: one way to run them, or several.
const FILES: [(&str, Ways); 9] = [
    ("postgres_statements.json", |case| {
        let all = &case["statements"];
        vec![all.clone(), json!([{"session": [{"together": all}]}])]
    }),
    ("postgres_pipelines.json", |case| {
        vec![json!([{"pipeline": case["statements"], "error": case["error"]}])]
    }),
    ("postgres_transactions.json", |case| {
        let (begin, steps, end) = (&case["begin"], &case["statements"], &case["end"]);
        vec![json!([{"transaction": begin, "steps": steps, "end": end}])]
    }),
    ("postgres_policies/prepared.json", steps_of),
    ("postgres_policies/transactions.json", steps_of),
    ("postgres_policies/pipelines.json", steps_of),
    ("postgres_policies/sessions.json", steps_of),
    ("postgres_policies/outcomes.json", steps_of),
    ("postgres_policies/migrations.json", steps_of),
];

fn steps_of(case: &Json) -> Vec<Json> {
    vec![case["steps"].clone()]
}

fn cases(file: &str) -> Vec<Case> {
    let path = format!("{}/../../proof/conformance/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let json: Json = serde_json::from_str(&text).unwrap();
    let cases = json["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{file} has no cases");
    cases.into_iter().map(Case::new).collect()
}

/// The words of the cases. A misspelt word would weaken its case unnoticed.
const WORDS: &str = "attempts attempts_max batch begin cancelled code columns commit copy count differs direct drop \
     early end error faces failed flush how index isolation killed message name on outcome \
     parameters pipeline read_only reads release repeatable rows run savepoint says session sets \
     settings setup since sqlstate statements steps sync text texts then timeout_ms times \
     together total transaction trips type with";

fn check_words(json: &Json) {
    for item in json.as_array().into_iter().flatten() {
        check_words(item);
    }
    for (word, value) in json.as_object().into_iter().flatten() {
        let word = word.as_str();
        assert!(WORDS.split(' ').any(|known| known == word), "{word} in {json}");
        if !["settings", "differs", "rows", "reads", "parameters"].contains(&word) {
            check_words(value);
        }
    }
}

struct Case {
    name: String,
    json: Json,
}

impl Case {
    fn new(json: Json) -> Case {
        check_words(&json);
        let name = json["name"].as_str().unwrap().to_owned();
        Case { name, json }
    }

    /// A list of the case; empty if the case has none.
    fn list(&self, key: &str) -> &[Json] {
        self.json[key].as_array().map_or(&[], Vec::as_slice)
    }

    /// Whether this face runs the case here: a pooler may not allow it.
    fn is_for(&self, face: &str) -> bool {
        let faces = self.list("faces");
        let name = format!("conformance::{}", self.name);
        let direct = self.json["direct"].as_str().filter(|_| shared().is_pooled());
        if let Some(why) = shared().refusal(&name).or(direct) {
            skipped(&format!("{}: {why}", self.name));
            return false;
        }
        if is_before(self.json["since"].as_u64().unwrap_or(0) as u32, &self.name) {
            return false;
        }
        faces.is_empty() || faces.iter().any(|it| it == face)
    }

    /// The settings of the case's client.
    fn settings(&self) -> String {
        let settings = self.json["settings"].as_object().into_iter().flatten();
        settings.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }

    /// The texts that set the case up, and the new name of a table.
    fn set_up(&self) -> (String, Vec<String>) {
        let table = shared().new_name();
        let texts = self.list("setup").iter();
        let texts = texts.map(|it| it.as_str().unwrap().replace("{t}", &table)).collect();
        (table, texts)
    }
}

/// Checks for the error that a case expects, or for success.
#[track_caller]
fn check_end(expected: &Json, ended: Result<(), Error>, name: &str) {
    match (expected.is_null(), ended) {
        (true, ended) => ended.unwrap_or_else(|error| panic!("{name}: {error}")),
        (false, Ok(())) => panic!("{name}: it succeeded in place of {expected}"),
        (false, Err(error)) => check_error(&error, expected, name),
    }
}

/// Checks that an error is the expected one.
#[track_caller]
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
    if let Some(code) = expected["code"].as_str() {
        assert_eq!(error.code(), code, "{name}: {error}");
    }
    if let Some(message) = expected["message"].as_str() {
        assert_eq!(error.server().unwrap().message, message, "{name}");
    }
    if let Some(says) = expected["says"].as_str() {
        assert!(error.to_string().starts_with(says), "{name}: {error}");
    }
}

/// The names of the cases that failed.
#[derive(Default)]
struct Failed(Vec<String>);

impl Failed {
    /// Runs a case's steps, and checks its state afterwards.
    async fn run(&mut self, run: &Run<'_>, mut client: impl Place, steps: &Json) {
        let (name, face) = (&run.case.name, run.face);
        println!("{name}, {face}");
        let all = Box::pin(async {
            run.steps(&mut client, steps).await;
            run.then().await;
        });
        match (steps::panics(all).await, run.case.json["differs"][face].as_str()) {
            (true, Some(_)) | (false, None) => {}
            (true, None) => self.0.push(name.clone()),
            (false, Some(why)) => self.0.push(format!("{name}: it differs no more: {why}")),
        }
    }

    fn end(self) {
        assert!(self.0.is_empty(), "these do not hold: {:#?}", self.0);
    }
}

#[test]
fn values_are_read_as_they_are_and_sent_back_as_the_same() {
    run(async {
        let session = session().await;
        for case in cases("postgres_values.json").iter().filter(|it| it.is_for("rust")) {
            let table = set_up(&session, case).await;
            values::check(&session, case, &table).await;
            if let Some(drop) = case.json["drop"].as_str() {
                session.script(&drop.replace("{t}", &table)).await.unwrap();
            }
        }
    });
}

async fn set_up(session: &Session, case: &Case) -> String {
    let (table, texts) = case.set_up();
    for text in texts {
        session.script(&text).await.unwrap_or_else(|error| panic!("{}: {error}", case.name));
    }
    table
}

#[test]
fn the_asynchronous_client_does_what_the_cases_say() {
    run_long(PATIENCE * 6, async {
        let (proxy, other, mut failed) = (distant_proxy(), session().await, Failed::default());
        for (file, ways) in FILES {
            for case in cases(file).iter().filter(|it| it.is_for("rust")) {
                assert!(case.json["differs"]["rust"].is_null(), "{}: it is the measure", case.name);
                for steps in ways(&case.json) {
                    let table = set_up(&other, case).await;
                    let client = client_through(&proxy, &case.settings()).await;
                    let (face, table) = ("rust", table.as_str());
                    let run =
                        Run { case, face, table, client: &client, other: &other, proxy: &proxy };
                    failed.run(&run, client.clone(), &steps).await;
                }
            }
        }
        failed.end();
    });
}

#[test]
fn the_client_that_blocks_does_what_the_cases_say() {
    if is_refused_by_the_pooler() {
        return;
    }
    let (proxy, mut failed) = (distant_proxy(), Failed::default());
    let other = blocking_client(&shared().url(), "").session().unwrap();
    for (file, ways) in FILES {
        for case in cases(file).iter().filter(|it| it.is_for("blocking")) {
            for steps in ways(&case.json) {
                let (table, texts) = case.set_up();
                for text in texts {
                    other.script(&text).unwrap();
                }
                let client = blocking_client(&url_through(&proxy), &case.settings());
                let (face, table) = ("blocking", table.as_str());
                let run = Run { case, face, table, client: &client, other: &other, proxy: &proxy };
                waiting::at_once(failed.run(&run, client.clone(), &steps));
            }
        }
    }
    failed.end();
}

fn blocking_client(url: &str, settings: &str) -> blocking::Client {
    blocking::Client::connect(&format!("{url}?{}", shared().settings(settings))).unwrap()
}
