//! The connect plan, by PostgreSQL's documentation of libpq ("Database Connection Control
//! Functions"). The names of the tests paraphrase its sentences.

use std::collections::BTreeSet;
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_postgres::client::connect::{
    Action, Fault, Host, LoadBalanceHosts, Plan, Refusal, Session, Settings, SslMode,
    SslNegotiation, TargetSessionAttrs,
};
use onetrip_postgres::client::identity::{Identity, Lineage};
use onetrip_postgres::message::ssl_request::Answer;

const TWO: [Host; 2] = [Host::Address, Host::Address];

const OLD: Session = Session { is_standby: None, is_read_only: None, can_be_asked: false };
const PRIMARY: Session = Session { is_standby: Some(false), is_read_only: Some(false), ..OLD };
const LOCKED_PRIMARY: Session = Session { is_read_only: Some(true), ..PRIMARY };
const STANDBY: Session = Session { is_standby: Some(true), ..PRIMARY };
/// The same, and it can be asked which server it is.
const ASKED: Session = Session { can_be_asked: true, ..PRIMARY };

fn settings(hosts: &[Host]) -> Settings {
    Settings {
        hosts: hosts.to_vec(),
        sslmode: SslMode::Disable,
        sslnegotiation: SslNegotiation::Postgres,
        target_session_attrs: TargetSessionAttrs::Any,
        load_balance_hosts: LoadBalanceHosts::Disable,
        connect_timeout: None,
        seed: 1,
        identifies: true,
        scouts: false,
    }
}

fn plan(settings: Settings) -> Plan {
    Plan::new(Time::ZERO, settings, &Lineage::default())
}

fn over_tls(sslmode: SslMode) -> Plan {
    plan(Settings { sslmode, ..settings(&[Host::Address]) })
}

fn dial(host: usize, address: usize) -> Action {
    Action::Dial { host, address }
}

fn fail(plan: &mut Plan, fault: Fault<'_>, text: &str) {
    plan.handle_failed(Time::ZERO, fault, text.to_owned(), &mut Lineage::default());
}

fn fail_at(plan: &mut Plan, now: Time, fault: Fault<'_>) {
    plan.handle_failed(now, fault, "no".to_owned(), &mut Lineage::default());
}

fn log_in(plan: &mut Plan, session: Session) -> Result<(), Refusal> {
    plan.handle_logged_in(session, &mut Lineage::default())
}

fn verdict(plan: &Plan) -> (usize, String, bool) {
    let verdict = plan.verdict().unwrap();
    (verdict.error, verdict.text, verdict.is_of_many)
}

/// The steps up to the server's answer to the question for TLS.
fn asks(plan: &mut Plan) -> bool {
    assert_eq!(plan.action(), dial(0, 0));
    plan.handle_connected();
    plan.action() == Action::AskForTls
}

fn at(seconds: u64) -> Time {
    Time::ZERO.after(Duration::from_secs(seconds))
}

#[test]
fn hosts_are_tried_in_their_order_until_one_answers() {
    let mut plan = plan(settings(&[Host::Address, Host::Socket, Host::Address]));
    assert_eq!(plan.action(), dial(0, 0));
    fail(&mut plan, Fault::Unreachable, "a");
    assert_eq!(plan.action(), dial(1, 0));
    plan.handle_connected();
    assert_eq!(plan.action(), Action::LogIn);
    log_in(&mut plan, OLD).unwrap();
    assert_eq!(plan.action(), Action::Done);
    assert_eq!(plan.verdict(), None);
}

#[test]
fn all_addresses_of_a_name_are_tried_in_the_order_of_its_lookup() {
    let mut plan = plan(settings(&[Host::Name, Host::Name]));
    assert_eq!(plan.action(), Action::Resolve(0));
    plan.handle_resolved(Time::ZERO, 2);
    assert_eq!(plan.action(), dial(0, 0));
    fail(&mut plan, Fault::Unreachable, "a at 1");
    assert_eq!(plan.action(), dial(0, 1));
    fail(&mut plan, Fault::Unreachable, "a at 2");
    assert_eq!(plan.action(), Action::Resolve(1));
}

