//! A reset that the next user's first request takes along in its own segment.

use bytes::{Bytes, BytesMut};
use onetrip_engine::{Connection, End, Limits, Outcome, Output, Request, SyncPoint, Time, Token};
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{SYNC, TransactionStatus};
use onetrip_postgres::{Event, Expect, Names, Postgres};

const NOW: Time = Time::ZERO;
const PROCESS: i32 = 4711;

struct Host {
    engine: Connection<Postgres>,
}

impl Host {
    /// A connection whose usual reset was answered twice, so that the next one is taken along. It is
    /// owed.
    fn warm() -> Host {
        let mut protocol = Postgres::new(TransactionStatus::Idle);
        protocol.identify(PROCESS, 7);
        let mut host = Host { engine: Connection::new(NOW, protocol, Limits::default()) };
        for user in 0..3 {
            host.engine.protocol_mut().lend();
            host.put(user, SyncPoint::Own);
            let sent = host.write();
            let syncs = sent.iter().filter(|tag| **tag == b'S').count();
            assert_eq!(syncs, 2, "the probe, or the reset, and the request: {sent:?}");
            host.answer(&sent, usize::MAX, None);
            assert_eq!(host.ends(), [(user, End::Complete)]);
            assert!(host.engine.protocol_mut().take_back());
        }
        host
    }

    fn put(&mut self, id: u64, sync: SyncPoint) {
        let expect = Expect::sync().parse().bind().execute();
        let request = Request { sync, ..Request::isolated(Token(id), expect) };
        let ends = sync == SyncPoint::Own;
        let statement = |out: &mut BytesMut| {
            for tag in [b'P', b'B', b'E'] {
                out.extend_from_slice(&[tag, 0, 0, 0, 4]);
            }
            out.extend_from_slice(if ends { &SYNC } else { b"" });
            Ok::<(), ()>(())
        };
        self.engine.submit(NOW, request, statement).unwrap();
    }

    /// Writes what there is. Returns the tags.
    fn write(&mut self) -> Vec<u8> {
        let bytes = self.engine.transmit().to_vec();
        self.engine.handle_written(NOW, bytes.len());
        let (mut tags, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            tags.push(bytes[at]);
            at += 1 + u32::from_be_bytes(bytes[at + 1..at + 5].try_into().unwrap()) as usize;
        }
        tags
    }

    /// The server answers these messages, up to a number of answers, with the error at one of them.
    fn answer(&mut self, sent: &[u8], answers: usize, error_at: Option<usize>) {
        let mut read = Host::answers(sent, answers, error_at);
        self.engine.handle_bytes(NOW, &mut read);
        assert!(read.is_empty());
    }

    /// The same with this error at one of the reset's. What is behind it in a segment of its own finds
    /// no guard.
    fn fail(&mut self, sent: &[u8], at: usize, code: &[u8; 6]) {
        let (reset, behind) = sent.split_at(1 + sent.iter().position(|tag| *tag == b'S').unwrap());
        let read = Host::answers(reset, usize::MAX, Some(at));
        let hit = read.windows(6).position(|it| it == b"C22P02").unwrap();
        let behind = Host::answers(behind, usize::MAX, Some(0));
        let mut read = [&read[..hit], code, &read[hit + 6..], &behind].concat()[..].into();
        self.engine.handle_bytes(NOW, &mut read);
        assert!(read.is_empty());
    }

    fn answers(sent: &[u8], answers: usize, error_at: Option<usize>) -> BytesMut {
        let (mut read, mut skips) = (BytesMut::new(), false);
        for (at, tag) in sent.iter().enumerate().take(answers) {
            let text: &[(u8, &[u8])] = match tag {
                b'S' => &[(backend::READY_FOR_QUERY, b"I")],
                _ if skips => &[],
                _ if error_at == Some(at) => {
                    &[(backend::ERROR_RESPONSE, b"SERROR\0VERROR\0C22P02\0Mleft by PREPARE\0\0")]
                }
                b'C' => &[(backend::CLOSE_COMPLETE, b"")],
                b'P' => &[(backend::PARSE_COMPLETE, b"")],
                b'B' => &[(backend::BIND_COMPLETE, b"")],
                b'D' => &[(backend::PARAMETER_DESCRIPTION, b"\0\0"), (backend::NO_DATA, b"")],
                b'E' if sent.starts_with(b"PBEC") && at == 2 => &[
                    (backend::DATA_ROW, b"\0\x03\0\0\0\x044711\0\0\0\x01t\0\0\0\x01f"),
                    (backend::COMMAND_COMPLETE, b"SELECT 1\0"),
                ],
                b'E' => &[(backend::COMMAND_COMPLETE, b"DONE\0")],
                other => panic!("{other}"),
            };
            skips = (skips || error_at == Some(at)) && *tag != b'S';
            text.iter().for_each(|(tag, body)| read.extend_from_slice(&message(*tag, body)));
        }
        read
    }

