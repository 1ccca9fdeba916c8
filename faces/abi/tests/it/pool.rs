//! The policy of a pool, over connections that the test opens.

use std::collections::HashMap;

use onetrip_abi::Pool;
use onetrip_abi::completion::{close, kind, pool_cause};
use onetrip_abi::export_pool::*;

use crate::host::Host;

/// A pool whose time the test sets, and its connections.
struct Pooled {
    pool: *mut Pool,
    now: f64,
    hosts: HashMap<u32, Host>,
    /// Kind, token and number of the completions that the test has not asked for yet.
    said: Vec<(u32, u32, u32)>,
    texts: Vec<Vec<u8>>,
}

impl Pooled {
    fn new(settings: &str) -> Pooled {
        // SAFETY: the settings are valid for their length.
        let pool = unsafe { onetrip_pool_new(0.0, settings.as_ptr(), settings.len(), 7.0) };
        Pooled { pool, now: 0.0, hosts: HashMap::new(), said: Vec::new(), texts: Vec::new() }
    }

    fn checkout(&mut self, token: u32) {
        // SAFETY: the pool lives.
        assert!(unsafe { onetrip_pool_checkout(self.pool, self.now, token, -1.0) });
        self.listen();
    }

    /// Opens the connections that the pool asks for, and returns its other completions.
    fn next(&mut self) -> Option<(u32, u32, u32)> {
        self.listen();
        while let Some(at) = self.said.iter().position(|it| it.0 == kind::POOL_OPEN) {
            let (_, _, number) = self.said.remove(at);
            let host = Host::connect("");
            // SAFETY: the pool lives, and the connection lives until it is taken out.
            unsafe { onetrip_pool_opened(self.pool, self.now, number, host.connection) };
            self.hosts.insert(number, host);
            self.listen();
        }
        (!self.said.is_empty()).then(|| self.said.remove(0))
    }

    fn listen(&mut self) {
        // SAFETY: the pool lives; completions are valid until the next take.
        unsafe {
            let count = onetrip_pool_take(self.pool);
            for at in 0..count {
                let it = *onetrip_pool_completions(self.pool).add(at);
                self.said.push((it.kind, it.token, it.a));
                if it.len > 0 {
                    self.texts.push(std::slice::from_raw_parts(it.block, it.len).to_vec());
                }
            }
        }
    }

    fn release(&mut self, number: u32, condition: u32) {
        // SAFETY: the pool lives.
        unsafe { onetrip_pool_release(self.pool, self.now, number, condition) };
    }

    fn acted(&mut self) {
        // SAFETY: the pool lives.
        unsafe { onetrip_pool_acted(self.pool, self.now) };
    }

    fn place(&mut self) -> u32 {
        // SAFETY: the pool lives.
        let number = unsafe { onetrip_pool_place(self.pool, self.now, 0) };
        self.listen();
        number
    }

    fn time(&mut self, now: f64) {
        self.now = now;
        // SAFETY: the pool lives.
        unsafe { onetrip_pool_time(self.pool, now) };
    }

    /// Connections, idle ones, callers that wait.
    fn counts(&self) -> [usize; 3] {
        // SAFETY: the pool lives.
        unsafe {
            [
                onetrip_pool_connections(self.pool),
                onetrip_pool_idle(self.pool),
                onetrip_pool_waiting(self.pool),
            ]
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        // SAFETY: the pool is not used after this; its connections are freed after it.
        unsafe { onetrip_pool_free(self.pool) }
    }
}

#[test]
fn a_caller_gets_a_connection_that_is_opened_for_it() {
    let mut pooled = Pooled::new("");
    pooled.checkout(1);
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 1, 1)));
    let host = pooled.hosts.get_mut(&1).unwrap();
    assert_eq!(host.run("select 'mine'", &[]).values(), ["mine"]);
    assert_eq!(pooled.counts(), [1, 0, 0]);
    pooled.release(1, condition::CLEAN);
    assert_eq!(pooled.counts(), [1, 1, 0]);
}

#[test]
fn callers_are_served_in_the_order_in_which_they_came() {
    let mut pooled = Pooled::new("connections_max\x001\0");
    for token in 1..=3 {
        pooled.checkout(token);
    }
    for token in 1..=3 {
        assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, token, 1)));
        assert_eq!(pooled.next(), None);
        pooled.release(1, condition::CLEAN);
    }
    assert_eq!(pooled.counts(), [1, 1, 0]);
}

#[test]
fn a_caller_that_gave_up_is_passed_over() {
    let mut pooled = Pooled::new("connections_max\x001\0");
    (1..=3).for_each(|token| pooled.checkout(token));
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 1, 1)));
    // SAFETY: the pool lives.
    unsafe {
        assert!(onetrip_pool_give_up(pooled.pool, 0.0, 2));
        assert!(!onetrip_pool_give_up(pooled.pool, 0.0, 2));
    }
    pooled.release(1, condition::CLEAN);
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 3, 1)));
}

