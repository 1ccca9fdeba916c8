//! Connections that are logged in already: what they spare, whom they serve, and what is left on
//! them.

use onetrip_lab::postgres::{Options, PrivatePostgres, shared};
use onetrip_lab::proxy::{Proxy, ProxyConfig};

use super::{Sidecar, WRITE, numbers, params, pdo};
use crate::database::{run, wait_for_session};
use crate::wire::Wire;

/// A sidecar that knows the password of the server's user.
fn warm(port: u16) -> Sidecar {
    let (user, password) = (shared().user(), shared().password());
    Sidecar::to(&format!("postgres://{user}:{password}@127.0.0.1:{port}/"), &["--warm", "4"])
}

fn log_in(sidecar: &Sidecar, database: &str) -> Wire {
    Wire::log_in(shared(), &sidecar.addr, database)
}

fn pid(wire: &mut Wire) -> String {
    wire.query("select pg_backend_pid()").swap_remove(1)
}

#[test]
fn a_login_costs_no_trip_and_a_reset_one_that_nobody_waits_for() {
    let upstream = std::net::SocketAddr::from(([127, 0, 0, 1], shared().port()));
    let proxy = Proxy::start(ProxyConfig::new(upstream)).unwrap();
    let sidecar = warm(proxy.addr().port());
    let database = numbers();
    log_in(&sidecar, &database).terminate();
    // Whoever comes while a connection is reset waits for that.
    log_in(&sidecar, &database).terminate();
    let mut wire = log_in(&sidecar, &database);
    let before = proxy.stats().trips;
    for message in pdo() {
        let heard = wire.say(&message, 1);
        assert!(heard.iter().all(|it| !it.starts_with('E')), "{heard:?}");
    }
    wire.terminate();
    let wire = log_in(&sidecar, &database);
    assert_eq!(proxy.stats().trips - before, 7);
    assert_eq!(proxy.stats().connections, 1);
    drop(wire);
}

/// What programs leave, and whether the connection may go on.
const LEFT: [&[&str]; 11] = [
    &["set timezone = 'Asia/Tokyo'", "set application_name = 'left'", "set search_path = nowhere"],
    &["prepare left_here as select 1", "listen left_here"],
    &["begin", "update number set v = 1", "declare c cursor for select 1"],
    &["begin", "select nothing"],
    &["begin"],
    &["create temp table left_here (a int)", "select pg_advisory_lock(7)"],
    &["begin", "declare c cursor with hold for select 1", "commit"],
    &["set statement_timeout = '1h'", "set default_transaction_read_only = on"],
    &["set session characteristics as transaction isolation level serializable"],
    &["set client_encoding = 'latin1'", "set role pg_monitor"],
    &["select setval('pg_temp.s', 5) from (select 1) x", "set session authorization pg_monitor"],
];

/// What a program can see of its session.
const SEEN: &str = "select (select string_agg(name || '=' || setting, ' ' order by name) \
     from pg_settings where name not in ('application_name')), current_user, session_user, \
     current_setting('role'), (select count(*) from pg_prepared_statements), \
     (select count(*) from pg_cursors), (select count(*) from pg_listening_channels()), \
     (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()), \
     to_regclass('pg_temp.left_here'), (select sum(v) from number)";

#[test]
fn nothing_of_a_program_is_left_for_the_next() {
    let sidecar = warm(shared().port());
    let database = numbers();
    let mut direct = Wire::log_in(shared(), &super::server(), &database);
    let fresh = direct.query(SEEN);
    let mut first = log_in(&sidecar, &database);
    let of = pid(&mut first);
    first.terminate();
    for left in LEFT {
        let mut wire = log_in(&sidecar, &database);
        for sql in left {
            wire.query(sql);
        }
        wire.terminate();
        let mut next = log_in(&sidecar, &database);
        assert_eq!(next.ready.parameters, direct.ready.parameters, "{left:?}");
        assert_eq!(next.query(SEEN), fresh, "{left:?}");
        assert_eq!(pid(&mut next), of, "{left:?}");
        // The other way to leave.
        drop(next);
    }
}

/// What no reset undoes.
const MARKS: [&str; 4] = [
    "set app.tenant = '1'",
    "select set_config('app.tenant', '1', false)",
    "select setseed(0.25)",
    "load 'plpgsql'",
];

