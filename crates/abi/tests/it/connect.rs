//! The plan of how a client comes to a server, across the boundary.

use onetrip_abi::Connect;
use onetrip_abi::export_connect::*;

struct Course(*mut Connect);

impl Course {
    fn new(settings: &str) -> Course {
        // SAFETY: the settings are valid for their length.
        Course(unsafe { onetrip_connect_new(0.0, settings.as_ptr(), settings.len(), 1.0) })
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

impl Drop for Course {
    fn drop(&mut self) {
        // SAFETY: it was made by `onetrip_connect_new`, and is not used again.
        unsafe { onetrip_connect_free(self.0) }
    }
}

#[test]
fn a_plan_leads_from_a_name_to_a_login_by_tls() {
    let course = Course::new("hosts\0sn\0sslmode\0require\0connect_timeout_ms\x002000\0");
    assert_eq!(course.next(), (action::DIAL, 0, 0));
    // SAFETY: the plan lives.
    assert_eq!(unsafe { onetrip_connect_until(course.0) }, 2000.0);
    course.failed(fault::UNREACHABLE, "no socket");
    assert_eq!(course.next(), (action::RESOLVE, 1, 0));
    course.happened(event::RESOLVED, 2);
    course.failed(fault::UNREACHABLE, "nobody");
    assert_eq!(course.next(), (action::DIAL, 1, 1));
    course.happened(event::CONNECTED, 0);
    assert_eq!(course.next().0, action::ASK_FOR_TLS);
    assert!(course.happened(event::ANSWERED, b'S'.into()));
    assert_eq!(course.next().0, action::BEGIN_TLS);
    course.happened(event::SECURED, 0);
    assert_eq!(course.next().0, action::LOG_IN);
    assert!(course.happened(event::LOGGED_IN, 0));
    assert_eq!((course.next().0, course.verdict()), (action::DONE, -1.0));
}

#[test]
fn what_is_refused_and_what_is_said_in_the_end_come_out_as_texts() {
    let course = Course::new("hosts\0aa\0sslmode\0require\0");
    course.happened(event::CONNECTED, 0);
    assert!(!course.happened(event::ANSWERED, u32::from(b'S') | event::EARLY));
    assert!(course.said().starts_with("tls_failed\0: something was sent"), "{}", course.said());
    course.failed(fault::SERVER, "first");
    course.failed(fault::LOG_IN, "57P03starting");
    assert_eq!((course.next().0, course.verdict()), (action::FAILED, 3.0));
    assert_eq!(course.said(), "first; starting");
}

#[test]
fn the_login_that_all_servers_would_refuse_is_the_last() {
    let course = Course::new("hosts\0aa\0sslmode\0disable\0target_session_attrs\0primary\0");
    course.happened(event::CONNECTED, 0);
    // It is a standby, and its sessions may write by default.
    assert!(!course.happened(event::LOGGED_IN, 2 | 1 << 2));
    assert!(course.said().starts_with("target_session_attrs\0 is not"), "{}", course.said());
    course.failed(fault::SERVER, "a standby");
    course.failed(fault::LOG_IN, "28P01wrong password");
    assert_eq!((course.verdict(), course.said().as_str()), (2.0, "wrong password"));
}

#[test]
fn settings_that_are_none_make_no_plan_and_nonsense_does_no_harm() {
    for settings in ["hosts\0x\0", "hosts\0a", "sslmode\0maybe\0", "nonsense\x001\0", "user\0me\0"]
    {
        assert!(Course::new(settings).0.is_null(), "{settings:?}");
    }
    let course = Course::new("");
    assert_eq!((course.next().0, course.verdict()), (action::FAILED, -1.0));
    let course = Course::new("hosts\0n\0");
    assert!(course.happened(99, 7));
    course.happened(event::RESOLVED, u32::MAX);
    course.failed(99, "\u{e9}\u{e9}\u{e9}");
    course.failed(fault::LOG_IN, "28");
    assert_eq!((course.verdict(), course.said()), (0.0, "\u{e9}\u{e9}\u{e9}".to_owned()));
}
