//! Which request a message answers: COPY, and messages that are too long to be kept whole.

use bytes::{BufMut, BytesMut};
use onetrip_engine::{Connection, Limits, Output, Protocol, Step, Time, Violation};
use onetrip_postgres::client::connect::TargetSessionAttrs;
use onetrip_postgres::message::copy_response::{self, CopyDirection};
use onetrip_postgres::message::{
    Bind, EncodeError, Format, Frame, FrontendMessage, IsNull, LARGE_LEN_MAX, TransactionStatus,
    bind, tag::backend,
};
use onetrip_postgres::session::WHOLE_LEN_MAX;
use onetrip_postgres::{Event, Expect, Postgres};

/// A step, in short.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Need(usize),
    Part(usize),
    Piece(usize, usize),
    Settled(usize),
    Violation,
}

fn seen(step: Result<Step<Event>, Violation>) -> Seen {
    match step {
        Ok(Step::Need(need)) => Seen::Need(need),
        Ok(Step::Part(len)) => Seen::Part(len),
        Ok(Step::Piece { len, left }) => Seen::Piece(len, left),
        Ok(Step::Settled(len)) => Seen::Settled(len),
        Ok(other) => panic!("{other:?}"),
        Err(_) => Seen::Violation,
    }
}

fn session() -> Postgres {
    Postgres::new(TransactionStatus::Idle)
}

fn message(tag: u8, body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_u8(tag);
    out.put_u32(body.len() as u32 + 4);
    out.put_slice(body);
    out
}

fn copy_begins(direction: CopyDirection) -> BytesMut {
    let mut out = BytesMut::new();
    copy_response::write(&mut out, direction, Format::Text, &[Format::Text]).unwrap();
    out
}

fn rows_expected() -> Expect {
    Expect::sync().execute()
}

#[test]
fn a_copy_out_is_a_run_of_data_between_its_two_ends() {
    let (mut session, mut expect) = (session(), Expect::copy_out());
    let mut step = |input: &[u8]| seen(session.step(input, Some(&mut expect)));
    let begins = copy_begins(CopyDirection::Out);
    let (data, done) = (message(b'd', b"row\n"), message(b'c', b""));
    assert_eq!(step(&data), Seen::Violation, "before it began");
    assert_eq!(step(&begins), Seen::Part(begins.len()));
    assert_eq!(step(&begins), Seen::Violation, "twice");
    assert_eq!(step(&[&data[..], &data, &data, &done].concat()), Seen::Part(3 * data.len()));
    let complete = message(b'C', b"COPY 3\0");
    assert_eq!(step(&complete), Seen::Violation, "before it ended");
    assert_eq!(step(&done), Seen::Part(done.len()));
    assert_eq!(step(&data), Seen::Violation, "behind its end");
    assert_eq!(step(&complete), Seen::Part(complete.len()));
    assert_eq!(step(b"Z\0\0\0\x05I"), Seen::Settled(6));
}

#[test]
fn a_guard_is_answered_in_front_of_everything_and_by_nothing_else() {
    let (mut session, mut expect) = (session(), Expect::sync().bind().execute().guarded());
    for (tag, body) in [(b'n', &b""[..]), (b'2', b""), (b'C', b"SELECT 0\0")] {
        let reply = message(tag, body);
        assert!(session.step(&reply, Some(&mut expect)).is_ok(), "{}", char::from(tag));
    }
    for tag in [b'2', b'T', b'1'] {
        let mut expect = Expect::sync().bind().execute().guarded();
        assert!(session.step(&message(tag, b""), Some(&mut expect)).is_err());
    }
    let mut unanswered = Expect::sync().guarded();
    assert!(session.step(&message(b'Z', b"I"), Some(&mut unanswered)).is_err());
    let mut skipped = Expect::sync().bind().execute().guarded();
    let error = message(b'E', b"SERROR\0VERROR\0C34000\0Mno such portal\0\0");
    assert!(matches!(session.step(&error, Some(&mut skipped)), Ok(Step::Failed { .. })));
    assert!(matches!(session.step(&message(b'Z', b"I"), Some(&mut skipped)), Ok(Step::Settled(_))));
}

/// What SyncRepWaitForLSN says when a wait is cancelled, in a language that is not English.
const NOT_REPLICATED: &[u8] = b"SWARNUNG\0VWARNING\0C01000\0Mabgebrochen\0RSyncRepWaitForLSN\0\0";

