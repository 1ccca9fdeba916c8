//! A session with several owners in turn, step by step: an engine and a model server without a
//! network.

use bytes::BytesMut;
use onetrip_engine::{
    Cause, CloseReason, Connection, End, Failure, Group, Limits, Outcome, Output, Request,
    SyncPoint, Time, Token,
};
use onetrip_lab::model::{Config, Effect, Log, Sabotage, Server};
use onetrip_postgres::message::{EncodeError, Formats, IsNull, SYNC, TransactionStatus};
use onetrip_postgres::message::{bind, execute, parse};
use onetrip_postgres::session::NOT_RESET;
use onetrip_postgres::{Event, Expect, Names, Postgres};

/// The process id of the model server.
const PROCESS_ID: i32 = 4711;

/// Both sides, and the outputs to the host.
struct Pair {
    engine: Connection<Postgres>,
    server: Server,
    input: BytesMut,
    ends: Vec<(u64, End)>,
    closed: Option<CloseReason>,
}

impl Pair {
    fn new() -> Pair {
        Pair::to(PROCESS_ID)
    }

    /// A connection to a server whose login named this process.
    fn to(process_id: i32) -> Pair {
        let mut postgres = Postgres::new(TransactionStatus::Idle);
        postgres.identify(process_id, 0xabc);
        Pair {
            engine: Connection::new(Time::ZERO, postgres, Limits::default()),
            server: Server::ready(Config::default(), Log::default()),
            input: BytesMut::new(),
            ends: Vec::new(),
            closed: None,
        }
    }

    fn protocol(&mut self) -> &mut Postgres {
        self.engine.protocol_mut()
    }

    /// Gives the session to the next owner, exclusively if `lent`. Returns whether a reset is owed.
    fn change_hands(&mut self, lent: bool) -> bool {
        let owed = self.protocol().take_back();
        match lent {
            true => self.protocol().lend(),
            false => self.protocol().share(),
        }
        owed
    }

    fn request(&self, op: u64, sync: SyncPoint) -> Request<Expect> {
        let expect = Expect::sync().parse().bind().execute();
        Request { sync, in_order: true, ..Request::isolated(Token(op), expect) }
    }

    /// A statement with a sync point of its own.
    fn submit(&mut self, op: u64, sql: &str) {
        let request = self.request(op, SyncPoint::Own);
        self.submit_as(request, sql);
    }

    fn submit_as(&mut self, request: Request<Expect>, sql: &str) {
        let ends_segment = request.sync == SyncPoint::Own;
        let nothing = |_: usize, _: &mut BytesMut| Ok::<_, EncodeError>(IsNull::Yes);
        let submitted = self.engine.submit(Time::ZERO, request, |out| {
            let text = Formats::AllText;
            parse::write(out, "", sql, &[]).unwrap();
            bind::write(out, "", "", text, 0, nothing, text).unwrap();
            out.extend_from_slice(&execute::UNNAMED_ALL);
            out.extend_from_slice(if ends_segment { &SYNC } else { &[] });
            Ok::<(), ()>(())
        });
        submitted.unwrap();
    }

    /// Moves bytes in both directions until there are none left.
    fn run(&mut self) {
        loop {
            while let Some(output) = self.engine.poll_output() {
                self.note(output);
            }
            let sent = self.engine.transmit().to_vec();
            self.engine.handle_written(Time::ZERO, sent.len());
            self.server.handle_bytes(&sent);
            while !self.server.transmit().is_empty() {
                self.input.extend_from_slice(self.server.transmit());
                self.server.handle_written(self.server.transmit().len());
            }
            if self.input.is_empty() && sent.is_empty() {
                break;
            }
            self.engine.handle_bytes(Time::ZERO, &mut self.input);
        }
    }

    fn note(&mut self, output: Output<Event>) {
        match output {
            Output::Ended { token, end, .. } => self.ends.push((token.0, end)),
            Output::Closed(reason) => self.closed = Some(reason),
            _ => {}
        }
    }

    fn end(&self, op: u64) -> Option<End> {
        self.ends.iter().find(|(token, _)| *token == op).map(|(_, end)| *end)
    }

