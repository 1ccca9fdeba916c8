//! The demo's schema on the server: made at the start, dropped at the end, and nothing else touched.

use onetrip::config::Config;
use onetrip::{Client, Session};

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

impl Schema {
    pub(super) async fn create(config: &Config, foreign: bool) -> Result<Schema, String> {
        let client = Client::connect_with(config).await.map_err(|error| error.to_string())?;
        let session = client.session().await.map_err(|error| error.to_string())?;
        match session.batch(CREATE).await {
            Ok(_) => {}
            // duplicate_schema
            Err(error) if error.sqlstate() == Some("42P06") => {
                return Err(
                    "the server has a schema onetrip_demo already: if it is left over from a \
                            demo that was killed, drop it (drop schema onetrip_demo cascade)"
                        .to_owned(),
                );
            }
            Err(error) => {
                let hint =
                    if foreign { ": may this user create schemas in this database?" } else { "" };
                return Err(format!("the demo's tables can't be made: {error}{hint}"));
            }
        }
        let schema = Schema { session, client };
        if let Err(error) = schema.session.batch("vacuum analyze onetrip_demo.item").await {
            let dropped = schema.drop_all().await;
            return Err(dropped.err().unwrap_or_else(|| error.to_string()));
        }
        Ok(schema)
    }

    pub(super) fn server_version(&self) -> String {
        self.client.parameter("server_version").unwrap_or_else(|| "unknown".to_owned())
    }

    pub(super) async fn drop_all(&self) -> Result<(), String> {
        let dropped = self.session.batch("drop schema onetrip_demo cascade").await;
        dropped.map(drop).map_err(|error| {
            format!("the schema onetrip_demo could not be dropped ({error}): drop it by hand")
        })
    }
}
