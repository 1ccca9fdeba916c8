//! Transactions and savepoints: what is sent and when, and what the answers mean.

use onetrip_engine::{Outcome, SyncPoint};
use onetrip_postgres::client::statements::Generation;
use onetrip_postgres::client::transaction::block::{Block, LevelId, NotSent, Part};
use onetrip_postgres::client::transaction::front::{Front, Role};
use onetrip_postgres::client::transaction::pending::Begin;
use onetrip_postgres::client::transaction::verdict::{
    AT_COMMIT, Failure, both, committed, not_committed, runs_again,
};

const OUTERMOST: LevelId = LevelId::OUTERMOST;

#[derive(Clone, Debug, PartialEq)]
struct Failed {
    text: String,
    sqlstate: Option<&'static str>,
    outcome: Outcome,
}

impl Failure for Failed {
    fn answer(&self) -> Option<(&str, Option<&str>)> {
        self.sqlstate.map(|code| (code, Some(self.text.as_str())))
    }

    fn is_skipped(&self) -> bool {
        self.text == "skipped"
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

    fn rolled_back(text: &'static str, why: Option<Failed>) -> Failed {
        let sqlstate = why.and_then(|why| why.sqlstate);
        Failed { text: text.to_owned(), sqlstate, outcome: Outcome::Rejected }
    }
}

fn failed(sqlstate: &'static str) -> Failed {
    let text = "it failed".to_owned();
    Failed { text, sqlstate: Some(sqlstate), outcome: Outcome::Rejected }
}

fn lost(outcome: Outcome) -> Failed {
    Failed { text: "the connection was lost".to_owned(), sqlstate: None, outcome }
}

fn skipped() -> Failed {
    Failed { text: "skipped".to_owned(), ..lost(Outcome::Rejected) }
}

fn block() -> Block<Failed> {
    Block::new(Begin::new("BEGIN", 7), &Generation::default())
}

fn begun() -> Block<Failed> {
    let mut block = block();
    sent(&mut block, OUTERMOST, Part::Statement);
    block.answered(Role::Begins(OUTERMOST), None);
    block
}

/// The commands of a front. `?` is a guard, `;` a sync point.
fn texts(front: &Front) -> Vec<String> {
    let mut at = 0;
    let pieces = front.pieces.iter().map(|piece| {
        let bytes = &front.bytes[at..at + piece.len];
        at += piece.len;
        // A Parse without a name: the text is behind 5 bytes of tag and length, and the empty name.
        let mut text = match bytes[0] {
            b'P' => String::from_utf8(bytes[6..].split(|it| *it == 0).next().unwrap().into()),
            b'D' => Ok("?".to_owned()),
            _ => Ok(String::new()),
        }
        .unwrap();
        let ends = bytes.ends_with(b"S\0\0\0\x04");
        assert_eq!(ends, piece.sync != SyncPoint::Member);
        text.push_str(if ends { ";" } else { "" });
        text
    });
    let texts = pieces.collect();
    assert_eq!(at, front.bytes.len());
    texts
}

/// The front of a request that is not refused.
fn sent(block: &mut Block<Failed>, id: LevelId, part: Part) -> Vec<String> {
    texts(&block.front(id, part, false).unwrap())
}

#[test]
fn begin_leaves_with_the_first_statement_and_is_guarded_until_it_was_answered() {
    let mut block = block();
    assert!(!block.is_sent(OUTERMOST));
    assert_eq!(sent(&mut block, OUTERMOST, Part::Statement), ["BEGIN"]);
    assert!(block.is_open(OUTERMOST) && !block.is_known(OUTERMOST));
    assert_eq!(sent(&mut block, OUTERMOST, Part::Statement), ["?"]);
    assert_eq!(sent(&mut block, OUTERMOST, Part::Commit), ["?"]);
    block.answered(Role::Begins(OUTERMOST), None);
    assert!(block.is_known(OUTERMOST));
    assert!(sent(&mut block, OUTERMOST, Part::Statement).is_empty());
}

#[test]
fn what_follows_in_a_segment_is_not_guarded_again() {
    let mut block = block();
    sent(&mut block, OUTERMOST, Part::Statement);
    assert!(texts(&block.front(OUTERMOST, Part::Statement, true).unwrap()).is_empty());
    let savepoint = block.savepoint(OUTERMOST);
    let set = texts(&block.front(savepoint, Part::Statement, true).unwrap());
    assert_eq!(set, ["SAVEPOINT onetrip_1"]);
    // The RELEASE ends that segment.
    block.release(savepoint);
    let next = texts(&block.front(OUTERMOST, Part::Statement, true).unwrap());
    assert_eq!(next, ["RELEASE SAVEPOINT onetrip_1;", "?"]);
}

#[test]
fn what_undoes_all_is_not_guarded() {
    let mut block = block();
    sent(&mut block, OUTERMOST, Part::Statement);
    assert!(sent(&mut block, OUTERMOST, Part::Undo).is_empty());
}

#[test]
fn what_found_no_room_goes_in_front_of_the_next_statement() {
    let mut block = begun();
    let first = block.savepoint(OUTERMOST);
    sent(&mut block, first, Part::Statement);
    block.release(first);
    let second = block.savepoint(OUTERMOST);
    let front = block.front(second, Part::Statement, false).unwrap();
    let wanted = ["RELEASE SAVEPOINT onetrip_1;", "SAVEPOINT onetrip_2"];
    assert_eq!(texts(&front), wanted);
    block.not_sent(&front);
    assert!(!block.is_sent(second));
    assert_eq!(sent(&mut block, second, Part::Statement), wanted);
    assert!(sent(&mut block, second, Part::Statement).is_empty());
}

#[test]
fn savepoints_are_set_from_the_outside_in_behind_begin() {
    let mut block = block();
    let outer = block.savepoint(OUTERMOST);
    let inner = block.savepoint(outer);
    let wanted = ["BEGIN", "SAVEPOINT onetrip_1", "SAVEPOINT onetrip_2"];
    assert_eq!(sent(&mut block, inner, Part::Statement), wanted);
    // A statement of the outer level needs only the guard meanwhile.
    assert_eq!(sent(&mut block, outer, Part::Statement), ["?"]);
}

#[test]
fn a_front_goes_alone_only_where_something_waits() {
    let mut block = block();
    let front = block.front_alone(OUTERMOST).unwrap().unwrap();
    assert_eq!(texts(&front), ["BEGIN", ";"]);
    assert!(block.front_alone(OUTERMOST).unwrap().is_none());
    let savepoint = block.savepoint(OUTERMOST);
    let front = block.front_alone(savepoint).unwrap().unwrap();
    assert_eq!(texts(&front), ["?", "SAVEPOINT onetrip_1", ";"]);
}

#[test]
fn nothing_is_sent_behind_a_begin_that_was_refused() {
    let mut block = block();
    sent(&mut block, OUTERMOST, Part::Statement);
    block.answered(Role::Begins(OUTERMOST), Some(&failed("25001")));
    assert!(!block.is_open(OUTERMOST));
    let Err(NotSent::NotBegun(error)) = block.front(OUTERMOST, Part::Statement, false) else {
        panic!("it was sent")
    };
    assert_eq!((error.text.as_str(), error.outcome), ("BEGIN: it failed", Outcome::NotSent));
    let why = block.why_skipped(OUTERMOST).unwrap();
    assert_eq!((why.text.as_str(), why.outcome), ("BEGIN: it failed", Outcome::Rejected));
}

#[test]
fn nothing_is_sent_of_a_level_that_has_ended_nor_of_those_in_it() {
    let mut block = begun();
    let outer = block.savepoint(OUTERMOST);
    let inner = block.savepoint(outer);
    block.end(outer);
    for id in [outer, inner] {
        let Err(NotSent::Ended(refusal)) = block.front(id, Part::Statement, false) else {
            panic!("it was sent")
        };
        assert_eq!(refusal.code(), "transaction_ended");
    }
    assert!(sent(&mut block, OUTERMOST, Part::Statement).is_empty());
    block.forget(inner);
    assert!(matches!(block.front(inner, Part::Statement, false), Err(NotSent::Ended(_))));
}

#[test]
fn a_release_that_nobody_awaits_rides_along_unless_all_ends_anyway() {
    for (part, wanted) in
        [(Part::Statement, &["RELEASE SAVEPOINT onetrip_1;"][..]), (Part::Commit, &[])]
    {
        let mut block = begun();
        let savepoint = block.savepoint(OUTERMOST);
        sent(&mut block, savepoint, Part::Statement);
        block.release(savepoint);
        assert!(!block.is_known(OUTERMOST));
        assert_eq!(sent(&mut block, OUTERMOST, part), wanted);
        assert_eq!(block.take_release(savepoint), None);
    }
}

#[test]
fn a_release_that_is_awaited_after_all_is_taken_back() {
    let mut block = begun();
    let savepoint = block.savepoint(OUTERMOST);
    sent(&mut block, savepoint, Part::Statement);
    block.release(savepoint);
    assert_eq!(block.take_release(savepoint).unwrap(), "RELEASE SAVEPOINT onetrip_1");
    assert!(sent(&mut block, OUTERMOST, Part::Statement).is_empty());
}

#[test]
fn a_savepoint_is_undone_and_forgotten_with_what_was_released_in_it() {
    let mut block = begun();
    let outer = block.savepoint(OUTERMOST);
    let inner = block.savepoint(outer);
    sent(&mut block, inner, Part::Statement);
    block.release(inner);
    let front = block.undo(outer).unwrap();
    let wanted = ["ROLLBACK TO SAVEPOINT onetrip_1", "RELEASE SAVEPOINT onetrip_1;"];
    assert_eq!(texts(&front), wanted);
    assert_eq!(front.pieces[0].role, Role::Within(OUTERMOST));
    assert_eq!(front.pieces[1].role, Role::Caller);
    assert!(sent(&mut block, OUTERMOST, Part::Statement).is_empty());
}

#[test]
fn the_first_failure_since_a_success_is_what_made_a_level_fail() {
    let mut block = begun();
    let role = Role::Within(OUTERMOST);
    block.answered(role, Some(&lost(Outcome::NotSent)));
    assert_eq!(block.failure(OUTERMOST), None);
    block.answered(role, Some(&failed("22012")));
    block.answered(role, Some(&failed("25P02")));
    assert_eq!(block.failure(OUTERMOST), Some(&failed("22012")));
    block.answered(role, None);
    assert_eq!(block.failure(OUTERMOST), None);
}

#[test]
fn what_failed_in_a_savepoint_concerns_what_is_around_it_once_it_was_released() {
    let mut block = begun();
    let outer = block.savepoint(OUTERMOST);
    let inner = block.savepoint(outer);
    sent(&mut block, inner, Part::Statement);
    block.answered(Role::Within(inner), Some(&failed("22012")));
    assert_eq!(block.failure(outer), None);
    block.release(inner);
    assert_eq!(block.failure(outer), Some(&failed("22012")));
    // Failures that come later count, too.
    block.answered(Role::Within(inner), None);
    assert_eq!(block.failure(outer), None);
}

#[test]
fn a_savepoint_that_was_refused_fails_what_is_around_it() {
    let mut block = begun();
    let savepoint = block.savepoint(OUTERMOST);
    sent(&mut block, savepoint, Part::Statement);
    block.answered(Role::Begins(savepoint), Some(&failed("53200")));
    assert_eq!(block.failure(OUTERMOST), Some(&failed("53200")));
    assert_eq!(block.why_skipped(savepoint).unwrap().text, "SAVEPOINT: it failed");
    assert_eq!(block.refusal(), None);
}

#[test]
fn what_is_skipped_with_begin_is_explained_by_begin() {
    let mut block = block();
    let savepoint = block.savepoint(OUTERMOST);
    sent(&mut block, savepoint, Part::Statement);
    block.answered(Role::Begins(OUTERMOST), Some(&failed("25001")));
    block.answered(Role::Begins(savepoint), Some(&skipped()));
    assert_eq!(block.why_skipped(savepoint).unwrap().text, "BEGIN: it failed");
}

#[test]
fn a_begin_behind_a_reset_that_failed_is_run_again_and_any_other_that_was_refused_is_not() {
    for (sqlstate, is_one) in [("26000", true), ("25001", false), ("57014", false)] {
        let mut block = block();
        sent(&mut block, OUTERMOST, Part::Statement);
        block.answered(Role::Begins(OUTERMOST), Some(&failed(sqlstate)));
        assert_eq!(block.conflict().is_some(), is_one, "{sqlstate}");
        let refused = failed(sqlstate).with_outcome(Outcome::NotSent);
        assert_eq!(block.runs_again(&refused), is_one, "{sqlstate}");
    }
}

/// P20.
#[test]
fn what_may_be_outdated_is_a_conflict_once_something_was_found_to_have_changed() {
    // 26000: a change says nothing of a statement that is not there.
    for (sqlstate, is_one) in [("42804", true), ("22P02", true), ("42P01", false), ("26000", false)]
    {
        let generation = Generation::default();
        let mut block = Block::new(Begin::new("BEGIN", 7), &generation);
        let end = Failed::rolled_back(AT_COMMIT, Some(failed(sqlstate)));
        block.answered(Role::Within(OUTERMOST), Some(&failed(sqlstate)));
        assert!(block.conflict().is_none() && !block.runs_again(&end), "{sqlstate}");
        generation.advance();
        assert_eq!(block.conflict().is_some(), is_one, "{sqlstate}");
        assert_eq!(block.runs_again(&end), is_one, "{sqlstate}");
        assert!(!block.runs_again(&end.with_outcome(Outcome::Unknown)), "{sqlstate}");
        let later = Block::<Failed>::new(Begin::new("BEGIN", 8), &generation);
        assert!(!later.runs_again(&failed(sqlstate)), "of a change before it, {sqlstate}");
    }
}

#[test]
fn a_conflict_is_remembered_though_its_savepoint_was_undone() {
    for (sqlstate, is_one) in [("40001", true), ("40P01", true), ("40002", false)] {
        let mut block = begun();
        let savepoint = block.savepoint(OUTERMOST);
        sent(&mut block, savepoint, Part::Statement);
        block.answered(Role::Within(savepoint), Some(&failed(sqlstate)));
        block.answered(Role::Within(savepoint), None);
        assert_eq!(block.conflict().is_some(), is_one, "{sqlstate}");
        assert_eq!(runs_again(&failed(sqlstate)), is_one, "{sqlstate}");
    }
    // A prepared statement whose columns have changed is prepared anew. One that is not there may be
    // one that the program has named.
    assert!(!runs_again(&failed("26000")));
    let changed = Failed { text: "RevalidateCachedQuery".to_owned(), ..failed("0A000") };
    assert!(runs_again(&changed) && !runs_again(&failed("0A000")));
    // Its outcome is unknown.
    assert!(!runs_again(&failed("40001").with_outcome(Outcome::Unknown)));
}

#[test]
fn a_commit_that_was_answered_by_rollback_is_a_failure() {
    assert_eq!(committed::<Failed>(Some("COMMIT"), None), Ok(()));
    for tag in [Some("ROLLBACK"), None] {
        let error = committed(tag, Some(failed("22012"))).unwrap_err();
        assert_eq!((error.text.as_str(), error.sqlstate), (AT_COMMIT, Some("22012")));
        assert_eq!(error.outcome, Outcome::Rejected);
    }
}

/// P63.
#[test]
fn a_commit_that_nobody_answered_can_not_commit_what_had_failed() {
    let mut block = block();
    sent(&mut block, OUTERMOST, Part::Statement);
    let within = Role::Within(OUTERMOST);
    let known = |block: &Block<Failed>, commit: Outcome| {
        not_committed(lost(commit), true, block.is_doomed()).outcome
    };
    assert_eq!(known(&block, Outcome::Unknown), Outcome::Unknown);
    block.answered(within, Some(&failed("23505")));
    assert_eq!(known(&block, Outcome::Unknown), Outcome::Rejected);
    assert_eq!(known(&block, Outcome::NotSent), Outcome::NotSent);
    // What was sent before a COMMIT that is merely late may still be answered.
    let late = not_committed(lost(Outcome::Unknown), false, block.is_doomed());
    assert_eq!(late.outcome, Outcome::Unknown);
    // A savepoint of the caller's own has set it right.
    block.answered(within, None);
    assert_eq!(known(&block, Outcome::Unknown), Outcome::Unknown);
    // What committed by itself and then failed says nothing of the rest.
    block.answered(within, Some(&failed("22012").with_outcome(Outcome::Unknown)));
    assert_eq!(known(&block, Outcome::Unknown), Outcome::Unknown);
}

/// P63.
#[test]
fn behind_a_statement_that_nobody_answered_nothing_is_known_of_a_commit() {
    for first in [lost(Outcome::Unknown), failed("23505")] {
        let mut block = block();
        sent(&mut block, OUTERMOST, Part::Statement);
        for error in [&first, &failed("23505"), &lost(Outcome::Unknown)] {
            block.answered(Role::Within(OUTERMOST), Some(error));
        }
        assert!(!block.is_doomed());
    }
}

#[test]
fn a_last_statement_and_its_commit_end_together() {
    use Outcome::{Applied, NotSent, Rejected, Unknown};
    let error = |outcome| Err(lost(outcome));
    assert_eq!(both::<_, Failed>(Ok(()), Ok(())), Ok(()));
    assert_eq!(both::<(), _>(Ok(()), error(Rejected)), error(Rejected));
    assert_eq!(both::<(), _>(error(Rejected), Ok(())), error(Applied));
    // A row that can't be read hides nothing of what undid it.
    let unread = Failed { text: "unread".to_owned(), ..lost(Applied) };
    let undone: Result<(), _> = both(Err(unread.clone()), Err(failed("23505")));
    assert_eq!(undone, Err(failed("23505")));
    assert_eq!(both::<(), _>(Err(unread.clone()), Ok(())), Err(unread));
    let cases = [
        (Rejected, Unknown, Rejected),
        (Unknown, Rejected, Rejected),
        (Unknown, Unknown, Unknown),
        (Unknown, NotSent, Unknown),
    ];
    for (statement, commit, together) in cases {
        let commit = Err(lost(commit));
        assert_eq!(both::<(), _>(error(statement), commit), error(together));
    }
}

#[test]
fn a_level_without_a_statement_that_was_given_up_is_incomplete_until_it_is_undone() {
    let mut block = begun();
    let inner = block.savepoint(OUTERMOST);
    block.leave_out(inner);
    assert!(block.is_incomplete(inner) && !block.is_incomplete(OUTERMOST));
    // Undone.
    block.end(inner);
    block.forget(inner);
    assert!(!block.is_incomplete(OUTERMOST));
    // Released, so that what was behind it is what is around it.
    let before = block.savepoint(OUTERMOST);
    block.leave_out(before);
    block.release(before);
    assert!(block.is_incomplete(OUTERMOST));
    let mut block = begun();
    let released = block.savepoint(OUTERMOST);
    block.release(released);
    block.leave_out(released);
    assert!(block.is_incomplete(OUTERMOST));
}

#[test]
fn what_ended_unsent_with_its_connection_has_not_left() {
    let mut block = block();
    assert!(!block.has_left(OUTERMOST));
    sent(&mut block, OUTERMOST, Part::Statement);
    assert!(block.has_left(OUTERMOST));
    block.answered(Role::Begins(OUTERMOST), Some(&lost(Outcome::NotSent)));
    assert!(!block.has_left(OUTERMOST));
    for outcome in [Outcome::Unknown, Outcome::Rejected] {
        let mut block = self::block();
        sent(&mut block, OUTERMOST, Part::Statement);
        block.answered(Role::Begins(OUTERMOST), Some(&lost(outcome)));
        assert!(block.has_left(OUTERMOST), "{outcome:?}");
    }
}

#[test]
fn nothing_has_left_of_a_savepoint_whose_transaction_ended_unsent() {
    let mut block = block();
    let inner = block.savepoint(OUTERMOST);
    sent(&mut block, inner, Part::Statement);
    assert!(block.has_left(OUTERMOST) && block.has_left(inner));
    block.answered(Role::Begins(OUTERMOST), Some(&lost(Outcome::NotSent)));
    assert!(!block.has_left(OUTERMOST) && !block.has_left(inner));
}
