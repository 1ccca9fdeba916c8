//! What each place refuses, and what to use instead there.

use std::fmt;

use super::Traits;

/// Where a statement is about to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A connection that others use, too: one autocommit statement with a Sync of its own.
    Shared,
    /// A pipeline on a shared connection.
    Pipeline {
        /// A sync point is right before the statement and right behind it (or the pipeline begins
        /// or ends there), so the statement is a transaction of its own.
        alone: bool,
    },
    /// A connection of the caller's own.
    Session {
        /// A transaction object is open on it, which must control each BEGIN, COMMIT, ROLLBACK and
        /// SAVEPOINT.
        in_transaction: bool,
    },
}

/// Why a statement is not sent where it was meant to go. Nothing of it has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Transaction control outside a session.
    TransactionControl,
    /// Transaction control as text while a transaction object is open.
    TransactionOpen,
    /// Session state outside a session.
    SessionState,
    /// SET LOCAL or SET CONSTRAINTS where the transaction consists of that statement only.
    TransactionLocal,
    /// A statement that commits by itself among others that commit together.
    StandAlone,
    /// CALL or DO among statements that commit together.
    Call,
    /// COPY FROM STDIN or TO STDOUT.
    Copy,
    /// Several statements in one text.
    Several,
    /// Several statements in one text, in an interface where each text is one statement.
    NotOne,
    /// More parameters than the protocol counts.
    Parameters,
    /// More than a read, where replicas may serve it.
    NotARead,
    /// A statement of a transaction or savepoint whose end was already requested.
    TransactionEnded,
    /// A statement on a connection of the caller's own whose reply is taken as it comes.
    StreamOpen,
    /// A statement on a connection of the caller's own that a COPY has.
    CopyOpen,
    /// A statement of a transaction, or another savepoint of it, while a savepoint of it is open.
    SavepointOpen,
    /// A statement of a session, or another transaction on it, while a transaction on it is open.
    BlockOpen,
    /// The reply to what its pipeline or list sends at its end is awaited before that.
    AwaitedEarly,
}