#[test]
fn a_commit_that_did_not_wait_for_its_standby_is_not_confirmed() {
    let ready = message(b'Z', b"I");
    let other = message(b'N', b"SWARNING\0C01000\0Mx\0RSomethingElse\0\0");
    for (expect, tag) in [(Expect::simple(), &b"COPY 3\0"[..]), (rows_expected(), b"COMMIT\0")] {
        let (mut session, mut expect) = (session(), expect);
        let complete = message(b'C', tag);
        // In the extended protocol the commit comes with the Sync, behind the tag.
        assert!(session.step(&complete, Some(&mut expect)).is_ok());
        let notice = message(b'N', NOT_REPLICATED);
        assert!(matches!(session.step(&notice, Some(&mut expect)), Ok(Step::Event(..))));
        let end = session.step(&ready, Some(&mut expect));
        assert!(matches!(end, Ok(Step::Unconfirmed(6))), "{end:?}");
        let mut next = Expect::sync();
        assert!(session.step(&other, Some(&mut next)).is_ok());
        let end = session.step(&ready, Some(&mut next));
        assert!(matches!(end, Ok(Step::Settled(6))), "the next one is confirmed");
    }
}

#[test]
fn a_row_of_an_isolated_run_that_is_not_confirmed_ends_the_connection_in_front_of_its_answer() {
    let (mut session, mut expect) = (session(), Expect::isolated_run(3));
    let answers = [
        message(b'2', b""),
        message(b'C', b"INSERT 0 1\0"),
        message(b'Z', b"I"),
        message(b'2', b""),
        message(b'C', b"INSERT 0 1\0"),
        message(b'N', NOT_REPLICATED),
    ];
    for answer in &answers {
        assert!(session.step(answer, Some(&mut expect)).is_ok());
    }
    let end = session.step(&message(b'Z', b"I"), Some(&mut expect));
    assert!(matches!(end, Ok(Step::Unusable(_))), "{end:?}");
}

/// P72. The server reports it in front of the ReadyForQuery (from PostgreSQL 14 on).
#[test]
fn a_session_that_has_another_encoding_is_used_no_further() {
    for (encoding, is_ours) in [("LATIN1", false), ("SQL_ASCII", false), ("UTF8", true)] {
        let (mut session, mut expect) = (session(), Expect::simple());
        session.lend();
        let report = format!("client_encoding\0{encoding}\0");
        assert!(session.step(&message(b'C', b"SET\0"), Some(&mut expect)).is_ok());
        assert!(session.step(&message(b'S', report.as_bytes()), Some(&mut expect)).is_ok());
        let end = session.step(&message(b'Z', b"I"), Some(&mut expect));
        assert!(matches!(end, Ok(Step::Settled(6))), "what has set it is answered: {end:?}");
        let next = session.step(&[], None);
        match next {
            Ok(Step::Unusable(why)) => assert!(!is_ours && why.contains("client_encoding")),
            next => assert!(is_ours, "{encoding}: {next:?}"),
        }
    }
}

#[test]
fn a_copy_in_is_begun_by_the_server_and_sends_nothing() {
    let (mut session, mut expect) = (session(), Expect::copy_in());
    let mut step = |input: &[u8]| seen(session.step(input, Some(&mut expect)));
    let begins = copy_begins(CopyDirection::In);
    assert_eq!(step(&begins), Seen::Part(begins.len()));
    assert_eq!(step(&message(b'd', b"row\n")), Seen::Violation);
    assert_eq!(step(&message(b'c', b"")), Seen::Violation);
    assert_eq!(step(b"Z\0\0\0\x05I"), Seen::Settled(6));
}

#[test]
fn no_copy_begins_that_was_not_asked_for() {
    use CopyDirection::{Both, In, Out};
    let wrong = [
        (Expect::copy_in(), Out),
        (Expect::copy_out(), In),
        (Expect::copy_in(), Both),
        (Expect::copy_out(), Both),
        (Expect::simple(), In),
        (rows_expected(), Out),
    ];
    for (mut expect, direction) in wrong {
        let begins = copy_begins(direction);
        assert_eq!(seen(session().step(&begins, Some(&mut expect))), Seen::Violation, "{expect:?}");
    }
}

