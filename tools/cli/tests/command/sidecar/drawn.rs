//! Programs whose statements are drawn, with a real server: what they hear is the same through the
//! sidecar and directly.

use bytes::BytesMut;
use onetrip_lab::postgres::shared;

use super::{Sidecar, numbers, server};
use crate::database::run;
use crate::wire::Part::{Bind, Close, DescribePortal, DescribeStatement, Execute, Parse, Sync};
use crate::wire::{Wire, extended, query};

const PROGRAMS: u64 = 8;
const STEPS: usize = 150;

/// Statements of one text, in either protocol.
const TEXTS: [&str; 40] = [
    "begin",
    "BEGIN ISOLATION LEVEL REPEATABLE READ;",
    "start transaction read only",
    "begin",
    "commit",
    "commit",
    "end",
    "rollback",
    "rollback",
    "commit and chain",
    "set transaction isolation level serializable",
    "savepoint a",
    "savepoint \"B\"",
    "savepoint a",
    "release a",
    "release savepoint \"B\"",
    "rollback to a",
    "rollback to savepoint \"B\"",
    "insert into number select max(k) + 1, 0 from number",
    "insert into number values (1, 1)",
    "update number set v = v + 1 where k = 1",
    "select sum(v), count(*) from number",
    "select 1",
    "",
    "selec 1",
    "select nothing from number",
    "set local statement_timeout = 60000",
    "set statement_timeout = 60000",
    "reset statement_timeout",
    "declare c cursor for select k from number order by k",
    "declare c cursor with hold for select k from number order by k",
    "fetch 4 from c",
    "fetch forward 100 from c",
    "fetch forward 100 from c",
    "close c",
    "move backward all in c",
    "do $$ begin raise notice 'a'; end $$",
    "vacuum number",
    "deallocate p1",
    "copy (select k from number order by k) to stdout",
];

/// Texts of several statements, which only the simple protocol takes, and some of its own.
const OF_QUERIES: [&str; 10] = [
    "begin; update number set v = v + 1 where k = 2; commit",
    "begin; update number set v = v + 1 where k = 3",
    "update number set v = v + 1 where k = 4; select nothing",
    "savepoint a; release a",
    "rollback; begin",
    "commit; select 1",
    "deallocate all",
    "discard all",
    "prepare p2 as select 2",
    "execute p1",
];

struct Drawn(u64);

impl Drawn {
    fn below(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A segment: messages that end with one ReadyForQuery.
    fn segment(&mut self) -> BytesMut {
        const PREPARED: [&str; 3] = ["", "p1", "p2"];
        match self.below(12) {
            0 => query(self.of(&OF_QUERIES)),
            1 => {
                let sql = self.of(&["select k from number order by k limit 2", TEXTS[20], "begin"]);
                extended(&[Parse(self.of(&PREPARED), sql), Sync])
            }
            2 => extended(&[Bind(self.of(&PREPARED), &[]), DescribePortal, Execute, Sync]),
            3 => extended(&[Close(self.of(&PREPARED)), Sync]),
            4 => extended(&[DescribeStatement(self.of(&PREPARED)), Sync]),
            5 => {
                let name = self.of(&PREPARED);
                let (one, other) = (self.of(&TEXTS), self.of(&TEXTS));
                extended(&[
                    Parse(name, one),
                    Bind(name, &[]),
                    Execute,
                    Parse("", other),
                    Bind("", &[]),
                    Execute,
                    Sync,
                ])
            }
            6 => extended(&[Sync]),
            7 | 8 => {
                let parts = [Parse("", self.of(&TEXTS)), Bind("", &[]), DescribePortal];
                [extended(&parts), extended(&[Execute, Sync])].concat()[..].into()
            }
            _ => query(self.of(&TEXTS)),
        }
    }

    /// Segments that leave in one write, and how many.
    fn step(&mut self) -> (BytesMut, usize) {
        let count = if self.below(8) == 0 { 1 + self.below(4) } else { 1 };
        let all: Vec<BytesMut> = (0..count).map(|_| self.segment()).collect();
        (all.concat()[..].into(), count)
    }
}

#[test]
fn whatever_is_said_is_answered_as_directly() {
    for early in [&[][..], &["--early", "ping,set"]] {
        let sidecar = Sidecar::to(&server(), early);
        for seed in 0..PROGRAMS {
            let databases = [numbers(), numbers()];
            let mut direct = Wire::log_in(shared(), &server(), &databases[0]);
            let mut through = Wire::log_in(shared(), &sidecar.addr, &databases[1]);
            let mut drawn = Drawn(seed);
            for step in 0..STEPS {
                let (bytes, readies) = drawn.step();
                let heard = direct.say(&bytes, readies);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert_eq!(through.say(&bytes, readies), heard, "seed {seed}, {step}: {text:?}");
            }
            let written = "select 1 from (select sum(v), count(*) from number) it (v, k) where";
            let url = |at: usize| shared().database_url(&databases[at]);
            drop((direct, through));
            for v in 0..1000 {
                let is_it = format!("{written} v = {v}");
                let rows = [0, 1].map(|at| run(&url(at), &is_it));
                assert_eq!(rows[0], rows[1], "seed {seed}");
                if rows[0] == 1 {
                    break;
                }
            }
        }
        let said = sidecar.end();
        assert!(said.contains("begin") && !said.contains("saved 0"), "{said}");
    }
}
