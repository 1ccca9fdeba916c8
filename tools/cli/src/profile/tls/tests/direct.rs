//! TLS that begins without asking, and a newer version of the protocol.

use super::super::{Mode, TlsArgs};
use super::support::{HOST, IS_ENCRYPTED, Profiled, newest};

const DIRECT: &str = "sslmode=verify-full sslnegotiation=direct";

#[test]
fn a_client_may_begin_tls_at_once_with_the_relay() {
    let Some(database) = newest() else { return };
    let profiled = database.profiled(&database.certificates.args(Mode::VerifyFull, Some("server")));
    let settings = format!("{DIRECT} channel_binding=require");
    assert_eq!(database.psql(profiled.port(), &settings, IS_ENCRYPTED).as_deref(), Ok("t"));
    assert_eq!(profiled.end().opaque.len(), 0);
}

#[test]
fn the_relay_may_begin_tls_at_once_with_the_server() {
    let Some(database) = newest() else { return };
    let root = database.certificates.path("root.crt");
    let port = database.postgres.port();
    let to = format!(
        "postgres://{HOST}:{port}/?{}&sslrootcert={}",
        DIRECT.replace(' ', "&"),
        root.display()
    );
    let profiled = Profiled::to(&to, &TlsArgs::default());
    assert_eq!(database.psql(profiled.port(), "", IS_ENCRYPTED).as_deref(), Ok("t"));
    assert_eq!(profiled.end().opaque.len(), 0);
}

#[test]
fn tls_that_begins_at_once_passes_where_no_certificate_is_given() {
    let Some(database) = newest() else { return };
    for mode in [Mode::VerifyFull, Mode::Off, Mode::Pass] {
        let profiled = database.profiled(&database.certificates.args(mode, None));
        let settings = format!("{DIRECT} channel_binding=require");
        let said = database.psql(profiled.port(), &settings, IS_ENCRYPTED);
        assert_eq!(said.as_deref(), Ok("t"), "{mode:?}");
        let profile = profiled.end();
        assert_eq!(profile.opaque, [("encrypted".to_owned(), 1)], "{mode:?}: {profile:?}");
        assert!((3.0..9.0).contains(&profile.trips.now), "{mode:?}: {:?}", profile.trips);
    }
}

#[test]
fn newer_versions_of_the_protocol_are_agreed_on_by_client_and_server() {
    let Some(database) = newest() else { return };
    let profiled = database.profiled(&database.certificates.args(Mode::VerifyFull, None));
    for version in ["3.0", "3.2", "latest"] {
        let settings = format!("max_protocol_version={version}");
        assert_eq!(database.psql(profiled.port(), &settings, "select 1").as_deref(), Ok("1"));
    }
    let profile = profiled.end();
    assert_eq!((profile.connections, profile.opaque.len()), (3, 0), "{profile:?}");
}
