//! The policy of a pool.

use std::cell::RefCell;
use std::rc::Rc;

use onetrip_client::completion::kind;
use onetrip_client::{Connection, Pool};
use onetrip_engine::Time;

/// P61.
#[test]
fn who_opens_a_client_is_told_of_the_first_attempt_and_others_wait() {
    let told = |settings: &[u8], may_pass: bool| {
        let mut pool: Pool<Rc<RefCell<Connection>>> = Pool::new(Time::ZERO, settings, 7);
        pool.checkout(Time::ZERO, 1, None);
        let number = pool.drain().find(|it| it.kind == kind::POOL_OPEN).map(|it| it.a);
        pool.open_failed(Time::ZERO, number.unwrap(), false, may_pass);
        pool.drain().any(|it| it.kind == kind::POOL_FAILED)
    };
    assert!(told(b"connects\x001\0", false));
    assert!(!told(b"connects\x001\0", true), "the server is starting");
    assert!(!told(b"", false), "nobody opens the client");

    let mut pool: Pool<Rc<RefCell<Connection>>> = Pool::new(Time::ZERO, b"connects\x001\0", 7);
    let connection = Connection::postgres(Time::ZERO, b"", [0; 18]);
    pool.checkout(Time::ZERO, 1, None);
    pool.opened(Time::ZERO, 1, Rc::new(RefCell::new(connection)));
    pool.checkout(Time::ZERO, 2, None);
    pool.drain().for_each(drop);
    pool.open_failed(Time::ZERO, 2, false, false);
    assert!(pool.drain().all(|it| it.kind != kind::POOL_FAILED), "there was a server");
}