#[test]
fn the_last_error_tells_of_each_host() {
    let mut plan = plan(settings(&[Host::Name, Host::Address]));
    plan.handle_resolved(Time::ZERO, 2);
    fail(&mut plan, Fault::Unreachable, "a at 1");
    fail(&mut plan, Fault::Unreachable, "a at 2");
    fail(&mut plan, Fault::Server, "b is none");
    assert_eq!(plan.action(), Action::Failed);
    assert_eq!(verdict(&plan), (2, "a at 2; b is none".to_owned(), true));
    fail(&mut plan, Fault::Server, "too late");
    assert_eq!(verdict(&plan), (2, "a at 2; b is none".to_owned(), true));
}

/// P61.
#[test]
fn who_opens_a_client_waits_for_a_server_that_was_met_and_for_no_other() {
    let may_pass = |steps: &[&str], fault: Fault<'_>| {
        let mut plan = over_tls(SslMode::Require);
        for step in steps {
            match *step {
                "connected" => plan.handle_connected(),
                "no TLS" => _ = plan.handle_answer(Some(Answer::Refused), false).unwrap_err(),
                "TLS" => plan.handle_answer(Some(Answer::Accepted), false).unwrap(),
                _ => plan.handle_secured(),
            }
        }
        fail(&mut plan, fault, "no");
        plan.verdict().unwrap().may_pass
    };
    let logs_in = &["connected", "TLS", "secured"];
    assert!(!may_pass(&[], Fault::Unreachable));
    assert!(!may_pass(&[], Fault::Late));
    assert!(!may_pass(&["connected", "no TLS"], Fault::Server));
    assert!(!may_pass(&["connected", "TLS"], Fault::Handshake));
    assert!(!may_pass(logs_in, Fault::LogIn("28P01")));
    assert!(!may_pass(logs_in, Fault::Late));
    assert!(may_pass(&["connected"], Fault::Server), "it was cut: a proxy, or a server that stops");
    assert!(may_pass(logs_in, Fault::Server));
    assert!(may_pass(logs_in, Fault::LogIn("57P03")));

    let mut name = plan(settings(&[Host::Name]));
    fail(&mut name, Fault::Server, "the name is unknown");
    assert!(!name.verdict().unwrap().may_pass);
    let mut standby = plan(Settings {
        target_session_attrs: TargetSessionAttrs::Standby,
        ..settings(&[Host::Address])
    });
    standby.handle_connected();
    log_in(&mut standby, PRIMARY).unwrap_err();
    fail(&mut standby, Fault::Server, "it is none");
    assert!(!standby.verdict().unwrap().may_pass);
}

/// P60.
#[test]
fn behind_a_connect_that_was_given_up_nothing_else_is_tried() {
    let of = settings(&TWO);
    let mut plan = plan(Settings { sslmode: SslMode::Prefer, ..of });
    assert!(asks(&mut plan));
    plan.handle_answer(Some(Answer::Accepted), false).unwrap();
    assert_eq!(plan.action(), Action::BeginTls);
    plan.give_up();
    // Its socket ends amid the handshake, which is no reason to go on without TLS.
    fail(&mut plan, Fault::Handshake, "closed");
    plan.handle_connected();
    assert_eq!((plan.action(), plan.deadline()), (Action::Failed, Time::NEVER));
    assert_eq!(plan.verdict(), None);
}

#[test]
fn a_name_that_is_unknown_is_left_for_the_next_host() {
    let mut plan = plan(settings(&[Host::Name, Host::Address]));
    fail(&mut plan, Fault::Unreachable, "a is unknown");
    assert_eq!(plan.action(), dial(1, 0));
}