    fn outputs(&mut self) -> Vec<Output<Event>> {
        std::iter::from_fn(|| self.engine.poll_output()).collect()
    }

    fn ends(&mut self) -> Vec<(u64, End)> {
        let ends = self.outputs().into_iter().filter_map(|output| match output {
            Output::Ended { token, end, .. } => Some((token.0, end)),
            _ => None,
        });
        ends.collect()
    }
}

fn message(tag: u8, body: &[u8]) -> Bytes {
    let len = (body.len() as u32 + 4).to_be_bytes();
    [&[tag][..], &len, body].concat().into()
}

/// The Close of the guard, nine steps and the Parse of the guard.
const RESET: usize = 1 + 9 * 2 + 1;

#[test]
fn the_third_reset_leaves_in_the_segment_of_the_next_request() {
    let mut host = Host::warm();
    host.engine.protocol_mut().lend();
    host.put(3, SyncPoint::Own);
    let sent = host.write();
    assert_eq!(sent.iter().filter(|tag| **tag == b'S').count(), 1, "{sent:?}");
    assert_eq!(sent.len(), RESET + b"PBES".len());
    host.answer(&sent, usize::MAX, None);
    assert_eq!(host.ends(), [(3, End::Complete)]);
    assert!(!host.engine.protocol().is_resetting());
    assert!(host.engine.protocol_mut().take_back(), "the request itself leaves something behind");
}

/// What PostgreSQL 15 answers to the usual reset, and behind it to Parse, Bind, Execute and Sync.
fn postgres_answers() -> Vec<Bytes> {
    let step = |tag: &str| {
        let tag = [tag.as_bytes(), b"\0"].concat();
        [message(backend::BIND_COMPLETE, b""), message(backend::COMMAND_COMPLETE, &tag)]
    };
    let mut all = vec![message(backend::CLOSE_COMPLETE, b"")];
    let tags =
        ["BEGIN", "CLOSE CURSOR ALL", "SET", "UNLISTEN", "DISCARD SEQUENCES", "DISCARD TEMP"];
    tags.iter().for_each(|tag| all.extend(step(tag)));
    let [bind, done] = step("SELECT 1");
    let row = b"\0\x04\0\0\0\0\0\0\0\x044711\0\0\0\x01f\xff\xff\xff\xff";
    all.extend([bind, message(backend::DATA_ROW, row), done]);
    ["RESET", "COMMIT"].iter().for_each(|tag| all.extend(step(tag)));
    let parsed = message(backend::PARSE_COMPLETE, b"");
    all.extend([parsed.clone(), parsed]);
    all.extend(step("DONE"));
    all.push(message(backend::READY_FOR_QUERY, b"I"));
    all
}

#[test]
fn the_answer_to_a_reset_is_the_same_wherever_it_is_cut() {
    let answer = postgres_answers().concat();
    for cut in 0..answer.len() {
        let mut host = Host::warm();
        host.engine.protocol_mut().lend();
        host.put(3, SyncPoint::Own);
        host.write();
        let mut read = BytesMut::from(&answer[..cut]);
        host.engine.handle_bytes(NOW, &mut read);
        assert_eq!(host.ends(), [], "cut at {cut}");
        read.extend_from_slice(&answer[cut..]);
        host.engine.handle_bytes(NOW, &mut read);
        assert!(read.is_empty());
        assert_eq!(host.ends(), [(3, End::Complete)], "cut at {cut}");
        assert!(!host.engine.protocol().is_resetting(), "cut at {cut}");
    }
}

#[test]
fn an_answer_to_a_reset_in_which_one_is_missing_or_too_much_ends_the_connection() {
    let answers = postgres_answers();
    // The row is no answer, so one more of it harms nothing.
    let row = answers.iter().position(|it| it[0] == backend::DATA_ROW).unwrap();
    for at in (0..RESET + 1).filter(|at| *at != row) {
        for copies in [0, 2] {
            let mut host = Host::warm();
            host.engine.protocol_mut().lend();
            host.put(3, SyncPoint::Own);
            host.write();
            let each = answers.iter().enumerate();
            let each = each.flat_map(|(it, part)| vec![part; if it == at { copies } else { 1 }]);
            let bytes: Vec<u8> = each.flat_map(|part| part.to_vec()).collect();
            host.engine.handle_bytes(NOW, &mut BytesMut::from(&bytes[..]));
            assert!(host.engine.is_closed(), "{copies} of answer {at}");
        }
    }
}

#[test]
fn what_is_notified_behind_a_reset_in_the_same_segment_is_for_the_new_user() {
    let mut host = Host::warm();
    host.engine.protocol_mut().lend();
    host.put(3, SyncPoint::Own);
    let sent = host.write();
    let notified = message(backend::NOTIFICATION_RESPONSE, b"\0\0\0\x01c\0p\0");
    let mut events = Vec::new();
    for (from, to) in [(0, RESET - 1), (RESET - 1, RESET + 3)] {
        host.answer(&sent[from..to], usize::MAX, None);
        host.engine.handle_bytes(NOW, &mut BytesMut::from(&notified[..]));
        events.extend(host.outputs().into_iter().filter_map(|output| match output {
            Output::Event { event, .. } => Some(event),
            _ => None,
        }));
    }
    assert_eq!(events, [Event::StaleNotification, Event::Notification]);
}

