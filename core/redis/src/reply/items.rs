//! The items of an aggregate, read one after the other.

use super::{Malformed, Reply};
use crate::head::Head;
use crate::raw::{Raw, skip_items};

/// The items of an array, a set or a push. They were checked when the reply was read, so reading
/// them can't fail.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    bytes: &'a [u8],
    /// How many are left, if the server gave their number.
    left: Option<u64>,
}

impl<'a> Items<'a> {
    /// The bytes must be this many whole values.
    pub(crate) fn new(bytes: &'a [u8], left: Option<u64>) -> Items<'a> {
        Items { bytes, left }
    }

    /// The bytes of the items that are left.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many are left. `None` for a streamed aggregate, which servers don't send.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        self.left
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next item, and the attributes in front of it.
    pub fn next_with_attributes(&mut self) -> Option<(Attributes<'a>, Reply<'a>)> {
        let (attributes, reply, rest) = Reply::read_with_attributes(self.bytes).ok()?;
        self.bytes = rest;
        self.left = self.left.map(|left| left.saturating_sub(1));
        Some((attributes, reply))
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Reply<'a>;

    fn next(&mut self) -> Option<Reply<'a>> {
        self.next_with_attributes().map(|(_, reply)| reply)
    }

    // The server's number is exact: the items were counted.
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.left.and_then(|left| usize::try_from(left).ok());
        (left.unwrap_or(0), left)
    }
}

/// The entries of a map.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    items: Items<'a>,
}

impl<'a> Pairs<'a> {
    pub(crate) fn new(items: Items<'a>) -> Pairs<'a> {
        Pairs { items }
    }

    /// How many entries are left. `None` for a streamed map, which servers don't send.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        self.items.left.map(|left| left / 2)
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Keys and values alternating, as RESP2 has them.
    #[must_use]
    pub fn items(self) -> Items<'a> {
        self.items
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (Reply<'a>, Reply<'a>);

    fn next(&mut self) -> Option<(Reply<'a>, Reply<'a>)> {
        Some((self.items.next()?, self.items.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.items.size_hint();
        (least / 2, most.map(|most| most / 2))
    }
}

/// The attributes of a value, which come in front of it: entries like those of a map. Mostly there
/// are none.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    bytes: &'a [u8],
    /// The entries of the attributes that were begun.
    open: Pairs<'a>,
}

impl<'a> Attributes<'a> {
    /// The bytes must be whole attributes, one after the other.
    pub(crate) fn new(bytes: &'a [u8]) -> Attributes<'a> {
        Attributes { bytes, open: Pairs::new(Items::new(&[], Some(0))) }
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clone().next().is_none()
    }

    fn open_next(&mut self) -> Result<(), Malformed> {
        let raw = Raw::read(self.bytes)?;
        if let Head::Items(len) = raw.head {
            self.bytes = skip_items(raw.behind, len)?;
            let items = &raw.behind[..raw.behind.len() - self.bytes.len()];
            self.open = Pairs::new(Items::new(items, Some(len)));
        }
        Ok(())
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (Reply<'a>, Reply<'a>);

    fn next(&mut self) -> Option<(Reply<'a>, Reply<'a>)> {
        while self.open.is_empty() {
            self.open_next().ok()?;
        }
        self.open.next()
    }
}
