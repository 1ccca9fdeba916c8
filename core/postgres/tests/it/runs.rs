//! Runs: many Binds and Executes as one request, with one sync point or with one for each.

use bytes::BytesMut;
use onetrip_engine::{Outcome, Protocol, Step};
use onetrip_postgres::message::{CommandComplete, TransactionStatus};
use onetrip_postgres::{Event, Expect, Postgres};

const BIND_COMPLETE: [u8; 5] = [b'2', 0, 0, 0, 4];
const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];
const ERROR: &[u8] = b"E\0\0\0\x1aSERROR\0VERROR\0C22012\0\0";

fn tag(text: &str) -> BytesMut {
    let mut out = BytesMut::new();
    CommandComplete { tag: text }.encode(&mut out).unwrap();
    out
}

/// A BindComplete and a CommandComplete.
fn pair(text: &str) -> Vec<u8> {
    [&BIND_COMPLETE[..], &tag(text)].concat()
}

/// Steps through `input`. Each time a step needs more, `visible` further bytes are shown. Returns
/// the last step and how many bytes were taken.
fn walk(mut expect: Expect, input: &[u8], chunk: usize) -> (Step<Event>, usize, Postgres) {
    let mut protocol = Postgres::new(TransactionStatus::Idle);
    let (mut at, mut visible) = (0, chunk.min(input.len()));
    loop {
        let step = protocol.step(&input[at..visible], Some(&mut expect)).unwrap();
        match step {
            Step::Need(_) if visible == input.len() => return (step, at, protocol),
            Step::Need(_) => visible = (visible + chunk).min(input.len()),
            Step::Part(len) => at += len,
            Step::Complete(len) => {
                at += len;
                if at == input.len() {
                    return (step, at, protocol);
                }
            }
            _ => return (step, at, protocol),
        }
    }
}

#[test]
fn a_run_is_complete_with_its_last_tag_however_it_is_cut() {
    let input = [pair("INSERT 0 1"), pair("UPDATE 0"), pair("INSERT 0 12"), pair("INSERT 0 1")];
    let input = input.concat();
    for chunk in 1..=input.len() {
        let (last, taken, _) = walk(Expect::run(4), &input, chunk);
        assert!(matches!(last, Step::Complete(_)), "{last:?} in chunks of {chunk}");
        assert_eq!(taken, input.len());
        let (last, ..) = walk(Expect::run(5), &input, chunk);
        assert!(matches!(last, Step::Need(_)), "a fifth is missing");
    }
}

#[test]
fn an_error_ends_a_run() {
    let input = [&pair("INSERT 0 1"), ERROR].concat();
    let (last, taken, _) = walk(Expect::run(3), &input, input.len());
    let Step::Failed { len, outcome, .. } = last else { panic!("{last:?}") };
    assert_eq!((taken + len, outcome), (input.len(), Outcome::Rejected));
}

#[test]
fn isolated_rows_go_on_behind_an_error_and_settle_with_the_last() {
    let input = [&pair("INSERT 0 1")[..], &READY, ERROR, &READY, &pair("INSERT 0 1"), &READY];
    let input = input.concat();
    for chunk in 1..=input.len() {
        let (last, taken, _) = walk(Expect::isolated_run(3), &input, chunk);
        assert!(matches!(last, Step::Settled(6)), "{last:?} in chunks of {chunk}");
        assert_eq!(taken + 6, input.len());
    }
}

#[test]
fn isolated_rows_may_each_bring_their_text_which_may_fail_too() {
    const PARSE_COMPLETE: [u8; 5] = [b'1', 0, 0, 0, 4];
    let row = [&PARSE_COMPLETE[..], &pair("INSERT 0 1"), &READY].concat();
    let bound_badly = [&PARSE_COMPLETE[..], ERROR, &READY].concat();
    let input = [&row[..], ERROR, &READY, &bound_badly, &row].concat();
    for chunk in 1..=input.len() {
        let (last, taken, _) = walk(Expect::isolated_run_of_texts(4), &input, chunk);
        assert!(matches!(last, Step::Settled(6)), "{last:?} in chunks of {chunk}");
        assert_eq!(taken + 6, input.len());
    }
    let unparsed = pair("INSERT 0 1");
    let mut expect = Expect::isolated_run_of_texts(2);
    assert!(Postgres::new(TransactionStatus::Idle).step(&unparsed, Some(&mut expect)).is_err());
}

#[test]
fn a_run_that_changes_its_session_is_noticed() {
    let input = [pair("INSERT 0 1"), pair("SET"), pair("INSERT 0 1")].concat();
    let (last, _, protocol) = walk(Expect::run(3), &input, input.len());
    assert!(matches!(last, Step::Complete(_)) && protocol.session_changed());
}

#[test]
fn what_does_not_belong_into_a_run_is_a_violation() {
    let mut protocol = Postgres::new(TransactionStatus::Idle);
    for wrong in [&tag("INSERT 0 1")[..], &READY] {
        assert!(protocol.step(wrong, Some(&mut Expect::run(2))).is_err());
        assert!(protocol.step(wrong, Some(&mut Expect::isolated_run(2))).is_err());
    }
}