#[test]
fn shared_requests_go_side_by_side_and_wait_for_nobody() {
    let mut pooled = Pooled::new("connections_max\x001\0");
    assert_eq!(pooled.place(), 0);
    // SAFETY: the pool lives.
    assert!(unsafe { onetrip_pool_wait_shared(pooled.pool, 0.0, 1, 0, -1.0) });
    assert_eq!(pooled.next(), Some((kind::POOL_PLACED, 1, 1)));
    let host = pooled.hosts.get_mut(&1).unwrap();
    let first = host.submit(0, "select 'a'", "", &[]);
    assert_eq!(pooled.place(), 1);
    let host = pooled.hosts.get_mut(&1).unwrap();
    let second = host.submit(0, "select 'b'", "", &[]);
    assert_eq!([first, second].map(|token| host.answer(token).values()), [["a"], ["b"]]);
}

/// The host acts on the completions one by one.
#[test]
fn one_who_wants_a_connection_alone_waits_for_what_was_placed_there_in_the_same_breath() {
    let mut pooled = Pooled::new("connections_max\x001\0");
    pooled.checkout(1);
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 1, 1)));
    // SAFETY: the pool lives.
    assert!(unsafe { onetrip_pool_wait_shared(pooled.pool, 0.0, 2, 0, -1.0) });
    pooled.checkout(3);
    pooled.release(1, condition::CLEAN);
    assert_eq!(pooled.next(), Some((kind::POOL_PLACED, 2, 1)));
    assert_eq!(pooled.next(), None, "what was placed is not submitted yet");
    let shared = pooled.hosts.get_mut(&1).unwrap().submit(0, "select 'shared'", "", &[]);
    pooled.acted();
    assert_eq!(pooled.next(), None, "nor is it answered");
    assert_eq!(pooled.hosts.get_mut(&1).unwrap().answer(shared).values(), ["shared"]);
    // SAFETY: the pool lives.
    unsafe { onetrip_pool_answered(pooled.pool, 0.0, 1) };
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 3, 1)));
}

#[test]
fn what_was_placed_and_never_submitted_keeps_nobody_waiting() {
    let mut pooled = Pooled::new("connections_max\x001\0");
    pooled.checkout(1);
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 1, 1)));
    // SAFETY: the pool lives.
    assert!(unsafe { onetrip_pool_wait_shared(pooled.pool, 0.0, 2, 0, -1.0) });
    pooled.checkout(3);
    pooled.release(1, condition::CLEAN);
    assert_eq!(pooled.next(), Some((kind::POOL_PLACED, 2, 1)));
    pooled.acted();
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 3, 1)));
}

#[test]
fn one_who_wants_a_connection_alone_waits_until_shared_requests_are_answered() {
    let mut pooled = Pooled::new("connections_max\x001\0connections_min\x001\0");
    assert_eq!(pooled.next(), None);
    let number = pooled.place();
    let shared = pooled.hosts.get_mut(&number).unwrap().submit(0, "select 'shared'", "", &[]);
    pooled.checkout(7);
    assert_eq!(pooled.next(), None);
    assert_eq!(pooled.place(), 0, "nothing more goes where somebody waits for the end");
    let host = pooled.hosts.get_mut(&number).unwrap();
    assert_eq!(host.answer(shared).values(), ["shared"]);
    // SAFETY: the pool lives.
    unsafe { onetrip_pool_answered(pooled.pool, 0.0, number) };
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 7, number)));
}

#[test]
fn a_lost_connection_is_forgotten_and_another_opened_for_those_who_wait() {
    let mut pooled = Pooled::new("connections_max\x001\0");
    pooled.checkout(1);
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 1, 1)));
    pooled.checkout(2);
    // Long after it was opened, so that there is no pause.
    pooled.time(5_000.0);
    // SAFETY: the pool lives.
    unsafe { onetrip_pool_lost(pooled.pool, 5_000.0, 1) };
    pooled.hosts.remove(&1);
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 2, 2)));
    // Its user releases it without having heard of that.
    pooled.release(1, condition::CLEAN);
    assert_eq!(pooled.counts(), [1, 0, 0]);
}

#[test]
fn a_password_that_is_wrong_fails_those_who_wait() {
    let mut pooled = Pooled::new("");
    pooled.checkout(1);
    assert_eq!(pooled.said, [(kind::POOL_OPEN, 0, 1)]);
    // SAFETY: the pool lives.
    unsafe { onetrip_pool_open_failed(pooled.pool, 0.0, 1, true) };
    pooled.said.clear();
    pooled.listen();
    assert_eq!(pooled.said, [(kind::POOL_FAILED, 1, pool_cause::OPEN_FAILED)]);
    assert_eq!(pooled.counts(), [0, 0, 0]);
}

