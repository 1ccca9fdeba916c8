//! Clients with TLS: ended by the relay in front, or passed on as it is.

use super::super::{Mode, TlsArgs};
use super::support::{IS_ENCRYPTED, database, newest};

#[test]
fn with_the_servers_own_certificate_a_login_is_bound_to_it() {
    for database in [database(), newest()].into_iter().flatten() {
        let args = database.certificates.args(Mode::VerifyFull, Some("server"));
        let profiled = database.profiled(&args);
        let settings = "sslmode=verify-full channel_binding=require";
        let said = database.psql(profiled.port(), settings, IS_ENCRYPTED);
        assert_eq!(said.as_deref(), Ok("t"));
        assert_eq!(profiled.notes(), [""; 0]);
        let profile = profiled.end();
        assert_eq!((profile.connections, profile.opaque.len()), (1, 0), "{profile:?}");
    }
}

#[test]
fn with_another_certificate_a_login_needs_to_be_unbound() {
    let Some(database) = database() else { return };
    let profiled = database.profiled(&database.certificates.args(Mode::VerifyFull, Some("mine")));
    let log_in = |binding: &str| {
        let settings = format!("sslmode=verify-full channel_binding={binding}");
        database.psql(profiled.port(), &settings, IS_ENCRYPTED)
    };
    for binding in ["prefer", "require"] {
        let error = log_in(binding).unwrap_err();
        assert!(error.contains("SCRAM channel binding check failed"), "{binding}: {error}");
    }
    assert_eq!(log_in("disable").as_deref(), Ok("t"));
    let [note] = &profiled.notes()[..] else { panic!("{:?}", profiled.notes()) };
    assert!(note.contains("channel_binding=disable"), "{note}");
}

/// The table of docs/operations/profile-tls.md: the certificate for clients, whether the server's
/// connection is encrypted, and which of disable, prefer and require works.
const BINDING: [(Option<&str>, Mode, [bool; 3]); 5] = [
    (None, Mode::Off, [true, true, false]),
    (None, Mode::VerifyFull, [true, true, false]),
    (Some("server"), Mode::VerifyFull, [true, true, true]),
    (Some("mine"), Mode::VerifyFull, [true, false, false]),
    (Some("mine"), Mode::Off, [true, true, false]),
];

#[test]
fn logins_are_bound_where_the_page_says_so() {
    for database in [database(), newest()].into_iter().flatten() {
        for (identity, mode, works) in BINDING {
            let profiled = database.profiled(&database.certificates.args(mode, identity));
            let ssl = if identity.is_some() { "verify-full" } else { "prefer" };
            for (binding, works) in ["disable", "prefer", "require"].into_iter().zip(works) {
                let settings = format!("user=postgres sslmode={ssl} channel_binding={binding}");
                let said = database.psql(profiled.port(), &settings, "select 1");
                assert_eq!(said.is_ok(), works, "{identity:?} {mode:?} {binding}: {said:?}");
            }
        }
    }
}

#[test]
fn with_a_certificate_no_client_gets_in_without_tls() {
    let Some(database) = database() else { return };
    let profiled = database.profiled(&database.certificates.args(Mode::VerifyFull, Some("server")));
    let error = database.psql(profiled.port(), "sslmode=disable", "select 1").unwrap_err();
    assert!(error.contains("onetrip profile: only TLS is accepted here"), "{error}");
}

#[test]
fn what_passes_encrypted_is_counted_and_not_read() {
    let Some(database) = database() else { return };
    let profiled = database.profiled(&TlsArgs { tls: Mode::Pass, ..TlsArgs::default() });
    let settings = "sslmode=verify-full channel_binding=require";
    assert_eq!(database.psql(profiled.port(), settings, IS_ENCRYPTED).as_deref(), Ok("t"));
    let profile = profiled.end();
    assert_eq!(profile.opaque, [("encrypted".to_owned(), 1)]);
    // The question for TLS, its handshake, and the four of a login and a query.
    assert!((4.0..9.0).contains(&profile.trips.now), "{:?}", profile.trips);
}
