//! A BEGIN that is sent with the first statement behind it, and how requests are treated until the
//! server has answered it.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use super::NO_VALUES;
use super::control::{self, Control};
use crate::Expect;
use crate::message::{Describe, EncodeError, Execute, Target, TransactionStatus, bind, parse};
use crate::sql::Traits;

/// BEGIN as it is sent: its text, and the portal in which it runs.
#[derive(Debug)]
pub struct Begin {
    text: Cow<'static, str>,
    portal: String,
}

impl Begin {
    /// `number` distinguishes it from every other transaction of the session, so that late requests
    /// of an earlier one are refused.
    pub fn new(text: impl Into<Cow<'static, str>>, number: u64) -> Begin {
        Begin { text: text.into(), portal: portal(number) }
    }

    /// The length of the text.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// The reply to expect to BEGIN.
    pub fn expect() -> Expect {
        Expect::sync().parse().bind().execute()
    }

    /// Writes BEGIN without a Sync, so that the next request belongs to its segment.
    ///
    /// # Errors
    /// The text contains a NUL, or exceeds 1 GiB.
    pub fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        out.reserve(self.text.len() + 2 * self.portal.len() + 64);
        parse::write(out, "", &self.text, &[])?;
        bind::write_named(out, &self.portal, "", &NO_VALUES)?;
        Execute { portal: &self.portal, rows_max: 0 }.encode(out)
    }

    /// The reply to expect to the guard.
    pub fn guard() -> Expect {
        Expect::sync().describe_portal()
    }

    /// Writes the guard, a Describe of the portal, which fails unless the transaction is open.
    ///
    /// # Errors
    /// None: the name has no NUL and is short.
    pub fn write_guard(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        Describe { target: Target::Portal(&self.portal) }.encode(out)
    }
}

/// A transaction that may not have begun.
#[derive(Debug)]
pub struct PendingBegin {
    begin: Begin,
    state: BeginState,
    /// Whether its end was sent or its owner has gone, so that later requests don't belong to it.
    is_over: bool,
}

/// The progress of BEGIN. Once it has succeeded, it is no longer pending.
#[derive(Debug)]
enum BeginState {
    /// It waits for the first statement.
    Held,
    /// It is in flight.
    Sent,
    /// The server refused it with this error.
    Refused(Bytes),
}

impl PendingBegin {
    /// A BEGIN that waits for the first statement.
    pub fn new(begin: Begin) -> PendingBegin {
        PendingBegin { begin, state: BeginState::Held, is_over: false }
    }

    /// The BEGIN.
    pub fn begin(&self) -> &Begin {
        &self.begin
    }

    /// Whether it waits for the first statement.
    pub fn is_held(&self) -> bool {
        matches!(self.state, BeginState::Held)
    }

    /// Whether it is not known yet if the transaction begins.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.state, BeginState::Sent)
    }

    /// The error with which the server refused BEGIN, if it did.
    pub fn refusal(&self) -> Option<&Bytes> {
        match &self.state {
            BeginState::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// BEGIN was submitted.
    pub fn sent(&mut self) {
        self.state = BeginState::Sent;
    }

    /// The server refused it with this error.
    pub fn refused(&mut self, error: Bytes) {
        self.state = BeginState::Refused(error);
    }

    /// The transaction has no owner any more.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Notes a text that was sent behind it.
    pub fn follow(&mut self, text: &str) {
        self.is_over |= Control::ends_first(text).is_some();
    }

    /// The transaction status that the server has not reported yet, if it is known.
    pub fn status(&self) -> Option<TransactionStatus> {
        let status = match self.state {
            BeginState::Held | BeginState::Sent => TransactionStatus::InTransaction,
            BeginState::Refused(_) => TransactionStatus::Failed,
        };
        (!self.is_over).then_some(status)
    }
}

/// How a request is treated while a transaction may not have begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It is not affected.
    Plain,
    /// BEGIN goes in front of it, in the same segment.
    Leads,
    /// A Describe of BEGIN's portal goes in front of it.
    Guarded,
    /// It waits until BEGIN was answered.
    Waits,
    /// It is not sent. It is answered with the usual answer to this control.
    Answered(Control),
    /// It fails, because BEGIN was refused.
    Fails,
}

impl Treatment {
    /// Whether the server skips the request if it refuses BEGIN.
    pub fn is_guarded(self) -> bool {
        matches!(self, Treatment::Leads | Treatment::Guarded)
    }
}

/// A request, as far as it matters to a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its text.
    pub text: &'a str,
    /// Whether only its text matters: it has no name, no values and a segment of its own.
    pub is_plain: bool,
    /// Whether it uses the simple protocol.
    pub is_simple: bool,
}

