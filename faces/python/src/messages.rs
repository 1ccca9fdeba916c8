//! Messages in the blocks of a reply.

use bytes::Bytes;
use onetrip_postgres::message::tag::backend;

/// A message: its tag, and its body.
pub(crate) type Message<'a> = (u8, &'a [u8]);

/// The messages of blocks. The engine hands over whole ones, so what is left of a block is none.
pub(crate) fn messages(blocks: &[Bytes]) -> impl Iterator<Item = Message<'_>> {
    blocks.iter().flat_map(|block| Messages { rest: block })
}

/// The messages of one block.
pub(crate) struct Messages<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        let (head, rest) = self.rest.split_first_chunk::<5>()?;
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let (body, rest) = rest.split_at_checked((len as usize).checked_sub(4)?)?;
        self.rest = rest;
        Some((head[0], body))
    }
}

/// What a block says of columns.
pub(crate) enum Front {
    /// The body of a RowDescription.
    Columns(Bytes),
    /// Nothing, and rows have begun, or the reply is over.
    Rows,
    /// Nothing yet.
    Nothing,
}

/// What stands in front of the rows.
pub(crate) fn front(block: &Bytes) -> Front {
    for (tag, body) in (Messages { rest: block }) {
        match tag {
            backend::ROW_DESCRIPTION => return Front::Columns(block.slice_ref(body)),
            backend::DATA_ROW | backend::COMMAND_COMPLETE => return Front::Rows,
            _ => {}
        }
    }
    Front::Nothing
}
