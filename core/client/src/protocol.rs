//! Both protocols as one type, so that the engine is compiled once. That saves half of the code
//! that would be there twice, which is a tenth of the module.

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Protocol as Speaks, Step, Violation};
use onetrip_postgres::Postgres;
use onetrip_postgres::message::TransactionStatus;
#[cfg(feature = "redis")]
use onetrip_redis::Redis;

/// The protocol of a connection.
#[derive(Debug)]
pub(crate) enum Protocol {
    Postgres(Box<Postgres>),
    #[cfg(feature = "redis")]
    Redis(Box<Redis>),
}

/// What the protocol remembers of a request to recognise its reply. It belongs to the protocol of
/// the connection.
#[derive(Debug)]
pub(crate) enum Expect {
    Postgres(onetrip_postgres::Expect),
    #[cfg(feature = "redis")]
    Redis(onetrip_redis::Expect),
}

/// Something that belongs to no request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Postgres(onetrip_postgres::Event),
    #[cfg(feature = "redis")]
    Redis(onetrip_redis::Event),
}

impl Protocol {
    /// PostgreSQL, for a session with this status.
    pub(crate) fn new(status: TransactionStatus) -> Protocol {
        Protocol::Postgres(Box::new(Postgres::new(status)))
    }
}

/// Only for connections to PostgreSQL.
impl std::ops::Deref for Protocol {
    type Target = Postgres;

    fn deref(&self) -> &Postgres {
        match self {
            Protocol::Postgres(postgres) => postgres,
            #[cfg(feature = "redis")]
            Protocol::Redis(_) => unreachable!("asked of a connection to Redis"),
        }
    }
}

impl std::ops::DerefMut for Protocol {
    fn deref_mut(&mut self) -> &mut Postgres {
        match self {
            Protocol::Postgres(postgres) => postgres,
            #[cfg(feature = "redis")]
            Protocol::Redis(_) => unreachable!("asked of a connection to Redis"),
        }
    }
}

impl From<onetrip_postgres::Expect> for Expect {
    fn from(expect: onetrip_postgres::Expect) -> Expect {
        Expect::Postgres(expect)
    }
}

#[cfg(feature = "redis")]
impl From<onetrip_redis::Expect> for Expect {
    fn from(expect: onetrip_redis::Expect) -> Expect {
        Expect::Redis(expect)
    }
}

#[cfg(feature = "redis")]
/// All requests of a connection belong to its protocol.
const MIXED: &str = "a request of another protocol";

impl Speaks for Protocol {
    type Expect = Expect;
    type Event = Event;

    // Redis has none of these. A sync point is taken off only if requests may share one, and a
    // Flush follows members of a segment; Redis has neither. And the engine writes no goodbye on a
    // connection to Redis.
    const SYNC: &'static [u8] = Postgres::SYNC;
    const FLUSH: &'static [u8] = Postgres::FLUSH;
    const TERMINATE: &'static [u8] = Postgres::TERMINATE;

    fn step(&mut self, input: &[u8], head: Option<&mut Expect>) -> Result<Step<Event>, Violation> {
        match self {
            Protocol::Postgres(postgres) => {
                let head = head.map(|expect| match expect {
                    Expect::Postgres(expect) => expect,
                    #[cfg(feature = "redis")]
                    Expect::Redis(_) => unreachable!("{MIXED}"),
                });
                Ok(as_event(postgres.step(input, head)?, Event::Postgres))
            }
            #[cfg(feature = "redis")]
            Protocol::Redis(redis) => {
                let head = head.map(|expect| match expect {
                    Expect::Redis(expect) => expect,
                    Expect::Postgres(_) => unreachable!("{MIXED}"),
                });
                Ok(as_event(redis.step(input, head)?, Event::Redis))
            }
        }
    }

    fn skip(&mut self, expect: &mut Expect) {
        match (self, expect) {
            (Protocol::Postgres(postgres), Expect::Postgres(expect)) => postgres.skip(expect),
            #[cfg(feature = "redis")]
            (Protocol::Redis(redis), Expect::Redis(expect)) => redis.skip(expect),
            #[cfg(feature = "redis")]
            _ => unreachable!("{MIXED}"),
        }
    }

    fn renew(&mut self, expect: &mut Expect, out: &mut BytesMut) {
        match (self, expect) {
            (Protocol::Postgres(postgres), Expect::Postgres(expect)) => postgres.renew(expect, out),
            #[cfg(feature = "redis")]
            (Protocol::Redis(redis), Expect::Redis(expect)) => redis.renew(expect, out),
            #[cfg(feature = "redis")]
            _ => unreachable!("{MIXED}"),
        }
    }

    fn heal(&mut self, expect: &mut Expect, out: &mut BytesMut) {
        match (self, expect) {
            (Protocol::Postgres(postgres), Expect::Postgres(expect)) => postgres.heal(expect, out),
            #[cfg(feature = "redis")]
            (Protocol::Redis(redis), Expect::Redis(expect)) => redis.heal(expect, out),
            #[cfg(feature = "redis")]
            _ => unreachable!("{MIXED}"),
        }
    }

