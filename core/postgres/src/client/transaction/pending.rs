//! A BEGIN that leaves with the first statement behind it, and what is done with requests until the
//! server has answered it.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use super::NO_VALUES;
use super::control::{self, Control};
use crate::Expect;
use crate::message::{Describe, EncodeError, Execute, Target, TransactionStatus, bind, parse};
use crate::sql::Traits;

/// BEGIN as it is sent: a text, and the portal in which it runs.
#[derive(Debug)]
pub struct Begin {
    text: Cow<'static, str>,
    portal: String,
}

impl Begin {
    /// `number` tells it from every other transaction of the session, so that what is left over of
    /// an earlier one is refused.
    pub fn new(text: impl Into<Cow<'static, str>>, number: u64) -> Begin {
        let portal = format!("{PORTAL_PREFIX}{number}");
        Begin { text: text.into(), portal }
    }

    /// The length of the text.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// What the server answers.
    pub fn expect() -> Expect {
        Expect::sync().parse().bind().execute()
    }

    /// Writes BEGIN without a Sync: what follows is of its segment.
    ///
    /// # Errors
    /// A NUL in the text, or more than 1 GiB.
    pub fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        parse::write(out, "", &self.text, &[])?;
        bind::write_named(out, &self.portal, "", &NO_VALUES)?;
        Execute { portal: &self.portal, rows_max: 0 }.encode(out)
    }

    /// What the server answers to the guard.
    pub fn guard() -> Expect {
        Expect::sync().describe_portal()
    }

    /// Writes the guard, which fails where the transaction isn't open: a Describe of the portal.
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
    /// Its end was sent, or it is nobody's any more: what comes from now on is not of it.
    is_over: bool,
}

/// How far BEGIN is. Once it has succeeded nothing is pending.
#[derive(Debug)]
enum BeginState {
    /// It waits for the first statement.
    Held,
    /// It is on its way.
    Sent,
    /// The server refused it by this error.
    Refused(Bytes),
}

impl PendingBegin {
    /// One that waits for the first statement.
    pub fn new(begin: Begin) -> PendingBegin {
        PendingBegin { begin, state: BeginState::Held, is_over: false }
    }

    /// What is sent of it.
    pub fn begin(&self) -> &Begin {
        &self.begin
    }

    /// Whether it waits for the first statement.
    pub fn is_held(&self) -> bool {
        matches!(self.state, BeginState::Held)
    }

    /// Whether nobody knows if the transaction begins.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.state, BeginState::Sent)
    }

    /// Why the transaction did not begin.
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

    /// The server refused it by this error.
    pub fn refused(&mut self, error: Bytes) {
        self.state = BeginState::Refused(error);
    }

    /// Nobody goes on with the transaction.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Takes note of a text that was sent behind it.
    pub fn follow(&mut self, text: &str) {
        self.is_over |= Control::ends_first(text).is_some();
    }

    /// The status that the server has not told yet, where it is known.
    pub fn status(&self) -> Option<TransactionStatus> {
        let status = match self.state {
            BeginState::Held | BeginState::Sent => TransactionStatus::InTransaction,
            BeginState::Refused(_) => TransactionStatus::Failed,
        };
        (!self.is_over).then_some(status)
    }
}

/// What is done with a request, as to a transaction that may not have begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It has nothing to do with it.
    Plain,
    /// BEGIN goes in front of it, in its segment.
    Leads,
    /// The portal of BEGIN is described in front of it.
    Guarded,
    /// It waits until BEGIN was answered.
    Waits,
    /// It is not sent: this is its answer.
    Answered(Control),
    /// It fails, since BEGIN was refused.
    Fails,
}

impl Treatment {
    /// Whether the request is skipped where BEGIN is refused.
    pub fn is_guarded(self) -> bool {
        matches!(self, Treatment::Leads | Treatment::Guarded)
    }
}

/// A request, as far as a transaction is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its text.
    pub text: &'a str,
    /// Nothing but the text says what it is: it has no name, no values and a segment of its own.
    pub is_plain: bool,
    /// It is of the simple protocol.
    pub is_simple: bool,
}

/// What is known of the connection that a request is for.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Nothing is on its way.
    pub is_idle: bool,
    /// The session is in no transaction, as far as the server has told.
    pub is_outside: bool,
    /// The request belongs to a segment that others have begun.
    pub segment_open: bool,
}

/// What is to be done with a request. `traits` of its text are asked for where they matter.
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
        // It fails where the transaction never began, and does no harm.
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
        // What is behind it in the text has nothing to do with the transaction.
        _ if Control::ends_first(text) == Some(Control::Rollback) => Treatment::Plain,
        _ => Treatment::Fails,
    }
}

/// What is to be done with a sync point of its own.
pub fn treatment_of_sync(pending: Option<&PendingBegin>, segment_open: bool) -> Treatment {
    match pending.filter(|it| !it.is_over).map(|it| &it.state) {
        None => Treatment::Plain,
        Some(BeginState::Held) => Treatment::Leads,
        Some(BeginState::Sent) => Treatment::Guarded,
        Some(BeginState::Refused(_)) if segment_open => Treatment::Guarded,
        Some(BeginState::Refused(_)) => Treatment::Fails,
    }
}

/// Whether a request in a segment of its own is skipped by the server behind an error in front of
/// it. What is of an open segment can't wait, since nothing of that is answered before its end.
fn is_skipped_behind(asked: Asked<'_>, control: Option<Control>, traits: Traits) -> bool {
    // Behind COMMIT AND CHAIN and its kin there may be another transaction, in which the portal is
    // no more.
    let goes_on = traits.transaction_control() && !traits.savepoint() && control.is_none();
    let simple = asked.is_simple && needs_simple(asked.text, traits);
    !goes_on && !simple && !traits.copy()
}

/// Whether a text of the simple protocol may be answered otherwise by the extended one.
fn needs_simple(text: &str, traits: Traits) -> bool {
    traits.several()
        || text.as_bytes().contains(&b'$')
        || traits.session_state() && has(text, b"fetch")
        // What follows such a body is not seen to be a statement of its own.
        || has(text, b"atomic")
        // The extended protocol refuses it in a transaction that failed.
        || control::is_empty(text)
}

/// Whether this stands somewhere in a text, in whatever case.
fn has(text: &str, part: &[u8]) -> bool {
    text.as_bytes().windows(part.len()).any(|it| it.eq_ignore_ascii_case(part))
}

/// In front of the numbers of portals.
const PORTAL_PREFIX: &str = "onetrip_tx_";