/// The state of the connection that a request is for.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Nothing is in flight.
    pub is_idle: bool,
    /// The session is in no transaction, according to the server's last report.
    pub is_outside: bool,
    /// The request belongs to a segment that earlier requests have begun.
    pub segment_open: bool,
}

/// How to treat a request. `traits` of its text are only computed if they matter.
pub fn treatment(
    pending: Option<&PendingBegin>,
    asked: Asked<'_>,
    at: Surroundings,
    traits: impl Fn() -> Traits,
) -> Treatment {
    let control = Control::of(asked.text);
    let own = control.filter(|_| asked.is_plain);
    let Some(pending) = pending.filter(|it| !it.is_over) else {
        return match own {
            Some(begin @ (Control::Begin | Control::Start)) if at.is_idle && at.is_outside => {
                Treatment::Answered(begin)
            }
            _ => Treatment::Plain,
        };
    };
    let can_be_guarded = || at.segment_open || is_skipped_behind(asked, control, traits());
    match (&pending.state, control) {
        (BeginState::Held, Some(end @ (Control::Commit | Control::Rollback))) if own.is_some() => {
            Treatment::Answered(end)
        }
        (BeginState::Held, _) if can_be_guarded() => Treatment::Leads,
        // If the transaction never began, the ROLLBACK fails without harm.
        (BeginState::Sent, Some(Control::Rollback)) => Treatment::Plain,
        (BeginState::Sent, _) if can_be_guarded() => Treatment::Guarded,
        (BeginState::Held | BeginState::Sent, _) => Treatment::Waits,
        (BeginState::Refused(_), _) => behind_refused(asked.text, control, at),
    }
}

fn behind_refused(text: &str, control: Option<Control>, at: Surroundings) -> Treatment {
    match control {
        Some(Control::Commit | Control::Rollback) if at.is_idle => {
            Treatment::Answered(Control::Rollback)
        }
        Some(Control::Commit) => Treatment::Guarded,
        _ if at.segment_open => Treatment::Guarded,
        // The statements behind it in the text don't belong to the transaction.
        _ if Control::ends_first(text) == Some(Control::Rollback) => Treatment::Plain,
        _ => Treatment::Fails,
    }
}

/// How to treat a sync point that is a request of its own.
pub fn treatment_of_sync(pending: Option<&PendingBegin>, segment_open: bool) -> Treatment {
    match pending.filter(|it| !it.is_over).map(|it| &it.state) {
        None => Treatment::Plain,
        Some(BeginState::Held) => Treatment::Leads,
        Some(BeginState::Sent) => Treatment::Guarded,
        Some(BeginState::Refused(_)) if segment_open => Treatment::Guarded,
        Some(BeginState::Refused(_)) => Treatment::Fails,
    }
}

/// Whether the server skips a request in a segment of its own after an error in front of it. A
/// request in an open segment can't wait, since nothing of that segment is answered before its end.
fn is_skipped_behind(asked: Asked<'_>, control: Option<Control>, traits: Traits) -> bool {
    // Behind COMMIT AND CHAIN and the like there may be another transaction, in which the portal no
    // longer exists.
    let goes_on = traits.transaction_control() && !traits.savepoint() && control.is_none();
    let simple = asked.is_simple && needs_simple(asked.text, traits);
    !goes_on && !simple && !traits.copy()
}

/// Whether the extended protocol may answer a text of the simple one differently.
fn needs_simple(text: &str, traits: Traits) -> bool {
    traits.several()
        || text.as_bytes().contains(&b'$')
        || traits.session_state() && has(text, b"fetch")
        // A statement behind such a body is not recognised as one of its own.
        || has(text, b"atomic")
        // In a failed transaction, the extended protocol refuses it.
        || control::is_empty(text)
}

/// Whether a text contains `part`, in any case.
fn has(text: &str, part: &[u8]) -> bool {
    text.as_bytes().windows(part.len()).any(|it| it.eq_ignore_ascii_case(part))
}

/// The name of a transaction's portal. By hand, since each transaction makes one: `format!` takes
/// ten times as long.
fn portal(mut number: u64) -> String {
    const DIGITS_MAX: usize = 20;
    let mut name = [0; PORTAL_PREFIX.len() + DIGITS_MAX];
    let mut at = name.len();
    loop {
        at -= 1;
        name[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    let start = at - PORTAL_PREFIX.len();
    name[start..at].copy_from_slice(PORTAL_PREFIX.as_bytes());
    String::from_utf8_lossy(&name[start..]).into_owned()
}

/// The prefix of the portals' names; a number follows.
const PORTAL_PREFIX: &str = "onetrip_tx_";