    fn write_failing(&self, out: &mut BytesMut) -> Option<Expect> {
        match self {
            Protocol::Postgres(postgres) => postgres.write_failing(out).map(Expect::from),
            #[cfg(feature = "redis")]
            Protocol::Redis(_) => None,
        }
    }

    fn heal_len(&self, expect: &Expect) -> usize {
        match (self, expect) {
            (Protocol::Postgres(postgres), Expect::Postgres(expect)) => postgres.heal_len(expect),
            #[cfg(feature = "redis")]
            (Protocol::Redis(redis), Expect::Redis(expect)) => redis.heal_len(expect),
            #[cfg(feature = "redis")]
            _ => unreachable!("{MIXED}"),
        }
    }

    fn restart(&mut self, expect: &mut Expect) {
        match (self, expect) {
            (Protocol::Postgres(postgres), Expect::Postgres(expect)) => postgres.restart(expect),
            #[cfg(feature = "redis")]
            (Protocol::Redis(redis), Expect::Redis(expect)) => redis.restart(expect),
            #[cfg(feature = "redis")]
            _ => unreachable!("{MIXED}"),
        }
    }

    // Redis has no requests of its own and no guards.

    fn owes(&self, idle: bool) -> bool {
        matches!(self, Protocol::Postgres(postgres) if postgres.owes(idle))
    }

    fn write_owed(&mut self, out: &mut BytesMut) -> Option<Expect> {
        match self {
            Protocol::Postgres(postgres) => postgres.write_owed(out).map(Expect::Postgres),
            #[cfg(feature = "redis")]
            Protocol::Redis(_) => None,
        }
    }

    fn takes_owed_along(&self, expect: &Expect) -> bool {
        match (self, expect) {
            (Protocol::Postgres(postgres), Expect::Postgres(expect)) => {
                postgres.takes_owed_along(expect)
            }
            #[cfg(feature = "redis")]
            _ => false,
        }
    }

    fn owes_behind(&self, idle: bool) -> bool {
        matches!(self, Protocol::Postgres(postgres) if postgres.owes_behind(idle))
    }

    fn write_behind(&mut self, out: &mut BytesMut) -> Option<Expect> {
        match self {
            Protocol::Postgres(postgres) => postgres.write_behind(out).map(Expect::Postgres),
            #[cfg(feature = "redis")]
            Protocol::Redis(_) => None,
        }
    }

    fn is_leaving(&self) -> bool {
        match self {
            Protocol::Postgres(postgres) => postgres.is_leaving(),
            #[cfg(feature = "redis")]
            Protocol::Redis(_) => false,
        }
    }

    fn reason_to_skip(&mut self, error: Bytes) -> Bytes {
        match self {
            Protocol::Postgres(postgres) => postgres.reason_to_skip(error),
            #[cfg(feature = "redis")]
            Protocol::Redis(_) => error,
        }
    }

    fn one_segment(&self) -> bool {
        match self {
            Protocol::Postgres(postgres) => postgres.one_segment(),
            #[cfg(feature = "redis")]
            Protocol::Redis(_) => false,
        }
    }

    fn may_begin(&self, expect: &Expect) -> bool {
        match (self, expect) {
            (Protocol::Postgres(postgres), Expect::Postgres(expect)) => postgres.may_begin(expect),
            #[cfg(feature = "redis")]
            _ => true,
        }
    }

    fn begin(&mut self, expect: &mut Expect, begins: bool, out: &mut BytesMut) {
        match (self, expect) {
            (Protocol::Postgres(postgres), Expect::Postgres(expect)) => {
                postgres.begin(expect, begins, out);
            }
            #[cfg(feature = "redis")]
            _ => {}
        }
    }

    fn begin_len(&self) -> usize {
        match self {
            Protocol::Postgres(postgres) => postgres.begin_len(),
            #[cfg(feature = "redis")]
            Protocol::Redis(_) => 0,
        }
    }

    fn is_skipped(&self, expect: &Expect) -> bool {
        match (self, expect) {
            (Protocol::Postgres(postgres), Expect::Postgres(expect)) => postgres.is_skipped(expect),
            #[cfg(feature = "redis")]
            _ => false,
        }
    }
}

fn as_event<E>(step: Step<E>, event: impl FnOnce(E) -> Event) -> Step<Event> {
    match step {
        Step::Need(need) => Step::Need(need),
        Step::Part(len) => Step::Part(len),
        Step::Piece { len, left } => Step::Piece { len, left },
        Step::Complete(len) => Step::Complete(len),
        Step::Failed { len, outcome, never_started, cancelled } => {
            Step::Failed { len, outcome, never_started, cancelled }
        }
        Step::Own(len) => Step::Own(len),
        Step::Skipped(len) => Step::Skipped(len),
        Step::Settled(len) => Step::Settled(len),
        Step::Unconfirmed(len) => Step::Unconfirmed(len),
        Step::Event(len, it) => Step::Event(len, event(it)),
        Step::Fatal(len) => Step::Fatal(len),
        Step::Unusable(why) => Step::Unusable(why),
    }
}
