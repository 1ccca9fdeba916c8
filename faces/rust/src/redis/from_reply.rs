//! Conversions from replies to values of the caller's type.

mod lists;
mod mismatch;
mod numbers;
mod texts;
mod tuples;

use bytes::Bytes;
use onetrip_redis::Value;
use onetrip_redis::reply::Reply as ReplyView;
use onetrip_redis::value::ErrorValue;

pub use mismatch::Mismatch;

/// A type that a reply converts to.
///
/// Servers answer the same with different types: on RESP2 a map is an array of keys and values, a
/// double is a string, and true is 1. Each type here accepts all forms of its meaning, so a program
/// is the same on both. A conversion that would be a guess is refused.
///
/// | Rust | reply |
/// |---|---|
/// | `()` | anything but an error |
/// | `bool` | boolean, the integers 0 and 1, `OK` |
/// | integers | integer, and strings and big numbers that fit |
/// | `f32`, `f64` | double, integer, and strings that are a number |
/// | `String` | strings, if they are UTF-8 |
/// | `Vec<u8>`, `Bytes`, `[u8; N]` | strings; long ones as [`Bytes`] without a copy |
/// | `Option<T>` | nil, or what `T` takes |
/// | `Vec<T>`, `[T; N]`, `HashSet<T>`, `BTreeSet<T>` | array, set, push; a map as keys and values by turns |
/// | `HashMap<K, V>`, `BTreeMap<K, V>`, `Vec<(K, V)>` | map; an array of keys and values by turns, or of arrays of two |
/// | `(A, B, …)` up to 12 | an array of so many; `Vec<(A, B, C)>` also an array in which they come by turns |
/// | `Result<T, ErrorValue>` | an error, or what `T` takes |
/// | [`Value`] | anything, errors too |
///
/// An error of the server among the items fails the whole conversion, unless the item's type is a
/// `Result` or a [`Value`].
///
/// ```
/// use bytes::Bytes;
/// use onetrip::redis::{FromReply, Mismatch, ReplyView};
///
/// struct Percent(f64);
///
/// impl FromReply for Percent {
///     fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<Percent, Mismatch> {
///         let kind = reply.kind();
///         match f64::from_reply(reply, block)? {
///             value @ 0.0..=100.0 => Ok(Percent(value)),
///             _ => Err(Mismatch::unfit(kind, "above 100", "a percentage")),
///         }
///     }
/// }
/// # let (reply, _) = ReplyView::read(b"$4\r\n12.5\r\n").unwrap();
/// # assert!(matches!(Percent::from_reply(reply, &Bytes::new()), Ok(Percent(12.5))));
/// ```
pub trait FromReply: Sized {
    /// Converts a reply that lies in `block`.
    ///
    /// # Errors
    /// The reply is of another kind, or does not fit.
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<Self, Mismatch>;

    /// Converts a reply to a list; some types have other forms as items of a list.
    #[doc(hidden)]
    fn list_from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<Vec<Self>, Mismatch> {
        lists::items(reply, block)
    }
}

impl FromReply for () {
    fn from_reply(reply: ReplyView<'_>, _: &Bytes) -> Result<(), Mismatch> {
        match reply {
            ReplyView::Error(_) => Err(Mismatch::new(&reply, "any reply")),
            _ => Ok(()),
        }
    }
}

impl FromReply for bool {
    fn from_reply(reply: ReplyView<'_>, _: &Bytes) -> Result<bool, Mismatch> {
        match reply {
            ReplyView::Bool(truth) => Ok(truth),
            ReplyView::Int(number @ (0 | 1)) => Ok(number == 1),
            ReplyView::Int(_) => {
                Err(Mismatch::unfit(reply.kind(), "other than 0 and 1", "a boolean"))
            }
            ReplyView::Simple(b"OK") => Ok(true),
            _ => Err(Mismatch::new(&reply, "a boolean")),
        }
    }
}

impl<T: FromReply> FromReply for Option<T> {
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<Option<T>, Mismatch> {
        match reply {
            ReplyView::Nil => Ok(None),
            reply => T::from_reply(reply, block).map(Some),
        }
    }
}

impl<T: FromReply> FromReply for Result<T, ErrorValue> {
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<Self, Mismatch> {
        match reply {
            ReplyView::Error(error) => Ok(Err(ErrorValue::from(error))),
            reply => T::from_reply(reply, block).map(Ok),
        }
    }
}

impl FromReply for Value {
    fn from_reply(reply: ReplyView<'_>, block: &Bytes) -> Result<Value, Mismatch> {
        let kind = reply.kind();
        Value::new(reply, block).map_err(|_| Mismatch::unfit(kind, "nested too deep", "a value"))
    }
}

#[cfg(test)]
mod tests;