#[test]
fn a_connection_on_which_a_text_named_what_no_reset_undoes_serves_nobody_else() {
    let sidecar = warm(shared().port());
    let database = numbers();
    for sql in MARKS {
        for extended in [false, true] {
            let mut first = log_in(&sidecar, &database);
            let of = pid(&mut first);
            if extended {
                let body = format!("\0{sql}\0\0\0");
                let mut says = vec![b'P'];
                says.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
                says.extend_from_slice(body.as_bytes());
                says.extend_from_slice(
                    b"B\0\0\0\x0c\0\0\0\0\0\0\0\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04",
                );
                first.say(&says, 1);
            } else {
                first.query(sql);
            }
            first.terminate();
            let mut next = log_in(&sidecar, &database);
            assert_ne!(pid(&mut next), of, "{sql}");
            let seen = next.query("select current_setting('app.tenant', true) is null");
            assert!(seen.contains(&"D t".to_owned()), "{sql}: {seen:?}");
            next.terminate();
        }
    }
}

/// How a program leaves.
type Leave = fn(Wire, &Sidecar, &str);

#[test]
fn what_is_not_proven_serves_nobody_else() {
    let sidecar = warm(shared().port());
    let database = numbers();
    let url = shared().database_url(&database);
    let leave: [(&str, Leave); 4] = [
        ("busy", |mut wire, _, _| {
            wire.begin_query("select pg_sleep(1)");
            wire.terminate();
        }),
        ("cut off in a message", |mut wire, _, _| {
            // So long that it passes in parts.
            wire.say(b"Q\0\0\x7f\xffselect", 0);
        }),
        ("cancelled", |mut wire, sidecar, url| {
            wire.begin_query("select pg_sleep(3600)");
            wait_for_session(url, &format!("pid = {} and {}", wire.ready.process_id, SLEEPS));
            wire.cancel(&sidecar.addr);
            wire.hear(1);
            wire.terminate();
        }),
        ("killed while it waits", |wire, _, url| {
            let pid = wire.ready.process_id;
            wire.terminate();
            wait_for_session(url, &format!("pid = {pid} and query like '%current_setting%'"));
            run(url, &format!("select pg_terminate_backend({pid}, 60000)"));
        }),
    ];
    for (name, leave) in leave {
        let mut wire = log_in(&sidecar, &database);
        let of = pid(&mut wire);
        leave(wire, &sidecar, &url);
        assert_ne!(pid(&mut log_in(&sidecar, &database)), of, "{name}");
    }
}

const SLEEPS: &str = "query like 'select pg_sleep(3600)%' and state = 'active'";

#[test]
fn what_the_server_gives_to_new_logins_only_is_met_at_the_next_one() {
    let server = PrivatePostgres::start(Options::default()).unwrap();
    let url = server.url();
    let (user, password, port) = (server.user(), server.password(), server.port());
    let to = format!("postgres://{user}:{password}@127.0.0.1:{port}/");
    let sidecar = Sidecar::to(&to, &["--warm", "4"]);
    let log_in = || Wire::log_in(&server, &sidecar.addr, "postgres");
    let mut wire = log_in();
    let of = pid(&mut wire);
    let style = |wire: &Wire| {
        let style = wire.ready.parameters.iter().find(|(name, _)| name == "DateStyle");
        style.unwrap().1.clone()
    };
    assert_eq!(style(&wire), "ISO, MDY");
    run(&url, "alter system set datestyle = 'German'");
    run(&url, "select pg_reload_conf()");
    let start = std::time::Instant::now();
    while wire.query("show datestyle")[1] == "D ISO, MDY" {
        assert!(start.elapsed() < std::time::Duration::from_secs(600));
    }
    wire.terminate();
    // Its login was another one than a new one is now.
    let mut next = log_in();
    assert!(style(&next).starts_with("German"));
    assert_ne!(pid(&mut next), of);
}

