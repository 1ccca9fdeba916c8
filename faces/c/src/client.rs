//! A handle of a client, and how its caller waits.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_postgres::client::connect::keywords::Keyword;

use crate::call::Call;
use crate::failure::Failure;
use crate::state::{Server, State, clock, in_ms};
use crate::status;

/// A client.
pub(crate) struct Client {
    state: RefCell<State>,
    /// The process that opened it.
    process: u32,
    /// Milliseconds that a statement may take where its caller says nothing; -1 for any number.
    timeout_ms: i32,
    /// Something went wrong in here, and its state may be half changed.
    is_broken: Cell<bool>,
}

/// Why nothing can be done with a client at present: what its functions return.
pub(crate) type Barred = i32;

impl Client {
    pub(crate) fn new(server: Server) -> std::io::Result<Rc<Client>> {
        let timeout_ms = match &server {
            Server::Postgres(config) => config.number(Keyword::RequestTimeoutMs),
            Server::Redis(_) => 0,
        };
        Ok(Rc::new(Client {
            state: RefCell::new(State::new(server)?),
            process: std::process::id(),
            timeout_ms: if timeout_ms == 0 { -1 } else { timeout_ms as i32 },
            is_broken: Cell::new(false),
        }))
    }

    /// Its state, for as long as nobody else's code runs.
    pub(crate) fn enter(&self) -> Result<RefMut<'_, State>, Barred> {
        if self.is_forked() {
            return Err(status::FORKED);
        }
        if self.is_broken.get() {
            return Err(status::INTERNAL);
        }
        self.state.try_borrow_mut().map_err(|_| status::BUSY)
    }

    /// Whether this process is another than that which opened it.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.state.try_borrow().is_ok_and(|it| matches!(it.server, Server::Postgres(_)))
    }

    /// A panic went through it.
    pub(crate) fn breaks(&self) {
        self.is_broken.set(true);
    }

    /// When a call that is made now is late.
    pub(crate) fn deadline(&self, timeout_ms: i32) -> Time {
        in_ms(clock(), if timeout_ms == 0 { self.timeout_ms } else { timeout_ms })
    }

    /// Works until something is so, or for this time at most. Whether it is so.
    pub(crate) fn wait(
        &self,
        timeout_ms: i32,
        mut is_so: impl FnMut(&mut State) -> bool,
    ) -> Result<bool, Barred> {
        let until = in_ms(clock(), timeout_ms);
        loop {
            let mut state = self.enter()?;
            if is_so(&mut state) {
                return Ok(true);
            }
            let now = clock();
            if now >= until && timeout_ms != 0 {
                return Ok(false);
            }
            let wait = until_next(&state, now, until);
            state.turn(wait);
            drop(state);
            self.call_back()?;
            if timeout_ms == 0 {
                return Ok(is_so(&mut *self.enter()?));
            }
        }
    }

    /// The same until a call has ended.
    pub(crate) fn wait_for(&self, call: &Rc<Call>, timeout_ms: i32) -> Result<bool, Barred> {
        self.wait(timeout_ms, |_| call.is_over())
    }

    /// Tells those that wanted to be told. They may do with the client what they like.
    pub(crate) fn call_back(&self) -> Result<(), Barred> {
        let callbacks = std::mem::take(&mut self.enter()?.callbacks);
        for then in callbacks {
            // Who gave it up meanwhile hears of nothing.
            let Some((tell, user)) = then.take_due() else { continue };
            // SAFETY: who gave them has promised that the one may be called with the other for as
            // long as the call, the stream or the listener is there.
            #[allow(unsafe_code)]
            unsafe {
                tell(user);
            }
        }
        Ok(())
    }

    /// Does what can be done at once.
    pub(crate) fn drive(&self) -> Result<(), Barred> {
        self.enter()?.turn(Some(Duration::ZERO));
        self.call_back()
    }

    /// Milliseconds until it must be driven, whatever its sockets say; -1 for any number.
    pub(crate) fn timeout_ms(&self) -> Result<i32, Barred> {
        let state = self.enter()?;
        Ok(match until_next(&state, clock(), Time::NEVER) {
            None => -1,
            Some(wait) => i32::try_from(wait.as_millis()).unwrap_or(i32::MAX),
        })
    }
}

/// How long there is nothing to do but to wait for sockets, in whole milliseconds.
fn until_next(state: &State, now: Time, until: Time) -> Option<Duration> {
    let next = state.next_turn().min(until);
    let wait = next.since(now).as_nanos().div_ceil(1_000_000);
    (next != Time::NEVER).then(|| Duration::from_millis(u64::try_from(wait).unwrap_or(u64::MAX)))
}

/// The failure of what can't be done at present.
pub(crate) fn barred(status: Barred) -> Failure {
    let (code, why) = match status {
        status::FORKED => {
            ("forked", "the client was opened by another process: open one after fork")
        }
        status::BUSY => {
            ("busy", "the client is in use: by another thread, or by a callback of ours")
        }
        _ => ("internal", "the client is broken by a defect of its own: close it"),
    };
    Failure::unsent(code, why)
}
