//! Requests in the model server's language, made from a few bits.

use bytes::{Bytes, BytesMut};
use onetrip_engine::SyncPoint;
use onetrip_postgres::message::{
    Describe, EncodeError, Execute, Formats, IsNull, Query, SYNC, Target, bind, parse,
};
use onetrip_postgres::{Expect, StatementId};

use crate::input::Input;

/// The one statement that is prepared under a name.
const NAME: &str = "s";

/// A request.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    kind: u8,
    how: u8,
}

impl Asked {
    pub(super) fn read(input: &mut Input<'_>) -> Asked {
        Asked { kind: input.u8(), how: input.u8() }
    }

    pub(super) const SYNC: Asked = Asked { kind: 3, how: 0 };

    pub(super) fn is_simple(self) -> bool {
        self.kind & 3 == 0
    }

    /// Whether it names the prepared statement.
    pub(super) fn is_named(self) -> bool {
        self.kind & 3 == 2
    }

    fn is_sync(self) -> bool {
        self.kind & 3 == 3
    }

    pub(super) fn flag(self, bit: u8) -> bool {
        self.kind & (4 << bit) != 0
    }

    /// Its sync point: a simple query is its own.
    pub(super) fn sync(self, in_group: bool) -> SyncPoint {
        match in_group && !self.is_simple() && self.how & 0x80 == 0 {
            _ if self.is_sync() => SyncPoint::Only,
            true => SyncPoint::Member,
            false => SyncPoint::Own,
        }
    }

    pub(super) fn expect(self, statement: StatementId) -> Expect {
        match self.kind & 3 {
            0 => Expect::simple(),
            1 => Expect::sync().parse().bind().describe_portal().execute(),
            2 => Expect::sync().bind().execute().of_statement(statement),
            _ => Expect::sync(),
        }
    }

    /// Its text, which tells the model what to do.
    fn sql(self, op: u64) -> String {
        const VERBS: [&str; 8] =
            ["select", "select", "select", "insert", "begin", "commit", "discard", "call"];
        const FAILS: [&str; 8] = ["no", "no", "no", "execute", "parse", "bind", "commit", "no"];
        let verb = VERBS[usize::from(self.how & 7)];
        let fail = FAILS[usize::from(self.how >> 3 & 7)];
        let (rows, notices) = (self.how >> 6 & 1, self.kind >> 7);
        format!("{verb} op={op} rows={rows} size=9 fail={fail} notices={notices}")
    }

    pub(super) fn encode(
        self,
        op: u64,
        sync: SyncPoint,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let sql = self.sql(op);
        match self.kind & 3 {
            0 => return Query { sql: &sql }.encode(out),
            1 => {
                parse::write(out, "", &sql, &[])?;
                put_bind("", out)?;
                Describe { target: Target::Portal("") }.encode(out)?;
                Execute { portal: "", rows_max: 0 }.encode(out)?;
            }
            2 => {
                put_bind(NAME, out)?;
                Execute { portal: "", rows_max: 0 }.encode(out)?;
            }
            _ => {}
        }
        if sync != SyncPoint::Member {
            out.extend_from_slice(&SYNC);
        }
        Ok(())
    }
}

fn put_bind(name: &str, out: &mut BytesMut) -> Result<(), EncodeError> {
    let no_value = |_, _: &mut BytesMut| Ok::<_, EncodeError>(IsNull::Yes);
    bind::write(out, "", name, Formats::AllText, 0, no_value, Formats::AllBinary)
}

/// The messages that prepare the named statement again.
pub(super) fn heal() -> Bytes {
    let mut out = BytesMut::new();
    let target = Target::Statement(NAME);
    onetrip_postgres::message::Close { target }.encode(&mut out).expect("a short name");
    parse::write(&mut out, NAME, "select op=1 rows=1", &[]).expect("a short text");
    Describe { target }.encode(&mut out).expect("a short name");
    out.freeze()
}
