//! How many more connections the server allows this user.

use onetrip::Session;

use crate::error::{Error, Result};

/// The remaining part of one limit on connections, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The tightest limit.
    pub limit: Limit,
    /// Its value.
    pub max: u32,
    /// Connections that count against it, including the one that asked.
    pub in_use: u32,
    /// Connections reserved for other users.
    pub reserved: u32,
}

/// A limit on connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The server's `max_connections`.
    Server,
    /// The limit of this role.
    Role(String),
    /// The limit of this database.
    Database(String),
}

impl Room {
    /// How many more connections can be opened.
    pub fn left(&self) -> u32 {
        self.max.saturating_sub(self.in_use).saturating_sub(self.reserved)
    }

    /// Whether so many more can be opened, for what `option` asks for (`--connections 500`).
    ///
    /// # Errors
    /// They can't: one line that says so and what to do.
    pub fn check(&self, option: &str, needed: u32) -> Result<()> {
        if needed <= self.left() {
            return Ok(());
        }
        let name = option.split_whitespace().next().unwrap_or(option);
        Err(Error::new(format!(
            "{option} needs {needed} connections and {} has room for {} ({}): lower {name} or {}",
            self.limit.place(),
            self.left(),
            self.facts(),
            self.limit.remedy()
        )))
    }

    fn facts(&self) -> String {
        let what = match self.limit {
            Limit::Server => "max_connections",
            Limit::Role(_) | Limit::Database(_) => "connection limit",
        };
        let reserved = match self.reserved {
            0 => String::new(),
            reserved => format!(", {reserved} reserved"),
        };
        format!("{what} {}, {} in use{reserved}", self.max, self.in_use)
    }
}

impl Limit {
    fn place(&self) -> String {
        match self {
            Limit::Server => "the server".to_owned(),
            Limit::Role(name) => format!("role {name}"),
            Limit::Database(name) => format!("database {name}"),
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Limit::Server => "raise max_connections",
            Limit::Role(_) => "raise the limit (alter role … connection limit)",
            Limit::Database(_) => "raise the limit (alter database … connection limit)",
        }
    }
}

/// The tightest limit for the user of this session, in its database: `max_connections` without what
/// is reserved for others, the role's, and the database's, where the last two don't bind
/// superusers. One trip. A pooler's limits are not in it.
///
/// # Errors
/// The session is lost.
pub async fn connections_left(session: &Session) -> Result<Room> {
    let row = session.query_one(SQL, &[]).await?;
    let number = |column: &str| row.try_get::<Option<i64>>(column);
    let room = |limit, max: i64, in_use: i64, reserved: i64| {
        let [max, in_use, reserved] = [max, in_use, reserved].map(|it| it.max(0) as u32);
        Room { limit, max, in_use, reserved }
    };
    let count = |column| number(column).map(Option::unwrap_or_default);
    let max = count("max")?;
    let mut rooms = vec![room(Limit::Server, max, count("in_use")?, count("reserved")?)];
    if let Some(max) = number("role_max")? {
        let role = Limit::Role(row.try_get("role")?);
        rooms.push(room(role, max, count("of_role")?, 0));
    }
    if let Some(max) = number("database_max")? {
        let database = Limit::Database(row.try_get("database")?);
        rooms.push(room(database, max, count("of_database")?, 0));
    }
    Ok(rooms.into_iter().min_by_key(Room::left).expect("the server has a limit"))
}

/// Counts the sessions of clients. For sessions of other users the server shows the database and
/// the user, but their kind only to privileged users; without that, workers on a database may be
/// counted too. The rules for reserved connections are in `ProcessStartupPacket` and `InitPostgres`
/// in the server's source.
const SQL: &str = "with session as (
    select datid, usesysid from pg_catalog.pg_stat_get_activity(null)
    where coalesce(backend_type, 'client backend') = 'client backend' and datid is not null
), me as (
    select r.oid, r.rolname, r.rolsuper, r.rolconnlimit, d.oid as database, d.datname, d.datconnlimit
    from pg_catalog.pg_roles r, pg_catalog.pg_database d
    where r.rolname = session_user and d.datname = pg_catalog.current_database()
)
select rolname::text as role, datname::text as database,
    pg_catalog.current_setting('max_connections')::int8 as max,
    (select count(*) from session) as in_use,
    case when rolsuper then 0 else
        pg_catalog.current_setting('superuser_reserved_connections')::int8
        + case when exists (
            select from pg_catalog.pg_roles u where u.rolname = 'pg_use_reserved_connections'
            and pg_catalog.pg_has_role(me.oid, u.oid, 'usage')
        ) then 0
        else coalesce(pg_catalog.current_setting('reserved_connections', true)::int8, 0) end
    end as reserved,
    case when rolconnlimit >= 0 and not rolsuper then rolconnlimit::int8 end as role_max,
    (select count(*) from session where usesysid = me.oid) as of_role,
    case when datconnlimit >= 0 and not rolsuper then datconnlimit::int8 end as database_max,
    (select count(*) from session where datid = me.database) as of_database
from me";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_room_is_named_with_its_limit_and_what_to_do() {
        let room = Room { limit: Limit::Server, max: 100, in_use: 10, reserved: 3 };
        assert_eq!(room.left(), 87);
        assert_eq!(room.check("--connections 85", 87), Ok(()));
        let error = room.check("--connections 500", 502).unwrap_err().to_string();
        let expected = "--connections 500 needs 502 connections and the server has room for 87 \
             (max_connections 100, 10 in use, 3 reserved): lower --connections or raise \
             max_connections";
        assert_eq!(error, expected);
    }

    #[test]
    fn more_in_use_than_allowed_leaves_none() {
        let room = Room { limit: Limit::Role("app".into()), max: 2, in_use: 3, reserved: 0 };
        assert_eq!(room.left(), 0);
        let error = room.check("--connections 1", 1).unwrap_err().to_string();
        assert!(
            error.contains("role app has room for 0 (connection limit 2, 3 in use)"),
            "{error}"
        );
    }
}
