//! A call on its way: what was asked for, how far it has come, and what was answered.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::ffi::c_void;
use std::rc::Rc;

use bytes::Bytes;
use onetrip_client::flag;
use onetrip_client::postgres::Act;
use onetrip_client::redis::Packed;
use onetrip_engine::pool::{Requeue, TextKey};
use onetrip_engine::{Ticket, Time};
use onetrip_postgres::client::transaction::modes::Modes;
use onetrip_postgres::sql::Traits;

use crate::failure::Failure;

/// A text, and what it shows.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: Box<str>,
    pub(crate) traits: Traits,
    /// What the pool knows it by.
    pub(crate) key: TextKey,
}

/// A use of a statement, or several of one text.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) statement: Rc<Statement>,
    /// The types that are named, and a number that stands for these types.
    pub(crate) types: (u32, Rc<[u32]>),
    /// Formats and parameters as in a Bind.
    pub(crate) first: Vec<u8>,
    /// Those of further uses.
    pub(crate) more: Vec<Vec<u8>>,
}

/// What is wanted.
#[derive(Debug)]
pub(crate) enum Want {
    /// What one statement answers.
    Rows,
    /// The same of statements that share a sync point: all take effect, or none.
    Segment,
    /// One statement with several sets of arguments, whose answers are one.
    Batch,
    /// Rows, or data of a COPY, that are taken as they come.
    Stream,
    CopyOut,
    CopyIn,
    /// A transaction begins on its connection.
    Begin(Modes),
    Act(Act),
    /// Of this side: whether BEGIN was answered.
    Probe,
    /// Of this side: LISTEN.
    Listen,
    /// Commands of Redis, each by itself, and how many; or a list that runs as one, and whether the
    /// effects of each remain where it fails.
    Commands(Vec<Packed>),
    List(Packed, Vec<bool>),
    Subscribe(Packed),
}

/// Where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Made,
    /// It waits in the pool, by this token.
    InLine(u32),
    /// The engine has it, on this connection. The token and the ticket are those of its end.
    Sent(u32, u32, Ticket),
    Over,
}

/// What was answered to one statement or command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// The body of the RowDescription.
    pub(crate) columns: Option<Bytes>,
    pub(crate) blocks: Vec<Bytes>,
    pub(crate) failure: Option<Failure>,
}

/// Who hears of the end of a call, and what he wants to be told.
#[derive(Debug, Default)]
pub(crate) struct Then {
    tell: Cell<Option<Tell>>,
    /// He will be told, and what comes until then is told with that.
    is_due: Cell<bool>,
}

impl Then {
    pub(crate) fn set(&self, tell: Option<Tell>) {
        self.tell.set(tell);
    }

    /// Sees that he is told.
    pub(crate) fn falls_due(self: &Rc<Then>, due: &mut Vec<Rc<Then>>) {
        if !self.is_due.replace(true) {
            due.push(self.clone());
        }
    }

    /// What is to be called now; nothing, if nobody wants to hear.
    pub(crate) fn take_due(&self) -> Option<Tell> {
        self.is_due.set(false);
        self.tell.get()
    }
}

/// What is called, and with what.
pub(crate) type Tell = (unsafe extern "C" fn(*mut c_void), *mut c_void);

/// How far it has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) stage: Stage,
    pub(crate) requests: Vec<Request>,
    pub(crate) parts: Vec<Part>,
    /// Bytes of the reply so far.
    pub(crate) bytes: usize,
    pub(crate) failure: Option<Failure>,
    /// Parts that are not answered, of a call whose parts end by themselves.
    pub(crate) open: usize,
    pub(crate) repeats: u32,
    pub(crate) may_have_run: bool,
    pub(crate) requeue: Option<Box<Requeue>>,
    pub(crate) then: Rc<Then>,
    /// A COPY may take more, as far as is known.
    pub(crate) may_feed: bool,
    /// What goes behind it on the same connection.
    pub(crate) next: Option<Rc<Call>>,
}

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) want: Want,
    pub(crate) flags: u32,
    pub(crate) key: TextKey,
    /// When it has failed if it was not answered.
    pub(crate) deadline: Time,
    /// It goes where another went, or nowhere.
    is_behind: Cell<bool>,
    progress: RefCell<Progress>,
}

impl Call {
    pub(crate) fn new(
        want: Want,
        flags: u32,
        deadline: Time,
        requests: Vec<Request>,
        parts: usize,
    ) -> Rc<Call> {
        let key = requests.first().map(|it| it.statement.key).unwrap_or_default();
        let parts = vec![Part::default(); parts];
        let progress = RefCell::new(Progress { requests, parts, ..Progress::default() });
        let is_behind = Cell::new(false);
        Rc::new(Call { want, flags, key, deadline, is_behind, progress })
    }

    pub(crate) fn now(&self) -> RefMut<'_, Progress> {
        self.progress.borrow_mut()
    }

    pub(crate) fn look(&self) -> Ref<'_, Progress> {
        self.progress.borrow()
    }

    /// What goes behind it, on the same connection.
    pub(crate) fn lead(&self, next: &Rc<Call>) {
        next.is_behind.set(true);
        self.now().next = Some(next.clone());
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind.get()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.look().stage == Stage::Over
    }

    pub(crate) fn is_repeatable(&self) -> bool {
        self.flags & flag::REPEATABLE != 0
    }

    /// Whether its caller takes the reply as it comes.
    pub(crate) fn flows(&self) -> bool {
        matches!(self.want, Want::Stream | Want::CopyOut)
    }

    /// The reply begins anew.
    pub(crate) fn restart(&self, part: usize) {
        let mut now = self.now();
        if let Some(part) = now.parts.get_mut(part) {
            *part = Part::default();
        }
        (now.failure, now.bytes) = (None, 0);
    }
}
