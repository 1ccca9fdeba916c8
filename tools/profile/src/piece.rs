//! What a source hands over: bytes, with the time at which they passed.

/// Nanoseconds since any moment that is the same for a whole run.
pub type Nanos = u64;

/// Who sent bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The program.
    Client,
    /// The server.
    Server,
}

/// Bytes of one direction of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// When they passed. Times of one connection don't go back.
    pub at: Nanos,
    /// The connection, by any number that no other one has.
    pub connection: u64,
    /// Who sent them.
    pub from: Side,
    /// The bytes, of any number.
    pub bytes: &'a [u8],
}
