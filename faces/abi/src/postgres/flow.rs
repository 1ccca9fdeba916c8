//! Requests that are written, and replies that are read, as there is room.

use onetrip_engine::Ticket;
use onetrip_postgres::client::stream::Rest;

/// What is written and read so on one connection.
#[derive(Debug)]
pub(super) struct Flow {
    /// Each COPY FROM STDIN, until it ends. Those behind the first wait for it.
    pub(super) copying: Vec<Copying>,
    /// Each stream that was left early, until it ends.
    pub(super) left: Vec<(u32, Rest)>,
    /// Whether the host reads, as it was told.
    pub(super) reads: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Copying {
    pub(super) token: u32,
    pub(super) ticket: Ticket,
    /// All of its data was handed over.
    pub(super) data_ended: bool,
    /// The host waits until it takes more.
    pub(super) waits: bool,
}

/// What is handed over of a COPY.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    Data(&'a [u8]),
    /// Its data is over.
    Done,
    /// It is given up, for this reason.
    Failed(&'a str),
}

impl Flow {
    pub(super) fn new() -> Flow {
        Flow { copying: Vec::new(), left: Vec::new(), reads: true }
    }
}
