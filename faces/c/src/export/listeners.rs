//! Listeners of PostgreSQL's notifications and of Redis' channels.

use std::cell::RefCell;
use std::rc::Rc;

use onetrip_postgres::client::listener::{BadName, check};

use super::{OtClient, client_of, enter, handle, place, take_back};
use crate::client::barred;
use crate::failure::Failure;
use crate::ffi::{Handle, OtError, OtEvent, OtText, User, guard, list, misuse, put, text};
use crate::listener::{Listener, Notification};
use crate::state::{State, clock};
use crate::status;

/// One, and the event that its reader looks at.
pub(crate) struct Listening {
    listener: Rc<RefCell<Listener>>,
    last: RefCell<Notification>,
}

/// `ot_listener`.
type OtListener = Handle<Listening>;

/// The kinds of events.
const NOTIFICATION: i32 = 1;
const GAP: i32 = 2;

fn names(channels: &[OtText], is_postgres: bool) -> Result<Vec<String>, Failure> {
    if channels.is_empty() {
        return Err(misuse("a listener has a channel"));
    }
    let name = |channel: &str| match check(channel) {
        Ok(()) => Ok(channel.to_owned()),
        Err(BadName::Empty) => Err(misuse("the name of a channel is empty")),
        Err(_) if !is_postgres => Ok(channel.to_owned()),
        Err(BadName::Long(_)) => Err(misuse("the name of a channel has more than 63 bytes")),
        Err(BadName::Nul) => Err(misuse("the name of a channel has a zero byte")),
    };
    // SAFETY: C has promised what the header asks for.
    channels.iter().map(|it| name(unsafe { text(it.ptr, it.len) }?)).collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_listen(
    client: *mut OtClient,
    channels: *const OtText,
    count: usize,
    listener: *mut *mut OtListener,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(client) };
    guard(of, std::ptr::null_mut(), || {
        place(listener)?;
        // SAFETY: as above.
        let (client, channels) = unsafe { (&handle(client)?.client, list(channels, count)?) };
        let names = names(channels, client.is_postgres())?;
        let made = enter(client)?.listen(clock(), names);
        let of = Listening { listener: made, last: RefCell::default() };
        Handle::give(client, of, listener);
        Ok(status::OK)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_listener_wait(
    listener: *mut OtListener,
    timeout_ms: i32,
    error: *mut OtError,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(listener) };
    guard(of, error, || {
        // SAFETY: as above.
        let it = unsafe { handle(listener) }?;
        let is_there = |_: &mut State| {
            let it = it.of.listener.borrow();
            it.has_served || it.is_over || it.failure.is_some()
        };
        if !it.client.wait(timeout_ms, is_there).map_err(barred)? {
            return Ok(status::AGAIN);
        }
        over(&it.of).map_or(Ok(status::OK), Err)
    })
}

/// Why there is nothing more, or nothing yet.
fn over(of: &Listening) -> Option<Failure> {
    let mut it = of.listener.borrow_mut();
    it.failure.take().or_else(|| it.is_over.then(Failure::closed))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_listener_next(
    listener: *mut OtListener,
    timeout_ms: i32,
    event: *mut OtEvent,
    error: *mut OtError,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(listener) };
    guard(of, error, || {
        let event = place(event)?;
        // SAFETY: as above.
        let it = unsafe { handle(listener) }?;
        let has_come = |_: &mut State| {
            let it = it.of.listener.borrow();
            it.has_gap || !it.kept.is_empty() || it.is_over || it.failure.is_some()
        };
        if !it.client.wait(timeout_ms, has_come).map_err(barred)? {
            return Ok(status::AGAIN);
        }
        let (kind, dropped) = {
            let mut of = it.of.listener.borrow_mut();
            if std::mem::take(&mut of.has_gap) {
                (GAP, std::mem::take(&mut of.dropped))
            } else if let Some(next) = of.kept.pop_front() {
                it.of.last.replace(next);
                (NOTIFICATION, 0)
            } else {
                drop(of);
                return Err(over(&it.of).unwrap_or_else(Failure::closed));
            }
        };
        let last = it.of.last.borrow();
        let text = |bytes| if kind == NOTIFICATION { OtText::of(bytes) } else { OtText::NONE };
        let told = OtEvent {
            size: 0,
            kind,
            channel: text(&last.channel),
            payload: text(&last.payload),
            process_id: if kind == NOTIFICATION { last.process_id.into() } else { 0 },
            dropped,
        };
        // SAFETY: C has promised what the header asks for.
        match unsafe { put(event, told, |event, size| event.size = size) } {
            true => Ok(status::OK),
            false => Err(misuse("the size of the event is 0: begin it with OT_EVENT_INIT")),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_listener_then(
    listener: *mut OtListener,
    tell: Option<unsafe extern "C" fn(User)>,
    user: User,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(listener) };
    guard(of, std::ptr::null_mut(), || {
        // SAFETY: as above.
        let it = unsafe { handle(listener) }?;
        let mut state = enter(&it.client)?;
        let then = it.of.listener.borrow().then.clone();
        then.set(tell.map(|tell| (tell, user)));
        then.falls_due(&mut state.callbacks);
        Ok(status::OK)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_listener_close(listener: *mut OtListener) {
    // SAFETY: C has promised what the header asks for.
    let Some(it) = (unsafe { take_back(listener) }) else { return };
    guard(Some(&it.client), std::ptr::null_mut(), || {
        it.of.listener.borrow().then.set(None);
        enter(&it.client)?.end_listener(clock(), &it.of.listener);
        Ok(status::OK)
    });
}