#[test]
fn hosts_behind_one_where_the_login_fails_are_not_tried() {
    for (code, ends) in [
        ("28P01", true),
        ("28000", true),
        ("3D000", true),
        // It is starting, or has no connection free, so the next host is tried.
        ("57P03", false),
        ("53300", false),
    ] {
        let mut plan = plan(settings(&[Host::Address, Host::Address, Host::Address]));
        fail(&mut plan, Fault::Unreachable, "a");
        plan.handle_connected();
        fail(&mut plan, Fault::LogIn(code), "b");
        match ends {
            true => assert_eq!(verdict(&plan), (1, "b".to_owned(), false), "{code}"),
            false => assert_eq!(plan.action(), dial(2, 0), "{code}"),
        }
    }
}

#[test]
fn what_is_wrong_on_this_side_is_wrong_for_all_hosts() {
    let mut plan = plan(settings(&[Host::Address, Host::Address]));
    fail(&mut plan, Fault::Ours, "no such file");
    assert_eq!(verdict(&plan), (0, "no such file".to_owned(), false));
}

#[test]
fn disable_never_asks_for_tls_and_the_modes_from_require_on_take_nothing_less() {
    assert!(!asks(&mut over_tls(SslMode::Disable)));
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        let mut plan = over_tls(mode);
        assert!(asks(&mut plan));
        assert_eq!(plan.handle_answer(Some(Answer::Refused), false), Err(Refusal::NoTls));
        fail(&mut plan, Fault::Server, "no TLS");
        assert_eq!(plan.action(), Action::Failed);
        for fault in [Fault::Handshake, Fault::LogIn("28000")] {
            let mut plan = over_tls(mode);
            assert!(asks(&mut plan));
            plan.handle_answer(Some(Answer::Accepted), false).unwrap();
            assert_eq!(plan.action(), Action::BeginTls);
            fail(&mut plan, fault, "no");
            assert_eq!(plan.action(), Action::Failed, "{mode:?}");
        }
    }
}

#[test]
fn allow_begins_without_tls_and_goes_on_with_it_where_it_is_not_let_in() {
    let mut plan = over_tls(SslMode::Allow);
    assert!(!asks(&mut plan));
    fail(&mut plan, Fault::LogIn("28000"), "no encryption");
    assert!(asks(&mut plan));
    plan.handle_answer(Some(Answer::Accepted), false).unwrap();
    plan.handle_secured();
    log_in(&mut plan, PRIMARY).unwrap();
    assert_eq!(plan.action(), Action::Done);
}

#[test]
fn allow_says_why_neither_way_did_it() {
    let mut plan = over_tls(SslMode::Allow);
    assert!(!asks(&mut plan));
    fail(&mut plan, Fault::LogIn("28000"), "no encryption");
    assert!(asks(&mut plan));
    assert_eq!(plan.handle_answer(Some(Answer::Refused), false), Err(Refusal::NoTls));
    fail(&mut plan, Fault::Server, "it has none");
    assert_eq!(verdict(&plan), (0, "no encryption; with TLS: it has none".to_owned(), false));
}

#[test]
fn prefer_goes_on_without_tls_on_the_same_connection_where_the_server_has_none() {
    let mut plan = over_tls(SslMode::Prefer);
    assert!(asks(&mut plan));
    plan.handle_answer(Some(Answer::Refused), false).unwrap();
    assert_eq!(plan.action(), Action::LogIn);
    // There is no other TLS mode to try.
    fail(&mut plan, Fault::LogIn("28000"), "no");
    assert_eq!(verdict(&plan), (0, "no".to_owned(), false));
}

#[test]
fn prefer_goes_on_without_tls_on_another_connection_where_tls_or_the_login_fails() {
    for fault in [Fault::Handshake, Fault::LogIn("28000")] {
        let mut plan = over_tls(SslMode::Prefer);
        assert!(asks(&mut plan));
        plan.handle_answer(Some(Answer::Accepted), false).unwrap();
        fail(&mut plan, fault, "not by TLS");
        assert!(!asks(&mut plan));
        log_in(&mut plan, PRIMARY).unwrap();
        assert_eq!(plan.action(), Action::Done);
    }
}