#[test]
fn a_caller_whose_time_has_passed_is_told() {
    let mut pooled = Pooled::new("connections_max\x001\0wait_timeout_ms\x00500\0");
    pooled.checkout(1);
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 1, 1)));
    pooled.checkout(2);
    // SAFETY: the pool lives.
    let deadline = unsafe { onetrip_pool_deadline(pooled.pool) };
    assert!((500.0..510.0).contains(&deadline), "{deadline}");
    pooled.time(deadline + 1.0);
    assert_eq!(pooled.next(), Some((kind::POOL_FAILED, 2, pool_cause::DEADLINE)));
}

#[test]
fn an_idle_connection_is_closed_in_the_end_unless_it_is_one_of_those_to_keep() {
    let mut pooled = Pooled::new("connections_min\x001\0idle_timeout_ms\x001000\0");
    pooled.checkout(1);
    pooled.checkout(2);
    let granted = [pooled.next(), pooled.next()].map(|it| it.unwrap().2);
    granted.into_iter().for_each(|number| pooled.release(number, condition::CLEAN));
    assert_eq!(pooled.counts(), [2, 2, 0]);
    // Later than any login on a busy machine: connections have clocks of their own.
    pooled.time(600_000.0);
    let closed = pooled.next().unwrap();
    assert_eq!(closed.0, kind::POOL_CLOSE);
    assert!(granted.contains(&closed.2));
    pooled.hosts.remove(&closed.2);
    assert_eq!((pooled.next(), pooled.counts()), (None, [1, 1, 0]));
}

#[test]
fn a_pool_that_closes_waits_for_those_who_have_a_connection() {
    let mut pooled = Pooled::new("");
    pooled.checkout(1);
    let (_, _, number) = pooled.next().unwrap();
    // SAFETY: the pool lives.
    unsafe { onetrip_pool_close(pooled.pool, 0.0) };
    assert_eq!(pooled.next(), None);
    pooled.checkout(2);
    assert_eq!(pooled.next(), Some((kind::POOL_FAILED, 2, pool_cause::CLOSED)));
    pooled.release(number, condition::CLEAN);
    assert_eq!(pooled.next(), Some((kind::POOL_CLOSE, 0, number)));
    pooled.hosts.remove(&number);
    assert_eq!(pooled.next(), Some((kind::CLOSED, 0, close::HOST)));
}

#[test]
fn a_pool_that_closes_serves_those_who_wait_until_it_is_cut() {
    let mut pooled = Pooled::new("connections_max\x001\0");
    pooled.checkout(1);
    pooled.checkout(2);
    pooled.checkout(3);
    // SAFETY: the pool lives.
    unsafe { onetrip_pool_close(pooled.pool, 0.0) };
    let (_, _, number) = pooled.next().unwrap();
    pooled.release(number, condition::CLEAN);
    assert_eq!(pooled.next(), Some((kind::POOL_GRANTED, 2, number)));
    // SAFETY: the pool lives.
    unsafe { onetrip_pool_cut(pooled.pool, 0.0) };
    assert_eq!(pooled.next(), Some((kind::POOL_FAILED, 3, pool_cause::CLOSED)));
    pooled.release(number, condition::BROKEN);
    pooled.hosts.remove(&number);
    assert_eq!(pooled.next(), Some((kind::CLOSED, 0, close::HOST)));
}

#[test]
fn a_wrong_setting_is_named_and_nothing_is_opened() {
    let mut pooled = Pooled::new("conections_max\x001\0");
    assert_eq!(pooled.next(), Some((kind::CLOSED, 0, close::LOGIN)));
    assert_eq!(pooled.texts, [b"conections_max is not a setting of a pool"]);
    pooled.checkout(1);
    assert_eq!(pooled.next(), Some((kind::POOL_FAILED, 1, pool_cause::CLOSED)));
    assert_eq!(pooled.next(), None);
}

#[test]
fn a_request_that_was_not_sent_gets_in_line_again_eight_times_and_within_its_time() {
    let pooled = Pooled::new("wait_timeout_ms\x00300\0");
    let again = |now: f64, times: u32, until: f64, left: f64| {
        // SAFETY: the pool lives.
        unsafe { onetrip_pool_again(pooled.pool, now, times, until, left) }
    };
    assert_eq!(
        again(100.0, 0, 0.0, f64::INFINITY),
        400.0,
        "wait_timeout_ms, from the first time on"
    );
    assert_eq!(again(399.0, 1, 400.0, f64::INFINITY), 400.0);
    assert_eq!(again(400.0, 1, 400.0, f64::INFINITY), -1.0, "its time is over");
    assert_eq!(again(100.0, 0, 0.0, 5000.0), 5100.0, "its own deadline");
    assert_eq!(again(100.0, 0, 0.0, 0.0), -1.0);
    for times in 1..8 {
        assert_eq!(again(100.0, times, 400.0, f64::INFINITY), 400.0);
    }
    assert_eq!(again(100.0, 8, 400.0, f64::INFINITY), -1.0);
    // SAFETY: the pool lives.
    unsafe { onetrip_pool_close(pooled.pool, 100.0) };
    assert_eq!(again(100.0, 0, 0.0, f64::INFINITY), -1.0, "it takes nothing new");
}
