//! Pipelines without a server: what is sent and when, and how each statement ends.

use std::collections::HashMap;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{Connection, End, Limits as EngineLimits, Outcome, Output, Time, Token};
use onetrip_postgres::client::pipeline::{
    self, Around, Io, Limits, Member, PipelineId, PipelineStatus, Pipelines, Refusal, Why,
};
use onetrip_postgres::client::transaction::verdict::Failure;
use onetrip_postgres::message::{EncodeError, TransactionStatus};
use onetrip_postgres::{Expect, Postgres};

#[derive(Clone, Debug, PartialEq)]
struct Failed {
    text: String,
    outcome: Outcome,
    of_server: bool,
}

fn failed(text: &str, outcome: Outcome) -> Failed {
    Failed { text: text.to_owned(), outcome, of_server: false }
}

impl Why for Failed {
    fn refused(refusal: Refusal) -> Failed {
        failed(refusal.code(), Outcome::NotSent)
    }

    fn is_late(&self) -> bool {
        self.text == "timeout"
    }

    fn of_statement(self, number: u64) -> Failed {
        Failed { text: format!("statement {number} of the pipeline: {}", self.text), ..self }
    }
}

impl Failure for Failed {
    fn answer(&self) -> Option<(&str, Option<&str>)> {
        self.of_server.then_some(("22012", None))
    }

    fn is_skipped(&self) -> bool {
        self.text == "aborted"
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn with_outcome(self, outcome: Outcome) -> Failed {
        Failed { outcome, ..self }
    }

    fn about(self, what: &'static str) -> Failed {
        Failed { text: format!("{what}: {}", self.text), ..self }
    }

    fn rolled_back(text: &'static str, _: Option<Failed>) -> Failed {
        failed(text, Outcome::Rejected)
    }
}

/// A transaction whose guard is one message of the type G.
#[derive(Clone)]
struct Transaction;

impl Around<Failed> for Transaction {
    fn write_guard(&self, out: &mut BytesMut) -> Result<Expect, EncodeError> {
        out.extend_from_slice(b"G\0\0\0\x04");
        Ok(Expect::sync().describe_portal())
    }

    fn refusal(&self) -> Option<Failed> {
        None
    }
}

enum Face {}

impl pipeline::Face for Face {
    type Why = Failed;
    type Around = Transaction;
    type Undescribed = &'static str;
    type Waker = &'static str;
}

#[derive(Default)]
struct Replies {
    members: HashMap<u64, Member>,
    ended: HashMap<u64, Result<(), Failed>>,
    woken: Vec<&'static str>,
    tokens: u64,
}

impl pipeline::Replies<Face> for Replies {
    fn add(&mut self, member: Member, _: Option<&Transaction>) -> Token {
        self.tokens += 1;
        self.members.insert(self.tokens, member);
        Token(self.tokens)
    }

    fn member(&mut self, token: Token) -> Option<Member> {
        self.members.get(&token.0).copied()
    }

    fn abandon(&mut self, _: Token) {}

    fn remove(&mut self, token: Token) {
        self.members.remove(&token.0);
    }

    fn fail(&mut self, token: Token, why: Failed) {
        self.ended.insert(token.0, Err(why));
    }

    fn wake(&mut self, waker: &'static str) {
        self.woken.push(waker);
    }
}

/// One connection, its pipelines, and a clock.
struct Host {
    engine: Connection<Postgres>,
    replies: Replies,
    pipelines: Pipelines<Face>,
    now: Time,
}

const LIMITS: Limits = Limits { requests: 100, bytes: 1 << 20 };

impl Host {
    fn new() -> Host {
        Host::with(EngineLimits::default())
    }

    fn with(limits: EngineLimits) -> Host {
        let engine = Connection::new(Time::ZERO, Postgres::new(TransactionStatus::Idle), limits);
        Host {
            engine,
            replies: Replies::default(),
            pipelines: Pipelines::default(),
            now: Time::ZERO,
        }
    }