    fn ran(&self, op: u64) -> u32 {
        self.server.log().entry(op).executed
    }

    /// An owner gets the session and leaves state there that no tag shows.
    fn touched() -> Pair {
        let mut pair = Pair::new();
        pair.protocol().lend();
        pair.submit(1, "select op=1 leaves=temp");
        pair.run();
        assert_eq!(pair.end(1), Some(End::Complete));
        pair
    }
}

#[test]
fn nothing_of_another_is_there_behind_a_reset() {
    let mut pair = Pair::touched();
    assert!(pair.change_hands(false));
    (2..5).for_each(|op| pair.submit(op, &format!("insert op={op}")));
    pair.run();
    assert!((2..5).all(|op| pair.end(op) == Some(End::Complete)), "{:?}", pair.ends);
    assert!(pair.server.log().seen().is_empty(), "{:?}", pair.server.log().seen());
    assert_eq!(pair.server.log().resets_failed(), [0, 0]);
}

#[test]
fn nothing_runs_behind_a_reset_that_failed_wherever_it_did() {
    let statements = (0..9).map(Sabotage::Statement);
    for sabotage in statements.chain([Sabotage::Commit]) {
        let mut pair = Pair::touched();
        pair.server.sabotage(&[sabotage]);
        assert!(pair.change_hands(true));
        (2..5).for_each(|op| pair.submit(op, &format!("insert op={op}")));
        pair.run();
        let log = pair.server.log();
        assert_eq!(log.resets_failed(), [1, 0], "{sabotage:?}");
        assert!(log.seen().is_empty(), "{sabotage:?}: {:?}", log.seen());
        assert_eq!(log.order(), [1, 2, 3, 4], "{sabotage:?}");
        assert!((2..5).all(|op| pair.end(op) == Some(End::Complete)), "{sabotage:?}");
    }
}

#[test]
fn a_session_that_can_not_be_reset_is_nobodys() {
    let mut pair = Pair::touched();
    pair.server.sabotage(&[Sabotage::Commit, Sabotage::Statement(3), Sabotage::Statement(0)]);
    assert!(pair.change_hands(false));
    (2..5).for_each(|op| pair.submit(op, &format!("insert op={op}")));
    pair.run();
    assert_eq!(pair.closed, Some(CloseReason::Unusable(NOT_RESET)));
    let rejected = Failure { outcome: Outcome::Rejected, cause: Cause::Closed };
    for op in 2..5 {
        assert_eq!((pair.end(op), pair.ran(op)), (Some(End::Failed(rejected)), 0));
    }
}

#[test]
fn what_a_reset_threw_back_keeps_its_place_before_a_pipeline_of_the_same_session() {
    let mut pair = Pair::touched();
    pair.server.sabotage(&[Sabotage::Statement(2)]);
    assert!(pair.change_hands(true));
    pair.submit(2, "insert op=2");
    let group = pair.engine.open_group(Time::ZERO, Token(3)).unwrap();
    submit_in(&mut pair, group, 4);
    pair.run();
    submit_in(&mut pair, group, 5);
    pair.run();
    pair.engine.close_group(Time::ZERO, group);
    pair.run();
    assert_eq!((pair.end(2), pair.end(5)), (Some(End::Complete), Some(End::Complete)));
    let order = pair.server.log().order();
    assert!(order.starts_with(&[1, 2]), "{order:?}");
}

fn submit_in(pair: &mut Pair, group: Group, op: u64) {
    let request = Request { group: Some(group), ..pair.request(op, SyncPoint::Own) };
    pair.submit_as(request, &format!("insert op={op}"));
}

#[test]
fn behind_a_reset_nothing_is_sent_again_of_which_its_caller_did_not_say_so() {
    let mut pair = Pair::touched();
    let mut heal = BytesMut::new();
    parse::write(&mut heal, "s", "insert op=2", &[]).unwrap();
    let id = pair.protocol().register(heal.freeze());
    assert!(pair.change_hands(false));
    let expect = Expect::sync().bind().execute().of_statement(id);
    let request = Request::isolated(Token(2), expect);
    let nothing = |_: usize, _: &mut BytesMut| Ok::<_, EncodeError>(IsNull::Yes);
    let submitted = pair.engine.submit(Time::ZERO, request, |out| {
        bind::write(out, "", "s", Formats::AllText, 0, nothing, Formats::AllText).unwrap();
        out.extend_from_slice(&execute::UNNAMED_ALL);
        out.extend_from_slice(&SYNC);
        Ok::<(), ()>(())
    });
    submitted.unwrap();
    pair.run();
    let rejected = Failure { outcome: Outcome::Rejected, cause: Cause::Server };
    assert_eq!((pair.end(2), pair.ran(2)), (Some(End::Failed(rejected)), 0));
}