impl Refusal {
    /// A stable name of this refusal, for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.said().split('\0').next().unwrap_or_default()
    }

    /// The message that says what to use instead.
    #[must_use]
    pub fn message(self) -> &'static str {
        self.said().split('\0').nth(1).unwrap_or_default()
    }

    /// The code, and the message that says what to use instead, each ended by a zero byte. They are
    /// the same in every language.
    #[must_use]
    pub fn said(self) -> &'static str {
        match self {
            Refusal::TransactionControl => {
                "transaction_control\0transaction control (BEGIN, COMMIT, ROLLBACK, SAVEPOINT …) on a \
                 shared connection would put others' statements into this transaction: use a \
                 transaction or a session\0"
            }
            Refusal::TransactionOpen => {
                "transaction_open\0transaction control as text would end the open transaction \
                 without its knowledge: use its own commit and rollback, or return from its \
                 function (SAVEPOINT, RELEASE and ROLLBACK TO are allowed)\0"
            }
            Refusal::SessionState => {
                "session_state\0this statement changes or uses session state (SET, LISTEN, cursors, \
                 PREPARE, temporary tables, LOCK, advisory locks), which a shared connection can't \
                 keep for one caller: use a session\0"
            }
            Refusal::TransactionLocal => {
                "transaction_local\0SET LOCAL and SET CONSTRAINTS end with their transaction, which \
                 here is this one statement: use a transaction or a pipeline\0"
            }
            Refusal::StandAlone => {
                "stand_alone\0this statement commits by itself (VACUUM, CREATE DATABASE, … \
                 CONCURRENTLY and the like) and can't be part of an atomic pipeline: send it alone, \
                 or with a sync point on both sides\0"
            }
            Refusal::Call => {
                "call\0CALL and DO may commit what came before them and can't be part of an atomic \
                 pipeline: send it alone, with a sync point on both sides, or in a transaction\0"
            }
            Refusal::Copy => {
                "copy\0COPY FROM STDIN and COPY TO STDOUT take the connection over: use the calls for \
                 COPY of the client, a session or a transaction (copy_in and copy_out; copyFrom and \
                 copyTo)\0"
            }
            Refusal::Several => {
                "several\0this text holds several statements, and a shared connection takes one at a \
                 time: send them as a pipeline, or by a session's call for scripts, if it has one\0"
            }
            Refusal::NotOne => {
                "several\0this text holds several statements, and only one is allowed here: send \
                 them as a pipeline\0"
            }
            Refusal::Parameters => {
                "too_many_parameters\0this text has more than 65535 parameters, which the protocol \
                 can't count: pass an array, use a batch of rows, or COPY\0"
            }
            Refusal::NotARead => {
                "not_a_read\0this text shows more than a read (one SELECT, VALUES, TABLE or WITH, \
                 without INTO, row locks or a writing WITH), and replicas serve reads: run it on the \
                 client itself\0"
            }
            Refusal::TransactionEnded => {
                "transaction_ended\0the transaction or savepoint has ended, so this was not sent: \
                 finish its pipelines before you end it\0"
            }
            Refusal::StreamOpen
            | Refusal::CopyOpen
            | Refusal::SavepointOpen
            | Refusal::BlockOpen
            | Refusal::AwaitedEarly => self.said_of_what_is_open(),
        }
    }

    /// The same where something that its caller has opened stands in the way.
    fn said_of_what_is_open(self) -> &'static str {
        match self {
            Refusal::StreamOpen => {
                "stream_open\0a stream is open on this connection, and nothing runs beside it: read \
                 the stream to its end or close it first, or run this on the client itself\0"
            }
            Refusal::CopyOpen => {
                "copy_open\0a COPY runs on this connection, and nothing runs beside it: run this \
                 before or after the COPY, or on the client itself\0"
            }
            Refusal::SavepointOpen => {
                "savepoint_open\0a savepoint is open: use what its block was given, and open \
                 another one behind its end\0"
            }
            Refusal::BlockOpen => {
                "block_open\0a transaction is open on this session: use what its block was given, \
                 and use the session behind its end\0"
            }
            _ => {
                "awaited_early\0this leaves at the end of the block that it was made in, and is \
                 answered behind that: await it behind the block\0"
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

/// Why a statement with these traits must not go to `place`; `None` if it may.
#[must_use]
pub fn refusal(traits: Traits, place: Place) -> Option<Refusal> {
    // The usual case in one test: the text shows nothing that matters.
    if !traits.has(Traits(!(Traits::READ_ONLY_SELECT.0 | Traits::QUERY.0))) {
        return None;
    }
    let shared = !matches!(place, Place::Session { .. });
    let atomic = place == Place::Pipeline { alone: false };
    let open = place == Place::Session { in_transaction: true };
    let rules = [
        (Traits::TOO_MANY_PARAMETERS, true, Refusal::Parameters),
        (Traits::COPY, true, Refusal::Copy),
        (Traits::TRANSACTION_CONTROL, shared, Refusal::TransactionControl),
        (Traits::TRANSACTION_CONTROL, open && !traits.savepoint(), Refusal::TransactionOpen),
        (Traits::SESSION_STATE, shared, Refusal::SessionState),
        (Traits::TRANSACTION_LOCAL, shared && !atomic, Refusal::TransactionLocal),
        (Traits::SEVERAL, shared, Refusal::Several),
        (Traits::STAND_ALONE, atomic, Refusal::StandAlone),
        (Traits::CALL, atomic, Refusal::Call),
    ];
    let broken = |&&(bit, applies, _): &&(Traits, bool, Refusal)| applies && traits.has(bit);
    rules.iter().find(broken).map(|&(_, _, refusal)| refusal)
}

/// Why a statement with these traits is not sent where a replica may serve it; `None` if it may be.
#[must_use]
pub fn refusal_of_read(traits: Traits) -> Option<Refusal> {
    (!traits.read_only_select()).then_some(Refusal::NotARead)
}

/// Like [`refusal`], for an interface where each text is one statement, in sessions too.
#[must_use]
pub fn refusal_of_one(traits: Traits, place: Place) -> Option<Refusal> {
    match traits.several() {
        true => Some(Refusal::NotOne),
        false => refusal(traits, place),
    }
}
