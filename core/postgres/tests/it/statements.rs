//! Which texts are run by which name, and which names are closed.

use std::cell::Cell;

use bytes::BytesMut;
use onetrip_engine::{Connection as Engine, Limits, Time};
use onetrip_postgres::client::exact::Parameters;
use onetrip_postgres::client::named::{NameTaken, Named};
use onetrip_postgres::client::statements::{
    Fault, Generation, Scope, Seen, Statements, Use, Wanted, Way, fault,
};
use onetrip_postgres::client::texts::{TEXT_LEN_MAX, Texts};
use onetrip_postgres::message::{EncodeError, TransactionStatus, parse};
use onetrip_postgres::{Names, Postgres};

const PARSE_COMPLETE: &[u8] = b"1\0\0\0\x04";
const CLOSE_COMPLETE: &[u8] = b"3\0\0\0\x04";
const PARAMETERS: &[u8] = b"t\0\0\0\x06\0\0";
const NO_DATA: &[u8] = b"n\0\0\0\x04";
const COLUMNS: &[u8] = b"T\0\0\0\x06\0\0";
const BIND_COMPLETE: &[u8] = b"2\0\0\0\x04";

/// The answer of process 1 to the probe: it knows the statement by its given name.
const ITSELF: &[u8] = b"1\0\0\0\x042\0\0\0\x04D\0\0\0\x15\0\x03\0\0\0\x011\0\0\0\x01t\0\0\0\x01f\
    C\0\0\0\x0dSELECT 1\x003\0\0\0\x04Z\0\0\0\x05I";

/// The answer through a pooler that gives statements names of its own.
const RENAMED: &[u8] = b"1\0\0\0\x042\0\0\0\x04D\0\0\0\x15\0\x03\0\0\0\x011\0\0\0\x01f\0\0\0\x01f\
    C\0\0\0\x0dSELECT 1\x003\0\0\0\x04Z\0\0\0\x05I";

/// A connection on which names are known to be kept.
struct Connection {
    engine: Engine<Postgres>,
    statements: Statements<u64>,
    named: Named<u64>,
    numbers: Cell<u64>,
    now: Time,
    /// The parameters of the next use.
    first: Vec<u8>,
}

impl Connection {
    fn new(max: usize) -> Connection {
        // The probe finds the server itself on the other end.
        let mut connection = Connection::unknown(max);
        connection.probed(ITSELF);
        connection
    }

    /// Behind a pooler that keeps prepared statements.
    fn behind_a_pooler() -> Connection {
        let mut connection = Connection::unknown(10);
        connection.probed(RENAMED);
        connection
    }

    fn probed(&mut self, answer: &[u8]) {
        let engine = &mut self.engine;
        engine.settle_debts(Time::ZERO);
        engine.handle_written(Time::ZERO, engine.transmit().len());
        engine.handle_bytes(Time::ZERO, &mut BytesMut::from(answer));
        assert_eq!(engine.protocol_mut().names(), Names::Kept);
    }

    /// Before a probe was answered.
    fn unknown(max: usize) -> Connection {
        let mut protocol = Postgres::new(TransactionStatus::Idle);
        protocol.identify(1, 2);
        protocol.lend();
        Connection {
            engine: Engine::new(Time::ZERO, protocol, Limits::default()),
            statements: Statements::new(max, 0xabc),
            named: Named::default(),
            numbers: Cell::new(0),
            now: Time::ZERO,
            first: Vec::new(),
        }
    }