/// P74.
#[test]
fn what_is_refused_behind_a_login_that_was_taken_is_not_tried_the_other_way() {
    for mode in [SslMode::Allow, SslMode::Prefer] {
        let mut plan = over_tls(mode);
        if asks(&mut plan) {
            plan.handle_answer(Some(Answer::Accepted), false).unwrap();
            plan.handle_secured();
        }
        assert_eq!(plan.action(), Action::LogIn);
        fail(&mut plan, Fault::Session("28000"), "no login for this role");
        assert_eq!(verdict(&plan), (0, "no login for this role".to_owned(), false), "{mode:?}");
    }
    // What is final for one host is so for all.
    let mut plan = plan(settings(&TWO));
    plan.handle_connected();
    fail(&mut plan, Fault::Session("28000"), "no login for this role");
    assert_eq!(plan.action(), Action::Failed);
    let mut plan = self::plan(settings(&TWO));
    plan.handle_connected();
    fail(&mut plan, Fault::Session("53300"), "no connection left");
    assert_eq!(plan.action(), dial(1, 0));
}

#[test]
fn a_wrong_password_is_the_last_word_of_two_ways() {
    for (first, second, said) in [
        ("28000", "28P01", (1, "second; with TLS: first".to_owned(), false)),
        ("28P01", "28000", (0, "first; without TLS: second".to_owned(), false)),
    ] {
        let mut plan = over_tls(SslMode::Prefer);
        assert!(asks(&mut plan));
        plan.handle_answer(Some(Answer::Accepted), false).unwrap();
        plan.handle_secured();
        fail(&mut plan, Fault::LogIn(first), "first");
        assert!(!asks(&mut plan));
        fail(&mut plan, Fault::LogIn(second), "second");
        assert_eq!(verdict(&plan), said);
    }
}

#[test]
fn what_fails_alike_both_ways_is_said_once() {
    let mut plan = over_tls(SslMode::Allow);
    assert!(!asks(&mut plan));
    fail(&mut plan, Fault::LogIn("28P01"), "wrong password");
    assert!(asks(&mut plan));
    fail(&mut plan, Fault::LogIn("28P01"), "wrong password");
    assert_eq!(verdict(&plan), (0, "wrong password".to_owned(), false));
}

#[test]
fn a_unix_socket_is_never_encrypted_whatever_the_mode() {
    let mut plan = plan(Settings { sslmode: SslMode::VerifyFull, ..settings(&[Host::Socket]) });
    assert!(!asks(&mut plan));
    assert_eq!(plan.action(), Action::LogIn);
}

#[test]
fn tls_that_begins_at_once_is_not_asked_for() {
    let sslnegotiation = SslNegotiation::Direct;
    let given = Settings { sslnegotiation, ..settings(&[Host::Address]) };
    let mut plan = plan(Settings { sslmode: SslMode::Require, ..given });
    plan.handle_connected();
    assert_eq!(plan.action(), Action::BeginTls);
    plan.handle_secured();
    assert_eq!(plan.action(), Action::LogIn);
}

#[test]
fn whatever_else_answers_the_question_for_tls_is_refused() {
    for (answer, early, refusal) in [
        (Some(Answer::Accepted), true, Refusal::EarlyBytes),
        (Some(Answer::Refused), true, Refusal::EarlyBytes),
        (Some(Answer::Error), false, Refusal::ErrorForTls),
        (None, false, Refusal::NotPostgres),
    ] {
        let mut plan = over_tls(SslMode::Prefer);
        assert!(asks(&mut plan));
        assert_eq!(plan.handle_answer(answer, early), Err(refusal));
        fail(&mut plan, Fault::Server, "refused");
        assert_eq!(plan.action(), Action::Failed, "nothing weaker is tried: {refusal:?}");
    }
}

