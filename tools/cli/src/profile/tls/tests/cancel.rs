//! Requests to cancel, through all that stands between.

use std::process::Stdio;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::super::Mode;
use super::support::{Database, PATIENCE, database, newest};

/// Interrupts psql in a statement that would not end; what it says then.
fn interrupted(database: &Database, port: u16, settings: &str, name: &str) -> String {
    let settings = format!("{settings} application_name={name}");
    let mut psql = database.psql_command(port, &settings, "select pg_sleep(3600)");
    let child = psql.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let sql = format!(
        "select count(*) from pg_stat_activity where application_name = '{name}' \
         and wait_event = 'PgSleep'"
    );
    let begin = Instant::now();
    let direct = database.postgres.port();
    while database.psql(direct, "user=postgres", &sql).as_deref() != Ok("1") {
        assert!(begin.elapsed() < PATIENCE, "psql does not run its statement");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap()
}

#[test]
fn a_cancel_reaches_the_server_through_all_relays() {
    for (database, version) in [(database(), 0), (newest(), 1)] {
        let Some(database) = database else { continue };
        for (identity, settings) in
            [(None, ""), (Some("server"), "sslmode=verify-full channel_binding=require")]
        {
            let profiled =
                database.profiled(&database.certificates.args(Mode::VerifyFull, identity));
            let name = format!("{identity:?}").replace(['(', ')', '"'], "");
            let mut settings = vec![settings.to_owned()];
            if version == 1 {
                // Keys of cancels are longer there.
                settings.push(format!("{} max_protocol_version=3.2", settings[0]));
            }
            let cancels = settings.len() as u64;
            for settings in settings {
                let said = interrupted(database, profiled.port(), &settings, &name);
                assert!(said.contains("canceling statement due to user request"), "{said}");
            }
            let profile = profiled.end();
            // The requests to cancel are no connections of the program.
            assert_eq!((profile.connections, profile.opaque.len()), (cancels, 0), "{profile:?}");
        }
    }
}