    fn with<R>(
        &mut self,
        key: u64,
        text: &str,
        find: impl FnOnce(&mut Statements<u64>, &mut Named<u64>, &mut Postgres, &Wanted<'_, u64>) -> R,
    ) -> R {
        let parse = |out: &mut BytesMut, name: &str| parse::write(out, name, text, &[]);
        let numbers = &self.numbers;
        let data = || {
            numbers.set(numbers.get() + 1);
            numbers.get()
        };
        let wanted = Wanted {
            key,
            parse: &parse,
            data: &data,
            is_explicit: false,
            parameters: Parameters { first: &self.first, ..Parameters::default() },
            now: self.now,
        };
        find(&mut self.statements, &mut self.named, self.engine.protocol_mut(), &wanted)
    }

    fn way(&mut self, key: u64, scope: Scope) -> Way<u64> {
        let way =
            self.with(key, "select 1", |it, _, protocol, wanted| it.way(protocol, wanted, scope));
        way.unwrap()
    }

    fn used(&mut self, key: u64, scope: Scope) -> Use<u64> {
        self.way(key, scope).used().unwrap()
    }

    fn named(&mut self, name: &str, text: &str) -> Result<(Way<u64>, bool), NameTaken> {
        let plan = self.with(0, text, |statements, named, protocol, wanted| {
            named.way(statements, protocol, (name, text), wanted)
        });
        plan.unwrap().map(|plan| (plan.way, plan.closes))
    }

    fn closed(&mut self) -> Vec<BytesMut> {
        let mut closed = Vec::new();
        while let Some(closing) = self.statements.take_close(self.engine.protocol_mut()) {
            let mut bytes = BytesMut::new();
            closing.write(&mut bytes).unwrap();
            closed.push(bytes);
        }
        closed
    }
}

fn seen(parts: &[&[u8]]) -> Seen {
    let mut seen = Seen::default();
    parts.iter().for_each(|part| seen.look(part));
    seen
}

fn prepared() -> Seen {
    seen(&[PARSE_COMPLETE, PARAMETERS, COLUMNS, BIND_COMPLETE])
}

#[test]
fn a_reply_shows_a_statement_wherever_it_is_cut() {
    let whole = [CLOSE_COMPLETE, PARSE_COMPLETE, PARAMETERS, COLUMNS, BIND_COMPLETE].concat();
    let shown = seen(&[&whole]);
    assert!(shown.closed && shown.parsed && shown.described);
    let cut = seen(&[CLOSE_COMPLETE, PARSE_COMPLETE, PARAMETERS, NO_DATA]);
    assert!(cut.closed && cut.parsed && cut.described);
    let guarded = seen(&[NO_DATA, PARSE_COMPLETE]);
    assert!(guarded.parsed && !guarded.described);
    let bound = seen(&[BIND_COMPLETE, COLUMNS, PARSE_COMPLETE]);
    assert!(
        !bound.parsed && !bound.described,
        "messages behind BindComplete are not about the statement"
    );
}

#[test]
fn a_statement_is_named_once_it_was_described() {
    let mut connection = Connection::new(10);
    let first = connection.used(1, Scope::Fixed);
    assert!(first.parses());
    assert!(matches!(connection.way(1, Scope::Fixed), Way::Unnamed), "it may still fail");
    first.ended(&seen(&[PARSE_COMPLETE]), Some(Fault::Other));
    let second = connection.used(1, Scope::Fixed);
    assert!(second.parses(), "its columns are not known");
    assert_eq!(connection.numbers.get(), 2);
    second.ended(&prepared(), None);
    assert!(!connection.used(1, Scope::Fixed).parses());
}

#[test]
fn what_can_be_sent_again_names_a_statement_while_it_is_parsed_and_describes_it_for_itself() {
    let mut connection = Connection::new(10);
    let first = connection.used(1, Scope::Heals);
    let second = connection.used(1, Scope::Heals);
    assert!(first.parses() && !second.parses() && second.describes());
    let segment = Scope::Segment { segment: (1, 1), timed: false };
    assert!(matches!(connection.way(1, segment), Way::Unnamed));
}

#[test]
fn a_request_that_was_not_sent_has_prepared_nothing() {
    let mut connection = Connection::new(10);
    drop(connection.used(1, Scope::Fixed));
    assert!(connection.used(1, Scope::Fixed).parses());
}

#[test]
fn the_least_recently_used_is_closed_when_nobody_names_it_any_more() {
    let mut connection = Connection::new(2);
    let held = connection.used(1, Scope::Fixed);
    held.ended(&prepared(), None);
    for key in 2..4 {
        connection.used(key, Scope::Fixed).ended(&prepared(), None);
    }
    assert!(connection.closed().is_empty(), "it is still named");
    drop(held);
    assert_eq!(connection.closed().len(), 1);
    assert!(!connection.statements.any_to_close());
}

#[test]
fn what_the_server_lost_is_prepared_anew() {
    let mut connection = Connection::new(10);
    connection.used(1, Scope::Fixed).ended(&prepared(), None);
    connection.statements.lost();
    assert!(connection.used(1, Scope::Fixed).parses());
}

/// A use of one text parameter.
fn with(text: &str) -> Vec<u8> {
    [&[0, 0, 0, 1][..], &(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// The reply to a Parse whose one parameter has this type.
fn prepared_of(type_oid: u8) -> Seen {
    let parameters = [b't', 0, 0, 0, 10, 0, 1, 0, 0, 0, type_oid];
    seen(&[PARSE_COMPLETE, &parameters, COLUMNS, BIND_COMPLETE])
}

const INT4: u8 = 23;

/// P56.
#[test]
fn a_name_is_used_for_exact_values_alone() {
    let mut connection = Connection::new(10);
    connection.first = with("7");
    connection.used(1, Scope::Heals).ended(&prepared_of(INT4), None);
    assert!(!connection.used(1, Scope::Heals).parses());
    connection.first = with("007");
    assert!(matches!(connection.way(1, Scope::Heals), Way::Unnamed));
    connection.first = with("8");
    assert!(!connection.used(1, Scope::Heals).parses(), "the statement stays");
}

#[test]
fn a_value_whose_type_is_not_known_yet_leaves_with_its_own_parse() {
    let mut connection = Connection::new(10);
    connection.first = with("7");
    let first = connection.used(1, Scope::Heals);
    assert!(first.parses());
    assert!(matches!(connection.way(1, Scope::Heals), Way::Unnamed));
    let segment = Scope::Segment { segment: (1, 1), timed: false };
    let (parses, behind) = (connection.used(2, segment), connection.used(2, segment));
    assert!(parses.parses() && !behind.parses(), "its segment holds the locks of its Parse");
}

/// P56.
#[test]
fn what_one_connection_finds_out_all_know() {
    for (reply, fault) in [
        (None, Some(Fault::Changed)),
        (None, Some(Fault::Meaningless)),
        (Some(prepared_of(25)), None),
    ] {
        let (mut one, mut two) = (Connection::new(10), Connection::new(10));
        let generation = Generation::default();
        for connection in [&mut one, &mut two] {
            connection.statements.share(&generation);
            for key in 1..3 {
                connection.used(key, Scope::Fixed).ended(&prepared_of(INT4), None);
            }
        }
        one.used(1, Scope::Fixed).ended(&reply.unwrap_or_default(), fault);
        for connection in [&mut one, &mut two] {
            for key in 2..3 {
                let used = connection.used(key, Scope::Fixed);
                assert!(used.parses(), "{fault:?}");
                used.ended(&prepared_of(INT4), None);
                assert!(!connection.used(key, Scope::Fixed).parses());
            }
        }
    }
}

/// P56. The columns were learned before, and by a Parse that knows nothing of that.
#[test]
fn a_number_of_columns_that_was_not_asked_for_all_know() {
    let mut connection = Connection::new(10);
    connection.used(1, Scope::Fixed).ended(&prepared_of(INT4), None);
    let fault = fault(Some(b"08P01"), Some(b"PortalSetResultFormat"));
    let bound = seen(&[PARSE_COMPLETE, PARAMETERS, COLUMNS]);
    connection.used(2, Scope::Fixed).ended(&bound, Some(fault));
    assert!(connection.used(1, Scope::Fixed).parses());
    assert!(!fault.is_stale(), "the statement itself is as it was parsed");
}

/// P56. The pooler answers a Parse by a statement that it parsed before the column's type changed.
#[test]
fn behind_a_pooler_no_name_is_used_where_the_server_infers_a_type() {
    let mut connection = Connection::behind_a_pooler();
    connection.first = with("7");
    for scope in [Scope::Heals, Scope::Fixed, Scope::Segment { segment: (1, 1), timed: false }] {
        assert!(matches!(connection.way(1, scope), Way::Unnamed), "{scope:?}");
    }
    assert!(matches!(connection.named("mine", "select $1").unwrap().0, Way::Unnamed));
    for (types, is_named) in [(&[23, 0][..], false), (&[23], true)] {
        let way = connection.with(2, "select $1", |it, _, protocol, wanted| {
            let parameters = Parameters { named: types, ..Parameters::default() };
            it.own_way(protocol, &Wanted { parameters, ..*wanted }, Scope::Fixed, true)
        });
        assert_eq!(way.unwrap().used().is_some(), is_named, "{types:?}");
    }
}

#[test]
fn until_it_is_known_what_is_on_the_other_end_inferred_types_have_no_name() {
    let mut connection = Connection::unknown(10);
    let segment = Scope::Segment { segment: (1, 1), timed: false };
    assert!(connection.used(1, segment).parses());
    connection.first = with("7");
    assert!(matches!(connection.way(2, segment), Way::Unnamed));
    assert!(matches!(connection.named("mine", "select $1").unwrap().0, Way::Unnamed));
    connection.probed(ITSELF);
    assert!(connection.used(2, segment).parses());
    assert!(connection.named("mine", "select $1").unwrap().0.used().is_some());
}

/// A server of the pooler's may have parsed the text at another time than the one before.
#[test]
fn behind_a_pooler_each_use_of_a_name_describes_its_columns() {
    let mut connection = Connection::behind_a_pooler();
    connection.used(1, Scope::Fixed).ended(&prepared(), None);
    let used = connection.used(1, Scope::Fixed);
    assert!(!used.parses() && used.describes());
    connection.named("mine", "select 1").unwrap().0.used().unwrap().ended(&prepared(), None);
    let used = connection.named("mine", "select 1").unwrap().0.used().unwrap();
    assert!(!used.parses() && used.describes());
}

#[test]
fn behind_a_pooler_nothing_is_named_once_something_has_changed() {
    let mut connection = Connection::behind_a_pooler();
    connection.used(1, Scope::Heals).ended(&prepared(), None);
    connection.used(1, Scope::Heals).ended(&Seen::default(), Some(Fault::Changed));
    for key in 1..3 {
        assert!(matches!(connection.way(key, Scope::Heals), Way::Unnamed), "a Parse helps nothing");
    }
    assert!(matches!(connection.named("mine", "select 1").unwrap().0, Way::Unnamed));
}

#[test]
fn behind_a_pooler_nothing_is_named_once_an_unnamed_text_has_other_columns() {
    let mut connection = Connection::behind_a_pooler();
    connection.used(1, Scope::Heals).ended(&prepared(), None);
    for fault in [Fault::Other, Fault::Meaningless, Fault::Suspect] {
        connection.statements.failed_unnamed(fault);
        assert!(
            connection.way(1, Scope::Heals).used().is_some(),
            "the text may be wrong: {fault:?}"
        );
    }
    connection.statements.failed_unnamed(Fault::Miscounted);
    assert!(matches!(connection.way(1, Scope::Heals), Way::Unnamed));
}

/// The use ran on a server that has planned the text behind the change; the next one may not.
#[test]
fn behind_a_pooler_nothing_is_named_once_a_named_text_has_other_columns() {
    let columns = |name: &[u8], format: u8| {
        let body = [&[0, 1], name, &[0; 7], &[0, 0, 0, 23, 0, 4, 255, 255, 255, 255, 0, format]];
        let body = body.concat();
        [&b"T"[..], &(body.len() as u32 + 4).to_be_bytes(), &body].concat()
    };
    let parsed = seen(&[PARSE_COMPLETE, PARAMETERS, &columns(b"a", 0)]);
    for (name, is_other) in [(b"a", false), (b"b", true)] {
        let mut connection = Connection::behind_a_pooler();
        connection.used(1, Scope::Heals).ended(&parsed, None);
        let shown = seen(&[BIND_COMPLETE, &columns(name, 1)]);
        connection.used(1, Scope::Heals).ended(&shown, None);
        let is_unnamed = matches!(connection.way(1, Scope::Heals), Way::Unnamed);
        assert_eq!(is_unnamed, is_other, "{name:?}");
    }
}

#[test]
fn an_error_of_what_runs_says_nothing_of_the_statement() {
    let mut connection = Connection::new(10);
    connection.used(1, Scope::Fixed).ended(&prepared_of(INT4), None);
    for fault in [Fault::Other, Fault::Suspect, Fault::Meaningless] {
        connection.used(1, Scope::Fixed).ended(&seen(&[BIND_COMPLETE]), Some(fault));
        assert!(!connection.used(1, Scope::Fixed).parses(), "{fault:?}");
    }
    connection.used(1, Scope::Fixed).ended(&Seen::default(), Some(Fault::Suspect));
    let used = connection.used(1, Scope::Fixed);
    assert!(used.parses(), "an error in front of BindComplete does");
    used.ended(&prepared_of(INT4), None);
    connection.used(2, Scope::Fixed).ended(&prepared_of(INT4), None);
    assert!(!connection.used(2, Scope::Fixed).parses(), "nothing had changed");
}

#[test]
fn a_statement_is_prepared_anew_once_it_is_old() {
    let mut connection = Connection::new(10);
    connection.used(1, Scope::Fixed).ended(&prepared(), None);
    connection.now = Time::from_nanos(59_000_000_000);
    assert!(!connection.used(1, Scope::Fixed).parses());
    connection.now = Time::from_nanos(60_000_000_000);
    let again = connection.used(1, Scope::Fixed);
    assert!(again.parses());
    again.ended(&prepared(), None);
    assert!(!connection.used(1, Scope::Fixed).parses());
    assert_eq!(connection.closed().len(), 1);
}

/// P56.
#[test]
fn where_names_have_changed_none_of_before_is_used_and_few_are_made() {
    let mut connection = Connection::new(10);
    connection.used(1, Scope::Fixed).ended(&prepared(), None);
    for _ in 0..2 {
        connection.statements.renamed(connection.engine.protocol());
        for _ in 0..2 {
            assert!(matches!(connection.way(1, Scope::Fixed), Way::Unnamed));
        }
        let used = connection.used(1, Scope::Fixed);
        assert!(used.parses(), "it is worth a name of its own");
        used.ended(&prepared(), None);
        assert!(!connection.used(1, Scope::Fixed).parses());
    }
    // The next owner finds the session as it was.
    connection.engine.protocol_mut().take_back();
    connection.engine.protocol_mut().lend();
    assert!(!connection.used(1, Scope::Fixed).parses());
    assert_eq!(connection.closed().len(), 2, "those of its own are closed");
    assert_eq!(connection.numbers.get(), 3);
}

/// P57.
#[test]
fn a_name_of_the_users_is_that_of_63_bytes() {
    let mut connection = Connection::new(10);
    let long = "n".repeat(63);
    let (way, _) = connection.named(&format!("{long}one"), "select 1").unwrap();
    way.used().unwrap().ended(&prepared(), None);
    assert_eq!(connection.named(&format!("{long}two"), "select 2").unwrap_err(), NameTaken);
    let (way, _) = connection.named(&format!("{long}two"), "select 1").unwrap();
    assert!(!way.used().unwrap().parses(), "it is the same for the server");
}

#[test]
fn a_name_of_the_users_is_prepared_anew_where_names_have_changed() {
    let mut connection = Connection::new(10);
    connection.named("mine", "select 1").unwrap().0.used().unwrap().ended(&prepared(), None);
    connection.statements.renamed(connection.engine.protocol());
    for _ in 0..2 {
        assert!(matches!(connection.named("mine", "select 1").unwrap().0, Way::Unnamed));
    }
    let (way, closes) = connection.named("mine", "select 1").unwrap();
    assert!(closes && way.used().is_some_and(|used| used.parses()));
}

#[test]
fn a_name_of_the_users_stands_for_one_text_unless_its_parse_failed() {
    let mut connection = Connection::new(10);
    let (way, closes) = connection.named("mine", "select 1").unwrap();
    assert!(!closes);
    assert_eq!(connection.named("mine", "select 2").unwrap_err(), NameTaken);
    way.used().unwrap().ended(&Seen::default(), Some(Fault::Other));
    let (way, closes) = connection.named("mine", "select 2").unwrap();
    assert!(!closes, "the server never had it");
    way.used().unwrap().ended(&prepared(), None);
    connection.named.lost();
    let (_, closes) = connection.named("mine", "select 2").unwrap();
    assert!(closes, "the server may have one of that name");
    assert!(connection.closed().is_empty(), "a Close of the old would close the new");
}

/// P57. The Close in front of the Parse was skipped with it, so the server has the one of before.
#[test]
fn a_name_of_the_users_stays_taken_where_its_statement_could_not_be_prepared_anew() {
    let mut connection = Connection::new(10);
    connection.named("mine", "select 1").unwrap().0.used().unwrap().ended(&prepared(), None);
    let used = connection.named("mine", "select 1").unwrap().0.used().unwrap();
    used.ended(&Seen::default(), Some(Fault::Changed));
    for _ in 0..2 {
        let (way, closes) = connection.named("mine", "select 1").unwrap();
        assert!(closes);
        way.used().unwrap().ended(&Seen::default(), Some(Fault::Other));
        assert_eq!(connection.named("mine", "select 2").unwrap_err(), NameTaken);
    }
}

#[test]
fn a_text_is_worth_a_name_when_it_came_often_and_is_not_long() {
    let mut texts = Texts::new(3, 10);
    let long = format!("select '{}'", "x".repeat(TEXT_LEN_MAX));
    let keys = |texts: &mut Texts, text: &str| [(); 4].map(|()| texts.count(text).key.is_some());
    assert_eq!(keys(&mut texts, "select 1"), [false, false, true, true]);
    assert_eq!(keys(&mut texts, &long), [false; 4]);
    assert_eq!(keys(&mut Texts::new(0, 10), "select 1"), [false; 4]);
}

#[test]
fn texts_are_forgotten_that_came_seldom_and_then_those_that_came_long_ago() {
    let mut texts = Texts::new(1, 2);
    let often = texts.count("select 'often'").key;
    for number in 0..100 {
        texts.count(&format!("select {number}"));
        assert_eq!(texts.count("select 'often'").key, often);
    }
}

#[test]
fn a_text_that_can_not_be_sent_is_an_error_and_nothing_is_kept() {
    let mut connection = Connection::new(10);
    let way = connection.with(1, "select '\0'", |it, _, protocol, wanted| {
        it.way(protocol, wanted, Scope::Fixed).map(drop)
    });
    assert_eq!(way, Err(EncodeError::Nul));
    assert!(connection.used(1, Scope::Fixed).parses());
}