#[test]
fn a_long_row_comes_in_pieces_however_it_is_cut() {
    let body = vec![7; WHOLE_LEN_MAX + 1000];
    let row = message(backend::DATA_ROW, &body);
    for cut in [5, 6, 1000, row.len() - 1] {
        let (mut session, mut expect) = (session(), rows_expected());
        let mut step = |input: &[u8]| seen(session.step(input, Some(&mut expect)));
        assert_eq!(step(&row[..4]), Seen::Need(5));
        assert_eq!(step(&row[..cut]), Seen::Piece(cut, row.len() - cut));
        assert_eq!(step(b""), Seen::Need(1));
        assert_eq!(step(&row[cut..]), Seen::Piece(row.len() - cut, 0));
        // After that, messages are recognised again.
        let short = message(backend::DATA_ROW, b"\0\0");
        assert_eq!(step(&short), Seen::Part(short.len()));
    }
    // The bytes behind it are not taken for a part of it.
    let (mut session, mut expect) = (session(), rows_expected());
    let mut step = |input: &[u8]| seen(session.step(input, Some(&mut expect)));
    step(&row[..100]);
    let rest = [&row[100..], b"rest"].concat();
    assert_eq!(step(&rest), Seen::Piece(row.len() - 100, 0));
    // A complete message is whole, and the rest of a short one is awaited.
    assert_eq!(step(&row), Seen::Part(row.len()));
    let short = message(backend::DATA_ROW, &body[..1000]);
    assert_eq!(step(&short[..999]), Seen::Need(short.len()));
}

#[test]
fn a_long_message_that_nobody_waits_for_is_refused_before_it_comes() {
    let long = |tag| [&[tag][..], &(LARGE_LEN_MAX).to_be_bytes()].concat();
    for tag in [backend::DATA_ROW, backend::COPY_DATA, backend::FUNCTION_CALL_RESPONSE] {
        assert_eq!(seen(session().step(&long(tag), None)), Seen::Violation);
        let mut expect = Expect::sync().parse();
        assert_eq!(seen(session().step(&long(tag), Some(&mut expect))), Seen::Violation);
    }
    let mut expect = rows_expected();
    let row = long(backend::DATA_ROW);
    let piece = Seen::Piece(5, LARGE_LEN_MAX as usize - 4);
    assert_eq!(seen(session().step(&row, Some(&mut expect))), piece);
    let too_long = [&[backend::DATA_ROW][..], &(LARGE_LEN_MAX + 1).to_be_bytes()].concat();
    assert_eq!(seen(session().step(&too_long, Some(&mut expect))), Seen::Violation);
}

#[test]
fn an_open_bind_is_whole_with_its_value_and_its_end() {
    let mut out = BytesMut::new();
    let write = |number: usize, out: &mut BytesMut| match number {
        0 => {
            out.put_slice(b"one");
            Ok::<_, EncodeError>(IsNull::No)
        }
        _ => Ok(IsNull::Yes),
    };
    let formats = [Format::Text, Format::Binary, Format::Binary];
    bind::write_open(&mut out, &formats, write, 4).unwrap();
    out.put_slice(b"last");
    out.put_slice(&bind::NO_RESULT_FORMATS);
    let frame = Frame { tag: out[0], body: &out[5..] };
    let FrontendMessage::Bind(Bind { parameters, parameter_formats, .. }) =
        FrontendMessage::decode(frame).unwrap()
    else {
        panic!("no Bind")
    };
    assert_eq!(u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize, out.len() - 1);
    assert!(parameters.eq([Some(&b"one"[..]), None, Some(b"last")]));
    assert!(parameter_formats.eq(formats));
    // At the limit, and over it.
    let mut out = BytesMut::from(&b"before"[..]);
    let head = 1 + 4 + 2 + 2 + 2 + 2 + 4;
    let most = LARGE_LEN_MAX as usize - (head - 1) - bind::NO_RESULT_FORMATS.len();
    let only = [Format::Binary];
    let mut open = |len| bind::write_open(&mut out, &only, write, len);
    assert_eq!(open(most + 1), Err(EncodeError::TooLong));
    assert_eq!(open(usize::MAX), Err(EncodeError::TooLong));
    assert_eq!(open(most), Ok(()));
    assert!(out.len() == 6 + head && out.starts_with(b"before"));
}

