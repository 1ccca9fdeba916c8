//! What is unwritten waits for the next reply, and when it does not.

use std::time::Duration;

use onetrip_engine::{Limits, Pace, Request, SyncPoint};

use crate::toy::pair::Pair;
use crate::toy::{complete, settled};

/// The server has this many requests, and answers fast.
struct Busy(Pair, Pace);

impl Busy {
    fn with(requests: u32) -> Busy {
        let pair = Pair::new(Limits { untaken_bytes_max: 10, ..Limits::default() });
        let mut busy = Busy(pair, Pace::default());
        (2..requests + 2).for_each(|id| busy.submit(id, "o"));
        busy.write();
        busy.0.client.handle_time(busy.0.now);
        busy
    }

    /// After one whose reply came a moment before the next.
    fn fast(requests: u32) -> Busy {
        let mut busy = Busy::with(requests + 2);
        busy.answer(2, Duration::from_micros(1_000));
        busy.answer(3, Duration::from_micros(50));
        busy
    }

    fn submit(&mut self, id: u32, script: &str) {
        self.0.own(id, script);
        self.1.submitted(self.0.now);
    }

    fn write(&mut self) {
        self.1.written();
        self.0.lose();
    }

    fn answer(&mut self, id: u32, after: Duration) {
        self.0.later(after);
        self.1.replied(self.0.now);
        self.0.reply(&[complete(id), settled(id)].concat());
    }

    fn holds(&self) -> bool {
        self.1.holds(self.0.now, &self.0.client)
    }
}

#[test]
fn up_to_a_quarter_of_what_the_server_has_waits_for_the_next_reply() {
    let mut busy = Busy::fast(40);
    for id in 100..109 {
        busy.submit(id, "o");
        assert!(busy.holds(), "{id}");
    }
    busy.submit(109, "o");
    assert!(!busy.holds());
    busy.write();
    busy.submit(110, "o");
    assert!(busy.holds());
}

#[test]
fn nothing_waits_where_the_server_has_little_to_do_or_answers_slowly() {
    let mut few = Busy::fast(15);
    few.submit(100, "o");
    assert!(!few.holds());
    let mut slow = Busy::fast(40);
    slow.answer(4, Duration::from_micros(100));
    slow.submit(100, "o");
    assert!(!slow.holds());
}

#[test]
fn a_request_waits_for_half_a_millisecond_and_four_kibibytes_do_not() {
    let mut busy = Busy::fast(40);
    busy.submit(100, "o");
    for (id, holds) in (4..14).zip([true, true, true, true, true, true, false]) {
        busy.answer(id, Duration::from_micros(80));
        assert_eq!(busy.holds(), holds, "{id}");
    }
    let mut large = Busy::fast(40);
    large.submit(100, &"p".repeat(4 << 10));
    assert!(!large.holds());
}

#[test]
fn nothing_waits_behind_what_the_socket_did_not_take() {
    let mut busy = Busy::fast(40);
    busy.submit(100, "o");
    busy.1.interrupted();
    assert!(!busy.holds());
    busy.write();
    busy.submit(101, "o");
    assert!(busy.holds());
}

#[test]
fn nothing_waits_where_no_reply_may_come_before_it() {
    let mut member = Busy::fast(40);
    member.0.member(100, "o");
    assert!(!member.holds(), "the server keeps its reply until there is a sync point");
    let mut unread = Busy::fast(40);
    let request = Request { metered: true, ..unread.0.request(100, SyncPoint::Own) };
    unread.0.submit(request, "o").unwrap();
    unread.write();
    (4..44).for_each(|id| unread.answer(id, Duration::from_micros(1)));
    (200..240).for_each(|id| unread.submit(id, "o"));
    unread.write();
    unread.submit(300, "o");
    assert!(unread.holds());
    unread.answer(100, Duration::from_micros(1));
    assert!(!unread.0.client.wants_bytes());
    assert!(!unread.holds(), "nobody takes what came");
}
