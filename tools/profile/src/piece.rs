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

/// The least round trips of a connection, from where its bytes pass; `None` where nobody measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Legs {
    /// To the program and back.
    pub client: Option<Nanos>,
    /// To the server and back.
    pub server: Option<Nanos>,
}

impl Legs {
    /// The least of both.
    #[must_use]
    pub fn least(self, other: Legs) -> Legs {
        let least = |a: Option<Nanos>, b: Option<Nanos>| a.into_iter().chain(b).min();
        Legs { client: least(self.client, other.client), server: least(self.server, other.server) }
    }

    /// The other where this was not measured.
    pub(crate) fn or(self, other: Legs) -> Legs {
        Legs { client: self.client.or(other.client), server: self.server.or(other.server) }
    }

    /// From the program to the server and back; a client leg that nobody measured counts as none.
    pub(crate) fn whole(self) -> Option<Nanos> {
        Some(self.server?.saturating_add(self.client.unwrap_or(0)))
    }
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
