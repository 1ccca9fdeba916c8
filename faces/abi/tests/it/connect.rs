//! The connect plan, through the exported functions.

use onetrip_abi::Connect;
use onetrip_abi::export_connect::*;

struct Connecting(*mut Connect);

impl Connecting {
    fn new(settings: &str) -> Connecting {
        // SAFETY: the settings are valid for their length.
        Connecting(unsafe { onetrip_connect_new(0.0, settings.as_ptr(), settings.len(), 1.0) })
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

    fn failed(&self, what: u32, text: &str) {
        // SAFETY: as above, and the text is valid for its length.
        unsafe { onetrip_connect_failed(self.0, 0.0, what, text.as_ptr(), text.len()) }
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
        // SAFETY: it was made by `onetrip_connect_new`, and is not used again.
        unsafe { onetrip_connect_free(self.0) }
    }
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
    connecting.failed(fault::UNREACHABLE, "nobody");
    assert_eq!(connecting.next(), (action::DIAL, 1, 1));
    connecting.happened(event::CONNECTED, 0);
    assert_eq!(connecting.next().0, action::ASK_FOR_TLS);
    assert!(connecting.happened(event::ANSWERED, b'S'.into()));
    assert_eq!(connecting.next().0, action::BEGIN_TLS);
    connecting.happened(event::SECURED, 0);
    assert_eq!(connecting.next().0, action::LOG_IN);
    assert!(connecting.happened(event::LOGGED_IN, 0));
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
    assert!(!connecting.happened(event::LOGGED_IN, 2 | 1 << 2));
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
    for settings in ["hosts\0x\0", "hosts\0a", "sslmode\0maybe\0", "nonsense\x001\0", "user\0me\0"]
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
