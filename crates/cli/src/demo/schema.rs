//! The demo's schema on the server: made at the start, dropped at the end, and nothing else touched.

use std::pin::pin;
use std::time::Duration;

use onetrip::config::Config;
use onetrip::{Client, Error, Session};
use tokio::time::timeout;

use crate::stop::Stop;

/// Where the schema will be, or is. One connection makes and drops it, so that both come in order.
pub(super) struct Schema {
    session: Session,
    client: Client,
}

const CREATE: &str = "
    create schema onetrip_demo;
    create table onetrip_demo.account (id int primary key, balance bigint not null);
    insert into onetrip_demo.account values (1, 1000000), (2, 1000000);
    create procedure onetrip_demo.transfer(amount bigint, debtor int, creditor int)
    language plpgsql as $$
    begin
        update onetrip_demo.account set balance = balance - amount where id = debtor;
        update onetrip_demo.account set balance = balance + amount where id = creditor;
    end $$;
    create table onetrip_demo.item (id int primary key, name text not null, price float8 not null);
    insert into onetrip_demo.item select i, 'item ' || i, i * 1.5 from generate_series(1, 10000) i;";

/// What a demo that could not drop its schema has to say.
pub(super) const LEFT: &str = "the schema onetrip_demo may be left on the server: drop it with \
                               `drop schema onetrip_demo cascade`";

/// How long a server may take to answer once the demo is over or was stopped. It takes some
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

impl Schema {
    /// Connects; nothing is made.
    pub(super) async fn connect(config: &Config) -> Result<Schema, String> {
        let client = Client::connect_with(config).await.map_err(|error| error.to_string())?;
        let session = client.session().await.map_err(|error| error.to_string())?;
        Ok(Schema { session, client })
    }

    /// Makes the schema, or nothing and an error. When stopped meanwhile it still waits for the
    /// server's answer: that alone says whether the schema is ours to drop.
    pub(super) async fn create(&self, stop: &Stop) -> Result<(), String> {
        let mut creation = pin!(self.create_all());
        let signal = tokio::select! {
            created = &mut creation => return created,
            signal = stop.requested() => signal,
        };
        let left = match timeout(PATIENCE, creation).await {
            Ok(Ok(())) => self.drop_all().await.err(),
            Ok(Err(_)) => None,
            Err(_) => Some(format!("{NO_ANSWER}; {LEFT}")),
        };
        Err(joined(format!("stopped by {signal}"), left))
    }

    async fn create_all(&self) -> Result<(), String> {
        self.session.script(CREATE).await.map_err(|error| not_created(&error))?;
        let Err(error) = self.session.script("vacuum analyze onetrip_demo.item").await else {
            return Ok(());
        };
        Err(joined(error.to_string(), self.drop_all().await.err()))
    }

    pub(super) fn server_version(&self) -> String {
        self.client.parameter("server_version").unwrap_or_else(|| "unknown".to_owned())
    }

    /// Drops it, and gives up on a server that does not answer.
    pub(super) async fn drop_all(&self) -> Result<(), String> {
        match timeout(PATIENCE, self.session.script("drop schema onetrip_demo cascade")).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("{error}; {LEFT}")),
            Err(_) => Err(format!("{NO_ANSWER}; {LEFT}")),
        }
    }
}

const NO_ANSWER: &str = "the server did not answer within 5 s";

/// What went wrong first, and what went wrong when that was tidied up.
pub(super) fn joined(first: String, second: Option<String>) -> String {
    match second {
        Some(second) => format!("{first}; {second}"),
        None => first,
    }
}

fn not_created(error: &Error) -> String {
    match error.sqlstate() {
        // duplicate_schema
        Some("42P06") => "the server has a schema onetrip_demo already: if it is left over from a \
                          demo that was killed, drop it (drop schema onetrip_demo cascade)"
            .to_owned(),
        // insufficient_privilege
        Some("42501") => format!(
            "the demo's tables can't be made: {error}: may this user create schemas in this \
             database?"
        ),
        _ => format!("the demo's tables can't be made: {error}"),
    }
}
