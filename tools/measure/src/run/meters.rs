//! All meters on client and server around each repetition.

use onetrip::{Client, Session};

use crate::error::Result;
use crate::meter::{self, ClientCpu, Sampler, Seen, ServerCpu, Waits};
use crate::results::{Repetition, Server};
use crate::schema::MAKER;
use crate::target::{APPLICATION, Target};

/// Switches timeouts off for the session that creates and drops the tables: that may take long, and
/// it is not retried. Limits of the server or the user still apply to the measured sessions.
const PATIENT: &str = "select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings \
     where name in ('statement_timeout', 'lock_timeout', 'transaction_timeout', \
     'idle_session_timeout', 'idle_in_transaction_session_timeout'); \
     set session characteristics as transaction isolation level read committed";

/// Everything that is read, and the connections for it: as many as [`CONNECTIONS`].
pub(super) struct Meters {
    server: Server,
    processes: Option<meter::Server>,
    sampler: Sampler,
}

/// Connections besides those of the load: one creates the tables, one samples the sessions.
const CONNECTIONS: usize = 2;

/// As it stood before a repetition.
pub(super) struct Before {
    trips: u64,
    client: ClientCpu,
    server: Option<ServerCpu>,
    waits: Waits,
}

impl Meters {
    /// Connects, looks whether the server has room for the load's connections, and asks what it is.
    /// Returns the session for the tables.
    pub(super) async fn connect(target: &Target, load: usize) -> Result<(Session, Meters)> {
        let admin = maker(target).await?;
        let needed = u32::try_from(load + CONNECTIONS - 1).unwrap_or(u32::MAX);
        meter::connections_left(&admin).await?.check(&format!("--connections {load}"), needed)?;
        let server = describe(target, &admin).await?;
        admin.script(PATIENT).await?;
        let processes = match target.private() {
            Some(private) => meter::Server::of_private(private),
            None => meter::Server::of_session(target.direct(), &admin).await?,
        };
        let sampler = Sampler::connect(target.direct(), APPLICATION).await?;
        Ok((admin, Meters { server, processes, sampler }))
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// `trips`: those that the client has made until now.
    pub(super) fn begin(&self, trips: u64) -> Before {
        let waits = self.sampler.start();
        let server = self.processes.and_then(ServerCpu::start);
        Before { trips, client: ClientCpu::start(), server, waits }
    }

    /// Adds the costs to the repetition, given the client's trips until now. Returns what the
    /// server's sessions did meanwhile.
    pub(super) fn end(&self, before: Before, trips: u64, to: &mut Repetition) -> Seen {
        let Before { trips: before, client: mut cpu, server, waits } = before;
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        to.client_cpu_ms = cpu.elapsed().map(ms);
        to.server_cpu_ms = server.and_then(|server| server.elapsed()).map(ms);
        to.trips = Some(trips - before);
        waits.finish()
    }
}

/// The session that makes and drops the tables.
pub(super) async fn maker(target: &Target) -> Result<Session> {
    let config = target.direct().clone().connections_max(1).application_name(MAKER);
    Ok(Client::connect_with(&config).await?.session().await?)
}

async fn describe(target: &Target, admin: &Session) -> Result<Server> {
    Ok(Server {
        url: target.url().to_owned(),
        product: "PostgreSQL".to_owned(),
        version: meter::version(admin).await?,
        private: target.private().is_some(),
        settings: meter::settings(admin).await?,
    })
}