#[test]
fn a_notification_ahead_of_the_end_of_a_reset_is_for_the_user_before_though_one_read_brings_both() {
    let mut engine = Connection::<Postgres>::new(Time::ZERO, session(), Limits::default());
    engine.protocol_mut().lend();
    engine.protocol_mut().touch();
    assert!(engine.protocol_mut().take_back());
    let told = |engine: &mut Connection<Postgres>, mut read: BytesMut| -> Vec<Event> {
        engine.handle_bytes(Time::ZERO, &mut read);
        assert!(read.is_empty());
        std::iter::from_fn(|| engine.poll_output())
            .map(|output| match output {
                Output::Event { event, .. } => event,
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let notified = message(backend::NOTIFICATION_RESPONSE, b"\0\0\0\x01c\0p\0");
    assert_eq!(told(&mut engine, notified.clone()), [Event::StaleNotification]);
    engine.protocol_mut().lend();
    engine.settle_debts(Time::ZERO);
    let mut read = notified.clone();
    let sent = engine.transmit().to_vec();
    let mut at = 0;
    while at < sent.len() {
        read.unsplit(match sent[at] {
            b'P' => message(backend::PARSE_COMPLETE, b""),
            b'B' => message(backend::BIND_COMPLETE, b""),
            b'E' => message(backend::COMMAND_COMPLETE, b"DONE\0"),
            b'C' => message(backend::CLOSE_COMPLETE, b""),
            b'S' => message(backend::READY_FOR_QUERY, b"I"),
            other => panic!("{other}"),
        });
        at += 1 + u32::from_be_bytes(sent[at + 1..at + 5].try_into().unwrap()) as usize;
    }
    engine.handle_written(Time::ZERO, sent.len());
    read.unsplit(notified);
    assert_eq!(told(&mut engine, read), [Event::StaleNotification, Event::Notification]);
}

/// Whether a connection for this target leaves after the messages, which come as an answer.
fn leaves(target: TargetSessionAttrs, session: &mut Postgres, messages: &[BytesMut]) -> bool {
    session.target(target);
    let mut expect = rows_expected();
    for message in messages {
        session.step(message, Some(&mut expect)).unwrap();
    }
    session.is_leaving()
}

fn parameter(name: &str, value: &str) -> BytesMut {
    message(b'S', [name, "\0", value, "\0"].concat().as_bytes())
}

fn refused_to_write() -> BytesMut {
    message(b'E', b"SERROR\0VERROR\0C25006\0Mcannot execute INSERT\0\0")
}

#[test]
fn a_connection_that_is_to_write_leaves_a_server_that_turned_read_only() {
    use TargetSessionAttrs as Target;
    let standby = || [parameter("in_hot_standby", "on")];
    let read_only = || [parameter("default_transaction_read_only", "on")];
    for target in Target::ALL {
        let writes = matches!(target, Target::ReadWrite | Target::Primary);
        assert_eq!(leaves(target, &mut session(), &standby()), writes, "{target:?}");
        assert_eq!(leaves(target, &mut session(), &[refused_to_write()]), writes, "{target:?}");
        let asked = target == Target::ReadWrite;
        assert_eq!(leaves(target, &mut session(), &read_only()), asked, "{target:?}");
        assert!(!leaves(target, &mut session(), &[parameter("in_hot_standby", "off")]));
    }
}

#[test]
fn a_session_whose_functions_keep_plans_of_an_older_schema_is_left() {
    let error = |routine: &str| {
        let text = "Mtype of parameter 14 (bigint) does not match that when preparing the plan";
        message(b'E', format!("SERROR\0VERROR\0C42804\0{text}\0R{routine}\0\0").as_bytes())
    };
    for target in TargetSessionAttrs::ALL {
        for routine in ["plpgsql_param_eval_generic_ro", "ExecEvalParamExtern"] {
            assert!(leaves(target, &mut session(), &[error(routine)]), "{target:?}");
        }
        assert!(!leaves(target, &mut session(), &[error("transformAssignedExpr")]));
    }
}

#[test]
fn what_the_user_of_a_session_set_is_no_reason_to_leave() {
    let mut session = session();
    session.lend();
    let set = [message(b'C', b"SET\0"), parameter("default_transaction_read_only", "on")];
    assert!(!leaves(TargetSessionAttrs::ReadWrite, &mut session, &set));
    assert!(!leaves(TargetSessionAttrs::ReadWrite, &mut session, &[refused_to_write()]));
    let standby = [parameter("in_hot_standby", "on")];
    assert!(leaves(TargetSessionAttrs::ReadWrite, &mut session, &standby), "nobody can set this");
}

#[test]
fn a_connection_that_leaves_says_so_once_and_answers_what_it_has() {
    let mut protocol = session();
    protocol.target(TargetSessionAttrs::ReadWrite);
    let mut client = Connection::new(Time::ZERO, protocol, Limits::default());
    let mut input = parameter("in_hot_standby", "on");
    input.extend_from_slice(&parameter("in_hot_standby", "on"));
    client.handle_bytes(Time::ZERO, &mut input);
    let mut leaving = 0;
    while let Some(output) = client.poll_output() {
        leaving += u32::from(matches!(output, Output::Leaving));
    }
    assert_eq!(leaving, 1);
    assert!(client.is_leaving() && client.is_open());
}
