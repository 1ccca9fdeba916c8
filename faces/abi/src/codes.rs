//! The numbers that hosts pass in and get back.

use onetrip_engine::pool::TextKey;

/// What the text of a statement shows, as bits. See `onetrip_postgres::sql::Traits`.
pub mod shows {
    /// It begins, ends or divides a transaction.
    pub const CONTROL: u32 = 1;
    /// Its effect ends with its transaction: SET LOCAL, SET CONSTRAINTS.
    pub const LOCAL: u32 = 1 << 1;
    /// It makes, uses or drops something that lives in the session.
    pub const SESSION: u32 = 1 << 2;
    /// It commits by itself and can't be part of a transaction.
    pub const ALONE: u32 = 1 << 3;
    /// COPY FROM STDIN or TO STDOUT.
    pub const COPY: u32 = 1 << 4;
    /// CALL or DO, which may commit in between.
    pub const CALL: u32 = 1 << 5;
    /// More than one statement.
    pub const SEVERAL: u32 = 1 << 6;
    /// One read, without any sign of writing.
    pub const READ: u32 = 1 << 7;
    /// Transaction control that leaves the transaction open.
    pub const SAVEPOINT: u32 = 1 << 8;
    /// COMMIT or END.
    pub const COMMIT: u32 = 1 << 9;
    /// COPY FROM STDIN.
    pub const COPY_IN: u32 = 1 << 10;
    /// It is a SELECT or similar, an INSERT, UPDATE, DELETE, MERGE or SHOW.
    pub const QUERY: u32 = 1 << 11;
    /// It is not on the short list of statements that can leave nothing behind in the session.
    pub const MAY_LEAVE: u32 = 1 << 12;
    /// The names in later texts of its session may mean other things behind it.
    pub const RENAMES: u32 = 1 << 15;
    /// It may run on a shared connection: one query that shows no session state.
    pub const SHAREABLE: u32 = 1 << 16;
}

/// Where a statement is about to be sent.
pub mod place {
    /// A shared connection, with a sync point of its own.
    pub const SHARED: u32 = 0;
    /// A pipeline on a shared connection.
    pub const PIPELINE: u32 = 1;
    /// A pipeline on a shared connection, between two sync points.
    pub const ALONE: u32 = 2;
    /// A connection of the caller's own.
    pub const SESSION: u32 = 3;
    /// The same, with a transaction open that must control each BEGIN, COMMIT and ROLLBACK.
    pub const TRANSACTION: u32 = 4;
    /// Where a replica may serve it, which only reads may ask for.
    pub const READ: u32 = 5;
}

/// Bits of the key of a text.
pub mod key {
    /// In the key of a pipeline, which otherwise is that of its first statement: it is never taken
    /// away from what is behind it.
    pub const STAYS: u32 = 1 << 30;
}

const _: () = {
    let key = TextKey::from_number(2);
    assert!(key.staying(true).number() == key.number() | key::STAYS);
};

/// How a statement of a segment ended, beside the outcomes.
pub mod member {
    /// The server skipped it.
    pub const SKIPPED: u32 = 5;
}

/// Why a request is refused. Nothing of it was sent, and nothing comes under its token.
pub mod refused {
    /// The connection has ended, or takes no new requests.
    pub const CLOSED: f64 = -1.0;
    /// The queue is full.
    pub const FULL: f64 = -2.0;
    /// It is malformed: its lengths do not fit, a text is not UTF-8 or contains a zero byte, a flag
    /// is unknown, or its token is 0, too large or already in use.
    pub const MALFORMED: f64 = -3.0;
    /// The name already stands for another text.
    pub const NAME_TAKEN: f64 = -4.0;
    /// There is no memory for it.
    pub const NO_MEMORY: f64 = -5.0;
    /// It is longer than the server takes.
    pub const TOO_LONG: f64 = -6.0;
}
