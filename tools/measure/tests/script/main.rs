//! Scripts against a real server.

#![allow(clippy::unwrap_used)]

mod ahead;
mod clients;
mod failures;
mod pipelines;
mod values;

use std::sync::Arc;
use std::time::Duration;

use onetrip::{Client, Config, Session};
use onetrip_lab::postgres::shared;
use onetrip_measure::error::Result;
use onetrip_measure::load::{Load, Ran, Until, run};
use onetrip_measure::script::{Plan, Protocol, Script, ScriptOperation, Settings};

const ALL: [Protocol; 3] = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(600);

fn test(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, body).await });
    assert!(ended.is_ok(), "something never ended");
}

/// A schema of one test, and clients that look there first.
struct Lab {
    schema: String,
    client: Client,
}

impl Lab {
    async fn new() -> Lab {
        let schema = shared().new_name();
        let url = format!("{}?options=-csearch_path%3D{schema}", shared().url());
        let config: Config = url.parse().unwrap();
        let client = Client::connect_with(&config.connect_timeout(PATIENCE)).await.unwrap();
        let lab = Lab { schema, client };
        lab.session().await.script(&format!("create schema {}", lab.schema)).await.unwrap();
        lab
    }

    async fn session(&self) -> Session {
        self.client.session().await.unwrap()
    }

    async fn sql(&self, sql: &str) {
        self.session().await.script(sql).await.unwrap();
    }

    /// The only value of a result, as text.
    async fn value(&self, sql: &str) -> String {
        let results = self.session().await.script(sql).await.unwrap();
        results[0].rows[0][0].clone().unwrap_or_else(|| "NULL".into())
    }

    async fn run_with(&self, text: &str, settings: Settings, times: u64) -> Result<Ran> {
        let plan = Plan::new(&Script::parse("test.sql", text)?.into(), settings)?;
        let operation = ScriptOperation::on_session(self.session().await, &plan, 3);
        run(vec![operation], each(times), &|_| {}).await
    }

    /// Runs a script once, by each protocol, on a table `t` that is new each time; what is in the
    /// table then is the same each time.
    async fn leaves(&self, text: &str, wanted: &str) {
        for protocol in ALL {
            self.leaves_by(protocol, text, wanted).await;
        }
    }

    async fn leaves_by(&self, protocol: Protocol, text: &str, wanted: &str) {
        self.sql("drop table if exists t; create table t (id serial, x text)").await;
        let settings = Settings { protocol, ..Settings::default() };
        let ran = self.run_with(text, settings, 1).await;
        assert!(ran.unwrap().recorder.errors.is_empty(), "{protocol:?}: {text}");
        let left = self.value("select string_agg(x, ' ' order by id) from t").await;
        assert_eq!(left, wanted, "{protocol:?}: {text}");
    }

    async fn error(&self, protocol: Protocol, text: &str) -> String {
        let settings = Settings { protocol, ..Settings::default() };
        let error = self.run_with(text, settings, 2).await.unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }
}

fn each(times: u64) -> Load {
    Load { until: Until::Each(times), rate: None, seed: 1 }
}

fn plan(text: &str) -> Arc<Plan> {
    Plan::new(&Script::parse("test.sql", text).unwrap().into(), Settings::default()).unwrap()
}
