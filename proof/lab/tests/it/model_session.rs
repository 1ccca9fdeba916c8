//! The model server: the state that sessions keep, which statements find it, and how a reset
//! removes it.

use bytes::BytesMut;
use onetrip_lab::model::{Config, Kind, Log, Sabotage, Seen, Server};
use onetrip_postgres::message::{EncodeError, Formats, IsNull, Query, SYNC, bind, execute, parse};

/// A session.
struct Session(Server);

impl Session {
    fn new() -> Session {
        Session(Server::ready(Config::default(), Log::default()))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.handle_bytes(bytes);
        while !self.0.transmit().is_empty() {
            self.0.handle_written(self.0.transmit().len());
        }
    }

    /// Statements that share a Sync.
    fn segment(&mut self, texts: &[&str]) {
        let mut out = BytesMut::new();
        let nothing = |_: usize, _: &mut BytesMut| Ok::<_, EncodeError>(IsNull::Yes);
        for sql in texts {
            parse::write(&mut out, "", sql, &[]).unwrap();
            bind::write(&mut out, "", "", Formats::AllText, 0, nothing, Formats::AllText).unwrap();
            out.extend_from_slice(&execute::UNNAMED_ALL);
        }
        out.extend_from_slice(&SYNC);
        self.send(&out);
    }

    fn query(&mut self, sql: &str) {
        let mut out = BytesMut::new();
        Query { sql }.encode(&mut out).unwrap();
        self.send(&out);
    }

    /// The statements whose state statement 100 finds.
    fn found(&mut self) -> Vec<u64> {
        // A reset that failed leaves its transaction open.
        self.segment(&["rollback op=99"]);
        self.segment(&["select op=100"]);
        let Seen { left_by, .. } = self.0.log().seen().remove(&100).unwrap_or_default();
        left_by
    }
}

const RESET: [&str; 9] = [
    "set statement_timeout = 0",
    "begin",
    "close all",
    "set session authorization default",
    "unlisten *",
    "discard temp",
    "select pg_advisory_unlock_all()",
    "reset all",
    "commit",
];

#[test]
fn what_a_statement_leaves_is_found_by_the_next_openly_or_not() {
    let open = ["set x", "set role r", "create temp t", "prepare p", "declare c", "listen c"];
    for command in open {
        let mut session = Session::new();
        session.segment(&[&format!("{command} op=1")]);
        assert_eq!(session.found(), [1], "{command}");
    }
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Local) {
        let mut session = Session::new();
        session.query(&format!("select op=1 leaves={}", kind.word()));
        assert_eq!(session.found(), [1], "{kind:?}");
    }
    let mut session = Session::new();
    session.segment(&["set local x op=1"]);
    session.query("insert op=2");
    assert_eq!(session.found(), [0; 0]);
}

#[test]
fn a_rollback_takes_away_what_came_with_its_transaction_but_for_locks_and_names() {
    for kind in Kind::ALL {
        let mut session = Session::new();
        let text = format!("select op=1 leaves={}", kind.word());
        session.segment(&[&text, "insert op=2 fail=execute"]);
        let stays = matches!(kind, Kind::Lock | Kind::Name);
        assert_eq!(session.found().is_empty(), !stays, "{kind:?}");
    }
}

#[test]
fn a_reset_leaves_nothing_and_stops_where_a_name_is_left() {
    for kind in Kind::ALL {
        let mut session = Session::new();
        session.query(&format!("call op=1 leaves={}", kind.word()));
        session.segment(&RESET);
        let is_name = kind == Kind::Name;
        assert_eq!(session.0.log().resets_failed(), [u32::from(is_name); 2], "{kind:?}");
        assert_eq!(session.found().is_empty(), !is_name, "{kind:?}");
    }
    let mut session = Session::new();
    session.query("prepare p op=1");
    session.segment(&[&["deallocate all"][..], &RESET].concat());
    assert_eq!((session.0.log().resets_failed(), session.found()), ([0, 0], vec![]));
}

#[test]
fn a_reset_fails_where_it_is_told_to_and_is_undone() {
    let statements = (0..RESET.len() as u32).map(Sabotage::Statement);
    for sabotage in statements.chain([Sabotage::Commit]) {
        let mut session = Session::new();
        session.query("do op=1 leaves=temp");
        session.0.sabotage(&[sabotage]);
        session.segment(&RESET);
        assert_eq!(session.0.log().resets_failed(), [1, 1], "{sabotage:?}");
        session.query("rollback op=3");
        session.segment(&["insert op=2"]);
        let seen = Seen { left_by: vec![1], unreset: true };
        assert_eq!(session.0.log().seen().get(&2), Some(&seen), "{sabotage:?}");
        session.segment(&RESET);
        assert_eq!(session.0.log().resets_failed(), [1, 0], "{sabotage:?}");
        assert!(session.found().is_empty(), "{sabotage:?}");
    }
}
