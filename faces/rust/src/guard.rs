//! The guard in front of a read on a replica. [`onetrip_postgres::client::replicas`] has the rules.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onetrip_engine::Time;
use onetrip_postgres::client::position::Position;
use onetrip_postgres::client::replicas::{GuardText, Guarded, Replicas};
use onetrip_postgres::message::{DataRow, tag::backend};
use onetrip_postgres::sql;
use postgres_types::Type;

use crate::Error;
use crate::metadata::Metadata;
use crate::rows::Blocks;
use crate::statements::Bound;

/// What is known of the replicas of a client.
pub(crate) struct Standing {
    replicas: Mutex<Replicas>,
    /// The guards, as statements.
    guards: [Arc<Metadata>; 2],
}

/// The guard in front of one read, or of several.
#[derive(Clone)]
pub(crate) struct Guard {
    standing: Arc<Standing>,
    /// The number of the replica.
    at: usize,
    pub(crate) position: Position,
}

impl Standing {
    pub(crate) fn new(replicas: Replicas) -> Arc<Standing> {
        let guards = GuardText::ALL.map(|guard| {
            let (sql, types) = (guard.sql(), vec![Type::TEXT; guard.types().len()]);
            Metadata::new(sql.into(), types, sql::classify(sql), Vec::new())
        });
        Arc::new(Standing { replicas: Mutex::new(replicas), guards })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Replicas> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().fmt(f)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({}, {})", self.at, self.position)
    }
}

impl Guard {
    pub(crate) fn new(standing: &Arc<Standing>, at: usize, position: Position) -> Guard {
        Guard { standing: standing.clone(), at, position }
    }

    pub(crate) fn statement(&self, text: GuardText) -> Bound {
        Bound { metadata: self.standing.guards[text as usize].clone(), explicit: None }
    }

    /// How it ended.
    pub(crate) fn judge(&self, blocks: &Blocks, error: Option<&Error>) -> Guarded {
        let Some(error) = error else {
            let row = blocks.messages().find(|(tag, _)| *tag == backend::DATA_ROW);
            return Guarded::with_row(row.and_then(|(_, body)| {
                let row = DataRow::decode(body).ok()?;
                std::str::from_utf8(row.values.clone().next()??).ok()
            }));
        };
        let server = error.server();
        server.map_or(Guarded::Failed, |it| Guarded::with_error(&it.code, &it.message))
    }

    /// It has ended.
    pub(crate) fn ended(&self, now: Time, guarded: Guarded) {
        self.standing.lock().handle_guard(now, self.at, &self.position, guarded);
    }
}