    fn run<T>(
        &mut self,
        run: impl FnOnce(&mut Pipelines<Face>, &mut Io<'_, Face, Replies>) -> T,
    ) -> T {
        let ended = self.engine.is_closed().then(|| failed("lost", Outcome::NotSent));
        let Host { engine, replies, pipelines, now } = self;
        let result = run(pipelines, &mut Io { engine, replies, now: *now, ended });
        self.settle();
        result
    }

    /// Takes the engine's outputs, and lets pipelines go on.
    fn settle(&mut self) {
        loop {
            while let Some(output) = self.engine.poll_output() {
                let ended = self.engine.is_closed().then(|| failed("lost", Outcome::NotSent));
                let Host { engine, replies, pipelines, now } = self;
                let io = &mut Io { engine, replies, now: *now, ended };
                match output {
                    Output::Granted { token } => drop(pipelines.granted(io, token)),
                    Output::Room { token } => pipelines.turn(io, token),
                    Output::Closed(_) => pipelines.fail_all(io),
                    Output::Ended { token, end, .. } => {
                        let why = match end {
                            End::Failed(onetrip_engine::Failure { outcome, cause }) => {
                                Some(Failed {
                                    text: format!("{cause:?}").to_lowercase(),
                                    outcome,
                                    of_server: true,
                                })
                            }
                            _ => None,
                        };
                        let why = pipelines.ended(io, token, why);
                        io.replies.ended.insert(token.0, why.map_or(Ok(()), Err));
                    }
                    _ => {}
                }
            }
            let Host { engine, replies, pipelines, now } = self;
            let io = &mut Io { engine, replies, now: *now, ended: None };
            if !pipelines.advance(io).moved {
                break;
            }
        }
    }

    fn open(&mut self) -> PipelineId {
        self.pipelines.open(None, None)
    }

    /// Adds a statement of this many bytes.
    fn push(&mut self, id: PipelineId, len: usize) -> Result<Token, Failed> {
        let expect = Expect::sync().parse().bind().execute();
        let mut bytes = b"S".to_vec();
        bytes.extend_from_slice(&(len as u32 - 1).to_be_bytes());
        bytes.resize(len, 0);
        self.run(|pipelines, io| pipelines.push(io, id, expect, &bytes, LIMITS))
    }

    fn finish(&mut self, id: PipelineId) -> Option<Token> {
        self.run(|pipelines, io| pipelines.finish(io, id))
    }

    /// The messages that are sent: S statement, Y sync, H flush, G guard.
    fn sent(&mut self) -> String {
        let bytes = self.engine.transmit().to_vec();
        self.engine.handle_written(self.now, bytes.len());
        let (mut at, mut types) = (0, String::new());
        while at < bytes.len() {
            let len = u32::from_be_bytes(bytes[at + 1..at + 5].try_into().unwrap()) as usize;
            types.push(if bytes[at] == b'S' && len == 4 { 'Y' } else { bytes[at] as char });
            at += 1 + len;
        }
        self.settle();
        types
    }

    fn read(&mut self, messages: &[Vec<u8>]) {
        self.engine.handle_bytes(self.now, &mut BytesMut::from(&messages.concat()[..]));
        self.settle();
    }

    /// How a statement ended for its caller; takes the reply.
    fn told(&mut self, token: Token) -> Result<(), Failed> {
        let told = self.replies.ended.remove(&token.0).expect("it has ended");
        let member = self.replies.members[&token.0];
        match (told, self.run(|pipelines, io| pipelines.taken(io, member, 0))) {
            (Ok(()), Some(Err(why))) => {
                let outcome = pipeline::outcome_behind(why.outcome);
                Err(failed("rolled_back", outcome))
            }
            (told, _) => told,
        }
    }
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn done() -> Vec<u8> {
    [message(b'1', b""), message(b'2', b""), message(b'C', b"SELECT 0\0")].concat()
}

fn refused() -> Vec<u8> {
    message(b'E', b"SERROR\0VERROR\0C22012\0Mdivision by zero\0\0")
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

#[test]
fn statements_leave_together_when_the_pipeline_is_finished() {
    let mut host = Host::new();
    let id = host.open();
    let tokens: Vec<_> = (0..3).map(|_| host.push(id, 20).unwrap()).collect();
    assert_eq!(host.sent(), "");
    let end = host.finish(id).unwrap();
    assert_eq!(host.sent(), "SSSY");
    host.read(&[done(), done(), done(), ready()]);
    assert!(tokens.into_iter().chain([end]).all(|token| host.told(token).is_ok()));
    assert!(!host.pipelines.any_work());
}

#[test]
fn a_long_pipeline_leaves_while_it_is_made() {
    let mut host = Host::new();
    let id = host.open();
    host.push(id, 20 << 10).unwrap();
    assert_eq!(host.sent(), "");
    host.push(id, 20 << 10).unwrap();
    assert_eq!(host.sent(), "SS");
    host.push(id, 20).unwrap();
    assert_eq!(host.sent(), "S");
}

#[test]
fn a_failure_is_told_by_its_number_and_undoes_what_was_completed_in_its_segment() {
    let mut host = Host::new();
    let id = host.open();
    let outside = host.push(id, 20).unwrap();
    let first_end = host.run(|pipelines, io| pipelines.sync(io, id)).unwrap();
    let [before, wrong, behind] = [(); 3].map(|()| host.push(id, 20).unwrap());
    let end = host.finish(id).unwrap();
    assert_eq!(host.sent(), "SYSSSY");
    host.read(&[done(), ready(), done(), refused(), ready()]);
    let rejected = |text: &str| Err(failed(text, Outcome::Rejected));
    assert_eq!(host.told(outside), Ok(()));
    assert_eq!(host.told(first_end), Ok(()));
    assert_eq!(host.told(before), rejected("rolled_back"));
    let said = host.told(wrong).unwrap_err();
    assert_eq!(said.text, "statement 3 of the pipeline: server");
    assert_eq!(host.told(behind).unwrap_err().text, "aborted");
    assert_eq!(host.told(end).unwrap_err(), said);
    assert_eq!(host.pipelines.failure(id).unwrap(), said);
}

/// P63.
#[test]
fn what_the_server_refused_is_rejected_as_a_whole_though_the_line_was_lost_before_the_sync_point() {
    for is_sent_whole in [true, false] {
        let mut host = Host::new();
        let id = host.open();
        let [before, wrong, behind] = [(); 3].map(|()| host.push(id, 20).unwrap());
        let end = is_sent_whole.then(|| host.finish(id).unwrap());
        if !is_sent_whole {
            host.run(|pipelines, io| pipelines.flush(io, id));
        }
        host.sent();
        host.read(&[done(), refused()]);
        host.engine.handle_closed();
        host.settle();
        let outcome = |host: &mut Host, token| host.told(token).unwrap_err().outcome;
        for token in [before, wrong, behind].into_iter().chain(end) {
            assert_eq!(outcome(&mut host, token), Outcome::Rejected, "{is_sent_whole}: {token:?}");
        }
        assert_eq!(host.pipelines.failure(id).unwrap().outcome, Outcome::Rejected);
    }
}

#[test]
fn a_statement_alone_is_not_called_the_first() {
    let mut host = Host::new();
    let id = host.open();
    let wrong = host.push(id, 20).unwrap();
    host.finish(id);
    host.sent();
    host.read(&[refused(), ready()]);
    assert_eq!(host.told(wrong).unwrap_err().text, "server");
}

#[test]
fn nothing_comes_between_two_pipelines() {
    let mut host = Host::new();
    let (one, two) = (host.open(), host.open());
    host.push(one, 40 << 10).unwrap();
    host.push(two, 40 << 10).unwrap();
    assert_eq!(host.sent(), "S");
    host.finish(two);
    assert_eq!(host.sent(), "");
    host.push(one, 20).unwrap();
    host.finish(one);
    assert_eq!(host.sent(), "SYSY");
}

#[test]
fn a_flush_and_an_awaited_reply_have_it_leave_with_a_flush_and_no_sync() {
    let mut host = Host::new();
    let id = host.open();
    host.push(id, 20).unwrap();
    host.run(|pipelines, io| pipelines.flush(io, id));
    assert_eq!(host.sent(), "SH");
    let token = host.push(id, 20).unwrap();
    let member = host.replies.members[&token.0];
    host.run(|pipelines, io| pipelines.awaited(io, member));
    assert_eq!(host.sent(), "SH");
    host.run(|pipelines, io| pipelines.awaited(io, member));
    assert_eq!(host.sent(), "");
}

#[test]
fn nothing_of_a_pipeline_that_is_given_up_in_time_is_sent() {
    let mut host = Host::new();
    let id = host.open();
    let token = host.push(id, 20).unwrap();
    let why = failed("dropped", Outcome::NotSent);
    host.run(|pipelines, io| pipelines.give_up(io, id, &why));
    assert_eq!(host.sent(), "");
    let said = host.told(token).unwrap_err();
    assert_eq!((said.text.as_str(), said.outcome), ("dropped", Outcome::NotSent));
    assert_eq!(host.pipelines.status(false, id), PipelineStatus::Off);
}

#[test]
fn a_segment_that_was_sent_in_part_is_undone_by_a_rollback() {
    let mut host = Host::new();
    let id = host.open();
    let token = host.push(id, 40 << 10).unwrap();
    assert_eq!(host.sent(), "S");
    let why = failed("dropped", Outcome::NotSent);
    host.run(|pipelines, io| pipelines.give_up(io, id, &why));
    // Parse, Bind and Execute of ROLLBACK.
    assert_eq!(host.sent(), "PBEY");
    host.read(&[done(), done(), ready()]);
    assert_eq!(host.told(token), Err(failed("rolled_back", Outcome::Rejected)));
}

#[test]
fn in_a_transaction_it_begins_with_the_guard_and_what_is_given_up_fails_the_transaction() {
    let mut host = Host::new();
    let id = host.pipelines.open(Some(Transaction), None);
    host.push(id, 40 << 10).unwrap();
    host.push(id, 20).unwrap();
    assert_eq!(host.sent(), "GSS");
    let why = failed("dropped", Outcome::NotSent);
    host.run(|pipelines, io| pipelines.give_up(io, id, &why));
    // The Execute of a portal that does not exist.
    assert_eq!(host.sent(), "EY");
}

#[test]
fn a_guard_that_fails_is_told_as_the_end_of_the_transaction() {
    let mut host = Host::new();
    let id = host.pipelines.open(Some(Transaction), None);
    host.push(id, 20).unwrap();
    let end = host.finish(id).unwrap();
    assert_eq!(host.sent(), "GSY");
    host.read(&[refused(), ready()]);
    let text = host.told(end).unwrap_err().text;
    assert_eq!(text, "the transaction of the pipeline is not open any more: server");
}

#[test]
fn a_pipeline_that_is_late_is_not_sent_and_all_its_callers_are_told() {
    let mut host = Host::new();
    let blocker = host.open();
    host.push(blocker, 40 << 10).unwrap();
    let id = host.pipelines.open(None, Some(Duration::from_millis(10)));
    let token = host.push(id, 20).unwrap();
    let end = host.finish(id).unwrap();
    assert_eq!(host.pipelines.next_deadline(), Time::ZERO.after(Duration::from_millis(10)));
    host.now = Time::ZERO.after(Duration::from_millis(10));
    host.run(|pipelines, io| pipelines.expire(io));
    assert_eq!(host.told(token).unwrap_err().outcome, Outcome::NotSent);
    assert_eq!(host.told(end).unwrap_err().outcome, Outcome::NotSent);
    host.finish(blocker);
    assert_eq!(host.sent(), "SY");
}

#[test]
fn more_than_the_queue_takes_is_refused_for_good() {
    let mut host = Host::new();
    let id = host.open();
    for _ in 0..LIMITS.requests {
        host.push(id, 20).unwrap();
    }
    assert_eq!(host.push(id, 20).unwrap_err().text, "pipeline_too_long");
    assert_eq!(host.push(id, 20).unwrap_err().text, "pipeline_too_long");
}

#[test]
fn nothing_is_added_behind_the_end() {
    let mut host = Host::new();
    let id = host.open();
    host.push(id, 20).unwrap();
    host.finish(id);
    assert_eq!(host.push(id, 20).unwrap_err().text, "pipeline_finished");
    assert_eq!(host.finish(id), None);
}

#[test]
fn a_statement_is_encoded_when_the_server_has_described_it_and_keeps_its_place() {
    let mut host = Host::new();
    let id = host.open();
    let expect = Expect::sync().bind().execute();
    let describe: &[u8] = b"D\0\0\0\x04";
    let push = |pipelines: &mut Pipelines<Face>, io: &mut Io<'_, Face, Replies>| {
        pipelines.push_undescribed(io, id, (describe, expect), Box::new("select $1"), LIMITS)
    };
    let token = host.run(push).unwrap();
    host.push(id, 20).unwrap();
    host.finish(id);
    // At the front it has a segment of its own.
    assert_eq!(host.sent(), "DY");
    let no_data = message(b'n', b"");
    host.read(&[message(b'1', b""), message(b't', &[0, 0]), no_data, ready()]);
    let asked = host.replies.members.values().find(|it| it.role == pipeline::Role::Describe(token));
    let asked = *asked.unwrap();
    host.run(|pipelines, io| {
        pipelines.described(io, asked, 0, |text| {
            assert_eq!(*text, "select $1");
            Ok(BytesMut::from(&b"B\0\0\0\x04"[..]))
        });
    });
    assert_eq!(host.sent(), "BSY");
}

#[test]
fn what_the_end_of_the_connection_found_unsent_was_not_sent() {
    let mut host = Host::new();
    let id = host.open();
    let token = host.push(id, 20).unwrap();
    let waker = || "ready";
    assert_eq!(host.pipelines.poll_settled(id, || "settled"), Poll::Pending);
    let ready = host.run(|pipelines, io| pipelines.poll_ready(io, id, waker));
    assert_eq!(ready, Poll::Ready(Ok(())));
    host.engine.handle_closed();
    host.settle();
    assert_eq!(host.told(token).unwrap_err(), failed("lost", Outcome::NotSent));
    assert_eq!(host.replies.woken, ["settled"]);
}

#[test]
fn a_writer_waits_while_the_window_is_closed_and_is_woken_when_it_opens() {
    let mut host = Host::with(EngineLimits { in_flight_max: 2, ..EngineLimits::default() });
    let id = host.open();
    for _ in 0..4 {
        host.push(id, 20 << 10).unwrap();
    }
    let limits = Limits { requests: 4, ..LIMITS };
    host.run(|pipelines, io| pipelines.press(io, id, limits));
    // Flushes are between them: without one the server would keep back the replies that open the
    // window.
    let statements = |sent: String| sent.replace('H', "");
    assert_eq!(statements(host.sent()), "SS");
    let ready = host.run(|pipelines, io| pipelines.poll_ready(io, id, || "ready"));
    assert_eq!(ready, Poll::Pending);
    host.read(&[done(), done()]);
    assert_eq!(host.replies.woken, ["ready"]);
    assert_eq!(statements(host.sent()), "SS");
}

#[test]
fn what_would_wait_for_its_own_caller_is_refused_where_there_is_no_other() {
    let mut host = Host::new();
    host.engine.protocol_mut().lend();
    let (open, second) = (host.open(), host.open());
    assert_eq!(host.pipelines.refusal_behind(), None, "nothing was sent");
    host.push(open, 20).unwrap();
    host.run(|pipelines, io| pipelines.flush(io, open));
    assert_eq!(host.sent(), "SH");
    assert_eq!(host.pipelines.refusal_behind(), Some(Refusal::Open));
    let kept = host.push(second, 20).unwrap();
    host.finish(second);
    assert_eq!(host.told(kept).unwrap_err().outcome, Outcome::NotSent);
    host.finish(open);
    assert_eq!(host.sent(), "Y");
    assert_eq!(host.pipelines.refusal_behind(), None);
    let third = host.open();
    host.pipelines.stream_opened();
    assert_eq!(host.pipelines.refusal_behind(), Some(Refusal::Stream));
    let kept = host.push(third, 20).unwrap();
    host.finish(third);
    assert_eq!(host.told(kept).unwrap_err().outcome, Outcome::NotSent);
    host.pipelines.stream_closed();
    assert_eq!((host.pipelines.refusal_behind(), host.sent()), (None, String::new()));
}

#[test]
fn on_a_shared_connection_a_pipeline_waits_for_an_open_one() {
    let mut host = Host::new();
    host.engine.protocol_mut().share();
    let (open, second) = (host.open(), host.open());
    host.push(open, 20).unwrap();
    host.run(|pipelines, io| pipelines.flush(io, open));
    assert_eq!((host.sent().as_str(), host.pipelines.is_held()), ("SH", true));
    host.push(second, 20).unwrap();
    host.finish(second);
    assert_eq!(host.sent(), "");
    host.finish(open);
    assert_eq!((host.sent().as_str(), host.pipelines.is_held()), ("YSY", false));
}