/// P46. The server skipped it together with the rest of its segment.
#[test]
fn a_request_whose_reset_failed_at_any_step_comes_again_behind_another_reset() {
    for step in 0..RESET {
        let mut host = Host::warm();
        host.engine.protocol_mut().lend();
        host.put(3, SyncPoint::Own);
        let sent = host.write();
        host.answer(&sent, usize::MAX, Some(step));
        assert_eq!(host.ends(), [], "at {step}");
        let again = host.write();
        assert_eq!(again.iter().filter(|tag| **tag == b'S').count(), 2, "at {step}: {again:?}");
        host.answer(&again, usize::MAX, None);
        assert_eq!(host.ends(), [(3, End::Complete)], "at {step}");
    }
}

/// The usual reset runs under the timeouts of the user before, who may have left one of no time.
#[test]
fn a_reset_behind_one_that_failed_lifts_the_timeouts_first() {
    let mut host = Host::warm();
    host.engine.protocol_mut().lend();
    host.put(3, SyncPoint::Own);
    let usual = host.write();
    assert_eq!(usual[1..3], *b"BE", "its statements are prepared");
    host.answer(&usual, usize::MAX, Some(RESET / 2));
    let again = String::from_utf8_lossy(host.engine.transmit()).into_owned();
    for setting in ["set statement_timeout = 0", "set lock_timeout = 0"] {
        assert!(again.contains(setting), "{again}");
    }
}

/// From then on each reset deallocates all statements, in front of what is sent in the same flight.
#[test]
fn behind_two_resets_that_failed_no_names_are_used() {
    let mut host = Host::warm();
    host.engine.protocol_mut().lend();
    host.put(3, SyncPoint::Own);
    for error_at in [RESET / 2, 3] {
        assert_eq!(host.engine.protocol_mut().names(), Names::Kept);
        let sent = host.write();
        host.answer(&sent, usize::MAX, Some(error_at));
    }
    assert_eq!(host.engine.protocol_mut().names(), Names::Lost);
    host.outputs();
    host.put(4, SyncPoint::Own);
    let all = String::from_utf8_lossy(host.engine.transmit()).into_owned();
    assert!(all.contains("deallocate all"), "{all}");
    let sent = host.write();
    host.answer(&sent, usize::MAX, None);
    assert_eq!(host.ends(), [(4, End::Complete)]);
    assert_eq!(host.engine.protocol_mut().names(), Names::Lost);
}

/// Nor does one cost the connection its names, however often it happens.
#[test]
fn behind_resets_that_were_cancelled_names_are_used() {
    let mut host = Host::warm();
    for user in 3..9 {
        host.engine.protocol_mut().lend();
        host.put(user, SyncPoint::Own);
        let sent = host.write();
        host.fail(&sent, RESET / 2, b"C57014");
        let again = String::from_utf8_lossy(host.engine.transmit()).into_owned();
        for part in ["set statement_timeout = 0", "pg_catalog.pg_prepared_statement()"] {
            assert!(again.contains(part), "{again}");
        }
        let again = host.write();
        host.answer(&again, usize::MAX, None);
        assert_eq!(host.ends(), [(user, End::Complete)]);
        assert_eq!(host.engine.protocol_mut().names(), Names::Kept);
        assert!(host.engine.protocol_mut().take_back());
    }
    // One that was not cancelled is tried in the last way.
    host.engine.protocol_mut().lend();
    host.put(9, SyncPoint::Own);
    let sent = host.write();
    host.fail(&sent, RESET / 2, b"C42704");
    assert!(String::from_utf8_lossy(host.engine.transmit()).contains("deallocate all"));
}

/// P46. What can't be sent again says that it did not run, and not what stopped the reset.
#[test]
fn a_segment_whose_reset_failed_ends_with_the_error_of_the_guard() {
    for step in 0..RESET {
        let mut host = Host::warm();
        host.engine.protocol_mut().lend();
        host.put(3, SyncPoint::Member);
        host.put(4, SyncPoint::Own);
        let sent = host.write();
        host.answer(&sent, usize::MAX, Some(step));
        let ended = host.outputs().into_iter().find_map(|output| match output {
            Output::Ended { token: Token(3), block, end, .. } => Some((block, end)),
            _ => None,
        });
        let (block, end) = ended.unwrap();
        assert!(matches!(end, End::Failed(failure) if failure.outcome == Outcome::Rejected));
        let text = String::from_utf8_lossy(&block).into_owned();
        assert!(text.contains("C26000\0"), "{text}");
        assert!(text.contains("reset failed, not run, try again"), "{text}");
        // The next user waits for a reset as the first did.
        assert!(host.engine.protocol().is_reset_owed());
    }
}