#[test]
fn a_server_is_accepted_by_what_its_sessions_are() {
    use TargetSessionAttrs::{Any, PreferStandby, Primary, ReadOnly, ReadWrite, Standby};
    for (wanted, fits) in [
        (Any, [true, true, true]),
        (ReadWrite, [true, false, false]),
        (ReadOnly, [false, true, true]),
        (Primary, [true, true, false]),
        (Standby, [false, false, true]),
        (PreferStandby, [false, false, true]),
    ] {
        for (session, fits) in [PRIMARY, LOCKED_PRIMARY, STANDBY].into_iter().zip(fits) {
            let mut plan =
                plan(Settings { target_session_attrs: wanted, ..settings(&[Host::Address]) });
            plan.handle_connected();
            let answer = log_in(&mut plan, session);
            let expected = if fits { Ok(()) } else { Err(Refusal::Target) };
            assert_eq!(answer, expected, "{wanted:?} {session:?}");
        }
    }
}

#[test]
fn a_server_that_does_not_say_what_it_is_will_do_for_any_alone() {
    let target_session_attrs = TargetSessionAttrs::Primary;
    let mut plan = plan(Settings { target_session_attrs, ..settings(&[Host::Address]) });
    plan.handle_connected();
    assert_eq!(log_in(&mut plan, OLD), Err(Refusal::TargetUnknown));
}

#[test]
fn a_server_that_will_not_do_is_left_for_the_next_host_and_not_for_its_next_address() {
    let target_session_attrs = TargetSessionAttrs::ReadWrite;
    let mut plan = plan(Settings { target_session_attrs, ..settings(&[Host::Name, Host::Socket]) });
    plan.handle_resolved(Time::ZERO, 2);
    plan.handle_connected();
    assert_eq!(log_in(&mut plan, STANDBY), Err(Refusal::Target));
    fail(&mut plan, Fault::Server, "a standby");
    assert_eq!(plan.action(), dial(1, 0));
}

#[test]
fn where_no_standby_is_found_any_server_will_do_in_a_second_round() {
    let target_session_attrs = TargetSessionAttrs::PreferStandby;
    let hosts = [Host::Address, Host::Address];
    let mut plan = plan(Settings { target_session_attrs, ..settings(&hosts) });
    plan.handle_connected();
    assert_eq!(log_in(&mut plan, PRIMARY), Err(Refusal::Target));
    fail(&mut plan, Fault::Server, "no standby");
    fail(&mut plan, Fault::Unreachable, "nobody");
    assert_eq!(plan.action(), dial(0, 0));
    plan.handle_connected();
    log_in(&mut plan, PRIMARY).unwrap();
    assert_eq!(plan.action(), Action::Done);
}

#[test]
fn two_rounds_are_not_three() {
    let target_session_attrs = TargetSessionAttrs::PreferStandby;
    let mut plan = plan(Settings { target_session_attrs, ..settings(&[Host::Address]) });
    fail(&mut plan, Fault::Unreachable, "first");
    fail(&mut plan, Fault::Unreachable, "second");
    assert_eq!(verdict(&plan), (1, "first; second".to_owned(), true));
}

#[test]
fn the_timeout_is_that_of_each_address_by_itself() {
    let connect_timeout = Some(Duration::from_secs(5));
    let mut plan = plan(Settings { connect_timeout, ..settings(&[Host::Name, Host::Address]) });
    assert_eq!(plan.deadline(), at(5));
    plan.handle_resolved(at(1), 2);
    assert_eq!(plan.deadline(), at(6));
    plan.handle_connected();
    assert_eq!(plan.deadline(), at(6), "the login counts");
    fail_at(&mut plan, at(6), Fault::Late);
    assert_eq!((plan.action(), plan.deadline()), (dial(0, 1), at(11)));
    fail_at(&mut plan, at(7), Fault::Unreachable);
    assert_eq!((plan.action(), plan.deadline()), (dial(1, 0), at(12)));
    fail_at(&mut plan, at(12), Fault::Late);
    assert_eq!((plan.action(), plan.deadline()), (Action::Failed, Time::NEVER));
}

