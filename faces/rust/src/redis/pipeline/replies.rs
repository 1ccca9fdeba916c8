//! The replies to a list, and positions in it.

use std::borrow::Cow;
use std::marker::PhantomData;

use bytes::Bytes;

use crate::redis::FromReply;
use crate::redis::decode::decode;
use crate::{Error, Kind};

/// The position of a command's reply in a pipeline, and the type that it converts to.
#[derive(Debug)]
pub struct Position<T> {
    pub(super) at: usize,
    pub(super) result: PhantomData<fn() -> T>,
}

impl<T> Clone for Position<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Position<T> {}

/// The replies to a pipeline, in its order.
#[derive(Clone)]
pub struct Replies {
    pub(super) replies: Vec<Result<Bytes, Error>>,
    pub(super) names: Vec<Cow<'static, str>>,
}

impl Replies {
    /// The reply of the command that this position was returned for.
    ///
    /// # Errors
    /// The command failed, or its reply does not convert; the error names the command.
    pub fn get<T: FromReply>(&self, position: Position<T>) -> Result<T, Error> {
        self.at(position.at)
    }

    /// The reply of the command at this index, from 0.
    ///
    /// # Errors
    /// As [`get`](Self::get); or there is no such command.
    pub fn at<T: FromReply>(&self, at: usize) -> Result<T, Error> {
        let name = self.names.get(at).map_or("", |name| name);
        match self.replies.get(at) {
            Some(Ok(block)) => decode(block, name),
            Some(Err(error)) if error.kind() == Kind::Server => Err(error.clone().about(name)),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::misuse(
                "no_such_reply",
                format!("there is no reply at index {at}: the list has {} commands", self.len()),
            )),
        }
    }

    /// All replies.
    ///
    /// # Errors
    /// The first command that failed, or whose reply does not convert.
    pub fn all<T: FromReply>(&self) -> Result<Vec<T>, Error> {
        (0..self.len()).map(|at| self.at(at)).collect()
    }

    /// How many commands there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Whether there were no commands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }
}

impl std::fmt::Debug for Replies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replies({})", self.len())
    }
}
