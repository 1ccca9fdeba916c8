//! The connect plan, through the exported functions.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use onetrip_abi::Connect;
use onetrip_abi::completion::{close, end, kind, outcome};
use onetrip_abi::export::onetrip_postgres_identify;
use onetrip_abi::export_connect::*;
use onetrip_postgres::client::identity::Lineage;

use crate::host::Host;

struct Connecting(*mut Connect, *mut Lineage);

impl Connecting {
    fn new(settings: &str) -> Connecting {
        let (lineage, len) = (onetrip_lineage_new(), settings.len());
        // SAFETY: the settings are valid for their length, and the lineage lives, here and below.
        let plan = unsafe { onetrip_connect_new(0.0, settings.as_ptr(), len, 1.0, lineage) };
        Connecting(plan, lineage)
    }

    /// The action, the host and the address.
    fn next(&self) -> (u32, usize, usize) {
        // SAFETY: the plan lives, here and below.
        unsafe {
            let (host, address) = (onetrip_connect_host(self.0), onetrip_connect_address(self.0));
            (onetrip_connect_action(self.0), host, address)
        }
    }

    fn happened(&self, what: u32, a: u32) -> bool {
        // SAFETY: as above.
        unsafe { onetrip_connect_happened(self.0, 0.0, what, a) }
    }

    fn logged_in(&self, on: &Host) -> bool {
        // SAFETY: as above, and the connection lives.
        unsafe { onetrip_connect_logged_in(self.0, on.connection, self.1) }
    }

    fn failed(&self, what: u32, text: &str) {
        // SAFETY: as above, and the text is valid for its length.
        unsafe { onetrip_connect_failed(self.0, 0.0, what, text.as_ptr(), text.len(), self.1) }
    }

    fn verdict(&self) -> f64 {
        // SAFETY: as above.
        unsafe { onetrip_connect_verdict(self.0) }
    }

    fn said(&self) -> String {
        // SAFETY: as above; the text is valid until the next call.
        let said = unsafe {
            let len = onetrip_connect_said(self.0);
            std::slice::from_raw_parts(onetrip_connect_text(self.0), len).to_vec()
        };
        String::from_utf8(said).unwrap()
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        // SAFETY: they were made in `new`, and are not used again.
        unsafe {
            onetrip_connect_free(self.0);
            onetrip_lineage_free(self.1);
        }
    }
}