#[test]
fn both_ways_to_an_address_share_its_time_and_no_limit_is_none() {
    let given = Settings { sslmode: SslMode::Allow, ..settings(&[Host::Address]) };
    let limited = Settings { connect_timeout: Some(Duration::from_secs(5)), ..given.clone() };
    for (settings, deadline) in [(limited, at(5)), (given, Time::NEVER)] {
        let mut plan = plan(settings);
        plan.handle_connected();
        fail_at(&mut plan, at(2), Fault::LogIn("28000"));
        assert_eq!((plan.action(), plan.deadline()), (dial(0, 0), deadline));
    }
}

/// The hosts, each with its addresses, in the order in which they are tried.
fn tried(seed: u64) -> Vec<(usize, Vec<usize>)> {
    let load_balance_hosts = LoadBalanceHosts::Random;
    let mut plan = plan(Settings { load_balance_hosts, seed, ..settings(&[Host::Name; 3]) });
    let mut tried = Vec::new();
    while let Action::Resolve(host) = plan.action() {
        let mut addresses = Vec::new();
        plan.handle_resolved(Time::ZERO, 3);
        while let Action::Dial { address, .. } = plan.action() {
            addresses.push(address);
            fail(&mut plan, Fault::Unreachable, "nobody");
        }
        tried.push((host, addresses));
    }
    tried
}