#[test]
fn a_role_that_comes_with_the_login_is_there_each_time() {
    let database = numbers();
    let url = shared().database_url(&database);
    let (one, other) = (shared().new_name(), shared().new_name());
    run(&url, &format!("create role {other}"));
    run(&url, &format!("create role {one} login password 'secret' in role {other}"));
    run(&url, &format!("alter role {one} set role = {other}"));
    let files = tempfile::tempdir().unwrap();
    let passfile = files.path().join("passwords");
    write_private(&passfile, &format!("*:*:*:{one}:secret\n"));
    let to = format!("host=127.0.0.1 port={} passfile={}", shared().port(), passfile.display());
    let sidecar = Sidecar::to(&to, &["--warm", "4"]);
    for _ in 0..3 {
        let mut wire = Wire::as_user(&one, "secret", &sidecar.addr, &database).unwrap();
        assert_eq!(wire.query("select current_user")[1], format!("D {other}"));
        wire.query("reset role");
        wire.terminate();
    }
}

fn write_private(path: &std::path::Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_connection_serves_only_who_knows_its_password_and_wants_the_same_session() {
    let database = numbers();
    let url = shared().database_url(&database);
    let [one, other, unknown] = [(); 3].map(|()| shared().new_name());
    for role in [&one, &other, &unknown] {
        run(&url, &format!("create role {role} login password 'of {role}'"));
    }
    let files = tempfile::tempdir().unwrap();
    let passfile = files.path().join("passwords");
    write_private(&passfile, &format!("*:*:*:{one}:of {one}\n*:*:*:{other}:of {other}\n"));
    let to = format!("host=127.0.0.1 port={} passfile={}", shared().port(), passfile.display());
    let sidecar = Sidecar::to(&to, &["--warm", "4"]);
    let log_in = |user: &str, password: &str, database: &str| {
        Wire::as_user(user, password, &sidecar.addr, database)
    };
    let of_one = format!("of {one}");
    let mut first = log_in(&one, &of_one, &database).unwrap();
    let of = pid(&mut first);
    first.terminate();
    for (user, password) in [(&one, "wrong"), (&one, ""), (&other, &of_one), (&unknown, "wrong")] {
        let Err(error) = log_in(user, password, &database) else { panic!("{user} {password}") };
        assert!(error.contains("password") && !error.contains("of one"), "{error}");
    }
    for (user, database) in [(&other, &*database), (&one, "postgres"), (&unknown, &database)] {
        let mut wire = log_in(user, &format!("of {user}"), database).unwrap();
        assert_eq!(wire.query("select session_user")[1], format!("D {user}"));
        assert_ne!(pid(&mut wire), of);
        wire.terminate();
    }
    assert_eq!(pid(&mut log_in(&one, &of_one, &database).unwrap()), of);
    // Whoever knows the old password has no claim to a connection of the new one, and vice versa.
    run(&url, &format!("alter role {one} password 'new'"));
    write_private(&passfile, &format!("*:*:*:{one}:new\n"));
    assert!(log_in(&one, &of_one, &database).is_err());
    assert_ne!(pid(&mut log_in(&one, "new", &database).unwrap()), of);
    // The server refuses in its own words.
    let Err(error) = log_in(&one, "new", "no such database") else { panic!() };
    assert!(error.contains("3D000") && !error.contains("onetrip"), "{error}");
    drop(sidecar);
}

#[test]
fn the_key_of_who_was_there_before_cancels_nothing() {
    let sidecar = warm(shared().port());
    let database = numbers();
    let url = shared().database_url(&database);
    let mut before = log_in(&sidecar, &database);
    let of = pid(&mut before);
    let key = before.ready.clone();
    before.terminate();
    let mut now = log_in(&sidecar, &database);
    assert_eq!(pid(&mut now), of);
    assert_eq!(now.say(&params(WRITE, &["1"]), 1).last().unwrap(), "Z Idle");
    now.begin_query("select pg_sleep(3600)");
    wait_for_session(&url, &format!("pid = {} and {SLEEPS}", now.ready.process_id));
    let its = std::mem::replace(&mut now.ready, key);
    now.cancel(&sidecar.addr);
    wait_for_session(&url, &format!("pid = {} and {SLEEPS}", its.process_id));
    now.ready = its;
    now.cancel(&sidecar.addr);
    assert!(now.hear(1).iter().any(|it| it.starts_with("E 57014")));
}
