//! Finds the process of this machine that serves a session, if there is one.

use std::fs;
use std::net::IpAddr;

use onetrip::config::Address;
use onetrip::{Config, Session};

use super::proc::{Stat, boot_time, is_in_our_namespace, ticks};
use crate::error::{Error, Result};

/// The postmaster of the server of this session, if both are sure to be processes of this machine.
pub(super) async fn postmaster_of(config: &Config, session: &Session) -> Result<Option<u32>> {
    if !is_local(config)? {
        return Ok(None);
    }
    let backend = Backend::of(session).await?;
    Ok(backend.and_then(|backend| backend.postmaster()))
}

/// Whether every server of the configuration is on this machine, judging by its address.
fn is_local(config: &Config) -> Result<bool> {
    let resolved = config.resolve().map_err(|error| Error::new(error.to_string()))?;
    let is_local = |address: &Address| match address {
        Address::Unix(_) => true,
        Address::Tcp { address: Some(address), .. } => address.is_loopback(),
        Address::Tcp { host, .. } => {
            host == "localhost" || host.parse().is_ok_and(|it: IpAddr| it.is_loopback())
        }
    };
    Ok(resolved.endpoints().iter().all(|endpoint| is_local(endpoint.address())))
}

/// A server process as the server knows it.
struct Backend {
    pid: u32,
    /// When it and its postmaster began, in seconds since 1970.
    started: f64,
    postmaster_started: f64,
    /// The required continuation of its title after `postgres: ` and the cluster's name.
    title: String,
}

/// Titles are made in the server's `postmaster/` and `utils/misc/ps_status.c`: user, database, and
/// the client's address with its port in parentheses, or `[local]`.
const WHO: &str = "select pg_catalog.pg_backend_pid(), \
     extract(epoch from a.backend_start)::float8, \
     extract(epoch from pg_catalog.pg_postmaster_start_time())::float8, \
     pg_catalog.current_setting('cluster_name'), \
     session_user::text, pg_catalog.current_database()::text, \
     pg_catalog.host(a.client_addr), a.client_port \
     from pg_catalog.pg_stat_activity a where a.pid = pg_catalog.pg_backend_pid()";

impl Backend {
    /// `None` if the server does not show it.
    async fn of(session: &Session) -> Result<Option<Backend>> {
        let Some(row) = session.query_opt(WHO, &[]).await? else { return Ok(None) };
        let pid: i32 = row.try_get(0)?;
        let (Some(started), Some(postmaster_started)) = (row.try_get(1)?, row.try_get(2)?) else {
            return Ok(None);
        };
        let cluster: String = row.try_get(3)?;
        let (user, database): (String, String) = (row.try_get(4)?, row.try_get(5)?);
        let (host, port): (Option<String>, Option<i32>) = (row.try_get(6)?, row.try_get(7)?);
        let from = match (host, port) {
            (Some(host), Some(port)) => format!("{host}({port})"),
            _ => "[local]".to_owned(),
        };
        let cluster = if cluster.is_empty() { cluster } else { format!("{cluster}: ") };
        let title = format!("{cluster}{user} {database} {from}");
        Ok(Some(Backend { pid: pid.unsigned_abs(), started, postmaster_started, title }))
    }

    fn postmaster(&self) -> Option<u32> {
        let own = is_postgres(self.pid, self.started)?;
        is_postgres(own.parent, self.postmaster_started)?;
        self.has_title().then_some(own.parent)
    }

    fn has_title(&self) -> bool {
        let path = format!("/proc/{}/cmdline", self.pid);
        let cmdline = fs::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&cmdline);
        // It ends with a bracket, so another one can't begin with it.
        text.strip_prefix("postgres: ").is_some_and(|title| title.starts_with(&self.title))
    }
}

/// A process of PostgreSQL, in our namespace, that began when it should have.
fn is_postgres(pid: u32, started: f64) -> Option<Stat> {
    /// The server notes the time a little after its process began (the postmaster once it has read
    /// its data, after a crash even later), and both clocks are rounded.
    const APART_S: std::ops::Range<f64> = -2.0..60.0;
    let stat = Stat::of(pid)?;
    let began = boot_time()? + ticks(stat.started).as_secs_f64();
    let is_server = matches!(stat.name.as_str(), "postgres" | "postmaster");
    let fits = APART_S.contains(&(started - began));
    (is_server && fits && is_in_our_namespace(pid)).then_some(stat)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use onetrip_lab::postgres::shared;

    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_local() {
        let local = |url: &str| is_local(&url.parse().unwrap()).unwrap();
        for url in [
            "postgres://u@127.0.0.1/d",
            "postgres://u@localhost/d",
            "postgres://u@[::1]:7/d",
            "postgres://u@/d?host=/tmp",
            "host=db.example.com hostaddr=127.0.0.2 user=u",
        ] {
            assert!(local(url), "{url}");
        }
        for url in [
            "postgres://u@10.0.0.1/d",
            "postgres://u@localhost.example.com/d",
            "postgres://u@127.0.0.1,10.0.0.1/d",
            "host=localhost hostaddr=10.0.0.1 user=u",
        ] {
            assert!(!local(url), "{url}");
        }
    }

    /// A backend of a private server, changed in one thing.
    async fn found(change: impl FnOnce(&mut Backend)) -> Option<u32> {
        let client = onetrip::Client::connect(&shared().url()).await.unwrap();
        let session = client.session().await.unwrap();
        let mut backend = Backend::of(&session).await.unwrap().unwrap();
        change(&mut backend);
        backend.postmaster()
    }

    #[tokio::test]
    async fn a_process_that_differs_in_one_thing_is_not_taken_for_the_sessions() {
        assert_eq!(found(|_| {}).await, Some(shared().postmaster_pid()));
        assert_eq!(found(|it| it.pid = std::process::id()).await, None);
        assert_eq!(found(|it| it.pid = shared().postmaster_pid()).await, None);
        assert_eq!(found(|it| it.started -= 5.0).await, None);
        assert_eq!(found(|it| it.started += 120.0).await, None);
        assert_eq!(found(|it| it.postmaster_started -= 5.0).await, None);
        assert_eq!(found(|it| it.title.insert(0, 'x')).await, None);
        assert_eq!(found(|it| it.title = it.title.replace(')', "1)")).await, None);
    }
}