#[test]
fn hosts_and_addresses_are_tried_at_random_where_that_is_wanted_and_each_once() {
    let (mut hosts, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..200 {
        let tried = tried(seed);
        assert_eq!(tried, self::tried(seed), "it follows from the seed");
        for mut each in tried.iter().map(|(_, addresses)| addresses.clone()) {
            addresses.insert(each.clone());
            each.sort_unstable();
            assert_eq!(each, [0, 1, 2]);
        }
        hosts.insert(tried.iter().map(|(host, _)| *host).collect::<Vec<_>>());
    }
    assert_eq!((hosts.len(), addresses.len()), (6, 6), "all orders come");
}

#[test]
fn what_comes_at_the_wrong_time_changes_nothing() {
    let mut plan = over_tls(SslMode::Require);
    plan.handle_secured();
    plan.handle_resolved(Time::ZERO, 7);
    assert_eq!(plan.handle_answer(None, true), Ok(()));
    assert_eq!(log_in(&mut plan, OLD), Ok(()));
    assert_eq!(plan.action(), dial(0, 0));
    let empty = self::plan(settings(&[]));
    assert_eq!((empty.action(), empty.verdict()), (Action::Failed, None));
}

#[test]
fn each_refusal_names_its_code_and_says_what_it_is_about() {
    for (refusal, code, word) in [
        (Refusal::NoTls, "tls_missing", "ssl=on"),
        (Refusal::ErrorForTls, "tls_failed", "log"),
        (Refusal::EarlyBytes, "tls_failed", "tampered"),
        (Refusal::NotPostgres, "connect_failed", "protocol"),
        (Refusal::NoAlpn, "tls_failed", "ALPN"),
        (Refusal::Target, "target_session_attrs", "target_session_attrs"),
        (Refusal::TargetUnknown, "target_session_attrs", "too old"),
    ] {
        assert_eq!(refusal.code(), code);
        assert!(refusal.text().contains(word), "{refusal:?}");
    }
}

fn primary(timeline: u32) -> Option<Identity> {
    Some(Identity { system: 7, is_standby: false, timeline })
}

/// Logs in at each host, up to the question which server it is.
fn asks_which(settings: Settings) -> Option<Plan> {
    let mut plan = plan(settings);
    plan.handle_connected();
    log_in(&mut plan, ASKED).unwrap();
    (plan.action() == Action::Identify).then_some(plan)
}

#[test]
fn a_client_that_may_meet_several_servers_asks_each_which_it_is() {
    let one = || settings(&[Host::Address]);
    assert!(asks_which(one()).is_none(), "one server, whatever it is");
    assert!(asks_which(settings(&[Host::Address, Host::Address])).is_some());
    let target_session_attrs = TargetSessionAttrs::ReadWrite;
    assert!(asks_which(Settings { target_session_attrs, ..one() }).is_some());
    let told = Settings { target_session_attrs, identifies: false, ..one() };
    assert!(asks_which(told).is_none(), "a host that can't");
}

#[test]
fn a_server_that_does_not_say_which_it_is_is_taken_as_it_is() {
    let mut lineage = Lineage::default();
    let mut plan = asks_which(settings(&[Host::Address, Host::Address])).unwrap();
    plan.handle_identified(None, &mut lineage).unwrap();
    assert_eq!(plan.action(), Action::Done);
    assert_eq!(lineage.refuses(primary(1).unwrap()), None);
}

#[test]
fn a_primary_teaches_its_timeline_where_a_standby_is_wanted() {
    let wants_a_standby = Settings {
        target_session_attrs: TargetSessionAttrs::Standby,
        ..settings(&[Host::Address])
    };
    let (mut lineage, mut plan) = (Lineage::default(), asks_which(wants_a_standby).unwrap());
    let refused = plan.handle_identified(primary(2), &mut lineage);
    assert_eq!(refused, Err(Refusal::Target));
    assert_eq!(lineage.refuses(primary(1).unwrap()), Some(Refusal::FormerPrimary));
}

/// PgBouncer tells each client what the first server that it was connected to had said.
#[test]
fn a_standby_is_no_primary_whatever_a_pooler_says_at_the_login() {
    for (wanted, is_standby, fits) in [
        (TargetSessionAttrs::ReadWrite, true, false),
        (TargetSessionAttrs::Primary, true, false),
        (TargetSessionAttrs::Primary, false, true),
        (TargetSessionAttrs::PreferStandby, true, true),
        (TargetSessionAttrs::Any, true, true),
    ] {
        let hosts = [Host::Address, Host::Address];
        let settings = Settings { target_session_attrs: wanted, ..settings(&hosts) };
        let (mut lineage, mut plan) = (Lineage::default(), asks_which(settings).unwrap());
        let server = Identity { is_standby, ..primary(2).unwrap() };
        let expected = if fits { Ok(()) } else { Err(Refusal::Target) };
        assert_eq!(plan.handle_identified(Some(server), &mut lineage), expected, "{wanted:?}");
    }
}

#[test]
fn a_promoted_standby_is_a_primary_whatever_a_pooler_says_at_the_login() {
    for wanted in [TargetSessionAttrs::ReadWrite, TargetSessionAttrs::Primary] {
        let settings = Settings { target_session_attrs: wanted, ..settings(&[Host::Address]) };
        let (mut lineage, mut plan) = (Lineage::default(), plan(settings));
        plan.handle_connected();
        log_in(&mut plan, Session { is_standby: Some(true), ..ASKED }).unwrap();
        plan.handle_identified(primary(2), &mut lineage).unwrap();
        assert_eq!(plan.action(), Action::Done, "{wanted:?}");
    }
}

/// What a client has seen that is connected to the first host, the primary of timeline 1.
fn connected_to_the_first(hosts: &[Host]) -> Lineage {
    let mut lineage = Lineage::default();
    let mut plan = asks_which(settings(hosts)).unwrap();
    plan.handle_identified(primary(1), &mut lineage).unwrap();
    lineage
}

fn first_tried(settings: Settings, lineage: &Lineage) -> Action {
    Plan::new(Time::ZERO, settings, lineage).action()
}

#[test]
fn a_scout_asks_the_silent_host_last_and_waits_two_seconds_at_most_for_it() {
    for (connect_timeout, others, silent) in
        [(None, Time::NEVER, at(2)), (Some(10), at(10), at(2)), (Some(1), at(1), at(1))]
    {
        let connect_timeout = connect_timeout.map(Duration::from_secs);
        let of = |hosts: &[Host]| Settings { connect_timeout, scouts: true, ..settings(hosts) };
        let lineage = connected_to_the_first(&TWO);
        let mut plan = Plan::new(Time::ZERO, of(&TWO), &lineage);
        assert_eq!((plan.action(), plan.deadline()), (dial(1, 0), others));
        fail(&mut plan, Fault::Unreachable, "b is away");
        assert_eq!((plan.action(), plan.deadline()), (dial(0, 0), silent));
        // Several servers may share one name.
        let plan = Plan::new(Time::ZERO, of(&[Host::Address]), &Lineage::default());
        assert_eq!((plan.action(), plan.deadline()), (dial(0, 0), silent));
    }
}

#[test]
fn the_silent_host_is_tried_last_once_a_scout_has_met_a_newer_primary() {
    let scout = || Settings { scouts: true, ..settings(&TWO) };
    for (timeline, then) in [(1, dial(0, 0)), (2, dial(1, 0))] {
        let mut lineage = connected_to_the_first(&TWO);
        let mut plan = Plan::new(Time::ZERO, scout(), &lineage);
        plan.handle_connected();
        plan.handle_logged_in(ASKED, &mut lineage).unwrap();
        plan.handle_identified(primary(timeline), &mut lineage).unwrap();
        assert_eq!(first_tried(settings(&TWO), &lineage), then, "timeline {timeline}");
        let next = first_tried(scout(), &lineage);
        assert_eq!(next, dial(1, 0), "the scout's own connection serves nobody");
    }
}

#[test]
fn a_host_that_was_late_is_tried_last_until_it_serves() {
    let (mut lineage, text) = (Lineage::default(), String::new);
    let mut plan = plan(settings(&TWO));
    plan.handle_failed(Time::ZERO, Fault::Late, text(), &mut lineage);
    assert_eq!(first_tried(settings(&TWO), &lineage), dial(1, 0));
    // A replica of the client's has a list of its own.
    let mut alone = self::plan(settings(&[Host::Address]));
    alone.handle_connected();
    alone.handle_logged_in(ASKED, &mut lineage).unwrap();
    assert_eq!(first_tried(settings(&TWO), &lineage), dial(1, 0));
    let mut back = Plan::new(Time::ZERO, settings(&TWO), &lineage);
    back.handle_failed(Time::ZERO, Fault::Unreachable, text(), &mut lineage);
    back.handle_connected();
    back.handle_logged_in(PRIMARY, &mut lineage).unwrap();
    assert_eq!(first_tried(settings(&TWO), &lineage), dial(0, 0));
}

#[test]
fn behind_a_former_primary_the_next_host_is_tried() {
    let mut lineage = Lineage::default();
    let mut first = asks_which(settings(&[Host::Address, Host::Address])).unwrap();
    first.handle_identified(primary(2), &mut lineage).unwrap();
    let mut plan = asks_which(settings(&[Host::Address, Host::Address])).unwrap();
    let refused = plan.handle_identified(primary(1), &mut lineage);
    assert_eq!(refused, Err(Refusal::FormerPrimary));
    fail(&mut plan, Fault::Server, "a is a former primary");
    assert_eq!(plan.action(), dial(1, 0));
    plan.handle_connected();
    log_in(&mut plan, ASKED).unwrap();
    plan.handle_identified(primary(2), &mut lineage).unwrap();
    assert_eq!(plan.action(), Action::Done);
}