/// A connection to a server that says this of itself at the login, and the server's end of it.
fn logged_in(settings: &[(&str, &str)]) -> (Host, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let message =
        |tag: u8, body: &[u8]| [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    let mut welcome = message(b'R', &[0; 4]);
    for (name, value) in settings {
        welcome.extend(message(b'S', format!("{name}\0{value}\0").as_bytes()));
    }
    welcome.extend(message(b'Z', b"I"));
    server.write_all(&welcome).unwrap();
    let mut host = Host::on(client, "user\0me\0");
    host.wait_for(kind::READY);
    (host, server)
}

/// A server that takes writes on this timeline has been asked which it is, and has answered.
fn identified(connecting: &Connecting, timeline: &str) -> (Host, TcpStream) {
    let (mut host, mut server) =
        logged_in(&[("server_version", "17.2"), ("in_hot_standby", "off")]);
    connecting.happened(event::CONNECTED, 0);
    assert!(connecting.logged_in(&host));
    assert_eq!(connecting.next().0, action::IDENTIFY);
    // SAFETY: the connection lives.
    unsafe { onetrip_postgres_identify(host.connection) };
    let row = ["7", "false", timeline]
        .map(|text| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat());
    let row = [&[0, 3][..], &row.concat()].concat();
    let mut answer = [&b"D"[..], &(row.len() as u32 + 4).to_be_bytes(), &row].concat();
    answer.extend(*b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I");
    server.write_all(&answer).unwrap();
    host.wait_for(kind::IDENTIFIED);
    (host, server)
}

#[test]
fn a_former_primary_is_refused_and_an_open_connection_to_it_ends() {
    let settings = "hosts\0aa\0sslmode\0disable\0";
    let plans = [(); 3].map(|()| Connecting::new(settings));
    let lineage = onetrip_lineage_new();
    let (mut former, mut its_server) = identified(&plans[0], "1");
    let (next, _next_server) = identified(&plans[1], "2");
    let (late, _late_server) = identified(&plans[2], "1");
    let is_used = |at: usize, host: &Host| {
        // SAFETY: all of them live.
        unsafe { onetrip_connect_identified(plans[at].0, host.connection, lineage) }
    };
    assert!(is_used(0, &former));
    // Its request is on the way when the next primary is met.
    let token = former.submit(0, "select 1", "", &[]);
    former.write();
    assert!(its_server.read(&mut [0; 4096]).unwrap() > 0);

    assert!(is_used(1, &next));
    assert!(!is_used(2, &late));
    assert!(plans[2].said().starts_with("former_primary\0 is a former primary"));
    for host in [&former, &next] {
        // SAFETY: as above.
        unsafe { onetrip_lineage_compare(lineage, host.connection) };
    }
    let closed = former.wait_for(kind::CLOSED);
    assert_eq!(closed.a, close::REFUSED);
    let answer = former.answer(token);
    assert_eq!((answer.end, answer.outcome), (end::CLOSED, outcome::UNKNOWN));
    // SAFETY: it is not used again.
    unsafe { onetrip_lineage_free(lineage) };
}

#[test]
fn a_plan_leads_from_a_name_to_a_login_by_tls() {
    let connecting = Connecting::new("hosts\0sn\0sslmode\0require\0connect_timeout_ms\x002000\0");
    assert_eq!(connecting.next(), (action::DIAL, 0, 0));
    // SAFETY: the plan lives.
    assert_eq!(unsafe { onetrip_connect_until(connecting.0) }, 2000.0);
    connecting.failed(fault::UNREACHABLE, "no socket");
    assert_eq!(connecting.next(), (action::RESOLVE, 1, 0));
    connecting.happened(event::RESOLVED, 2);
    connecting.failed(fault::LATE, "nobody");
    assert_eq!(connecting.next(), (action::DIAL, 1, 1));
    connecting.happened(event::CONNECTED, 0);
    assert_eq!(connecting.next().0, action::ASK_FOR_TLS);
    assert!(connecting.happened(event::ANSWERED, b'S'.into()));
    assert_eq!(connecting.next().0, action::BEGIN_TLS);
    connecting.happened(event::SECURED, 0);
    assert_eq!(connecting.next().0, action::LOG_IN);
    assert!(connecting.logged_in(&logged_in(&[]).0));
    assert_eq!((connecting.next().0, connecting.verdict()), (action::DONE, -1.0));
}

#[test]
fn what_is_refused_and_what_is_said_in_the_end_come_out_as_texts() {
    let connecting = Connecting::new("hosts\0aa\0sslmode\0require\0");
    connecting.happened(event::CONNECTED, 0);
    assert!(!connecting.happened(event::ANSWERED, u32::from(b'S') | event::EARLY));
    assert!(
        connecting.said().starts_with("tls_failed\0: something was sent"),
        "{}",
        connecting.said()
    );
    connecting.failed(fault::SERVER, "first");
    connecting.failed(fault::LOG_IN, "57P03starting");
    assert_eq!((connecting.next().0, connecting.verdict()), (action::FAILED, 3.0));
    assert_eq!(connecting.said(), "first; starting");
}

#[test]
fn the_login_that_all_servers_would_refuse_is_the_last() {
    let connecting =
        Connecting::new("hosts\0aa\0sslmode\0disable\0target_session_attrs\0primary\0");
    connecting.happened(event::CONNECTED, 0);
    // The server is a standby, and its sessions may write by default.
    let said = [("in_hot_standby", "on"), ("default_transaction_read_only", "off")];
    assert!(!connecting.logged_in(&logged_in(&said).0));
    assert!(
        connecting.said().starts_with("target_session_attrs\0 is not"),
        "{}",
        connecting.said()
    );
    connecting.failed(fault::SERVER, "a standby");
    connecting.failed(fault::LOG_IN, "28P01wrong password");
    assert_eq!((connecting.verdict(), connecting.said().as_str()), (2.0, "wrong password"));
}

#[test]
fn settings_that_are_none_make_no_plan_and_nonsense_does_no_harm() {
    for settings in ["hosts\0x\0", "hosts\0a", "sslmode\0maybe\0", "nonsense\x001\0", "scouts\0\0"]
    {
        assert!(Connecting::new(settings).0.is_null(), "{settings:?}");
    }
    let connecting = Connecting::new("");
    assert_eq!((connecting.next().0, connecting.verdict()), (action::FAILED, -1.0));
    let connecting = Connecting::new("hosts\0n\0");
    assert!(connecting.happened(99, 7));
    connecting.happened(event::RESOLVED, u32::MAX);
    connecting.failed(99, "\u{e9}\u{e9}\u{e9}");
    connecting.failed(fault::LOG_IN, "28");
    assert_eq!((connecting.verdict(), connecting.said()), (0.0, "\u{e9}\u{e9}\u{e9}".to_owned()));
}