#[test]
fn a_transaction_left_open_is_undone_behind_a_pooler_that_changes_servers() {
    let mut pair = behind_changing_servers();
    pair.submit(10, "begin op=10");
    pair.submit(11, "insert op=11");
    pair.run();
    assert!(pair.change_hands(true), "its transaction is open");
    pair.submit(12, "insert op=12");
    pair.run();
    assert_eq!(pair.end(12), Some(End::Complete));
    let log = pair.server.log();
    assert_eq!(log.entry(11).effect, Effect::RolledBack);
    assert_eq!(log.entry(12).effect, Effect::Committed);
}

#[test]
fn nobody_is_blamed_for_what_was_changed_on_another_server() {
    let mut pair = behind_changing_servers();
    pair.submit(10, "set x op=10");
    pair.run();
    assert!(!pair.change_hands(false), "a reset would come to another server");
    pair.submit(11, "insert op=11");
    pair.submit(12, "insert op=12");
    pair.run();
    assert_eq!((pair.end(11), pair.end(12)), (Some(End::Complete), Some(End::Complete)));
    assert_eq!(pair.closed, None);
}

/// A lent session behind a pooler that is known to change servers.
fn behind_changing_servers() -> Pair {
    let mut pair = Pair::new();
    pair.server.change_processes();
    pair.protocol().lend();
    // After an odd number of Syncs the process is another one.
    (1..3).for_each(|op| pair.submit(op, &format!("select op={op} leaves=setting")));
    pair.run();
    assert!(pair.change_hands(true));
    pair.submit(3, "select op=3 leaves=setting");
    pair.run();
    assert_eq!(pair.protocol().names(), Names::Lost);
    assert!(!pair.change_hands(true));
    pair
}

/// The most sync points in flight while these statements were submitted at once.
fn syncs_at_once(pair: &mut Pair, statements: std::ops::Range<u64>) -> usize {
    statements.clone().for_each(|op| pair.submit(op, &format!("select op={op}")));
    let at_once = pair.engine.transmit().windows(5).filter(|it| *it == SYNC).count();
    pair.run();
    assert!(statements.clone().all(|op| pair.end(op) == Some(End::Complete)), "{:?}", pair.ends);
    at_once
}

/// P49.
#[test]
fn behind_what_is_not_the_server_itself_one_segment_leaves_at_a_time() {
    let mut pair = Pair::to(PROCESS_ID + 1);
    pair.protocol().share();
    assert_eq!(syncs_at_once(&mut pair, 1..4), 1 + 3, "who is there is asked in the same flight");
    assert_eq!(syncs_at_once(&mut pair, 4..7), 1);
}

#[test]
fn the_server_itself_is_sent_all_at_once() {
    let mut pair = Pair::new();
    pair.protocol().share();
    assert_eq!(syncs_at_once(&mut pair, 1..4), 1 + 3);
    assert_eq!(syncs_at_once(&mut pair, 4..7), 3, "it is asked once");
}

#[test]
fn who_sends_nothing_ahead_asks_nothing() {
    let mut pair = Pair::to(PROCESS_ID + 1);
    pair.protocol().share();
    assert!((1..4).all(|op| syncs_at_once(&mut pair, op..op + 1) == 1));
}

/// P49.
#[test]
fn who_sends_ahead_on_a_connection_of_nobodys_asks_with_the_first_statement() {
    let mut pair = Pair::to(PROCESS_ID + 1);
    pair.protocol().send_ahead();
    assert_eq!(syncs_at_once(&mut pair, 1..4), 1 + 3);
    assert_eq!(syncs_at_once(&mut pair, 4..7), 1);
}
