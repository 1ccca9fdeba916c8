//! Flow control of COPY FROM STDIN and of streams.

use onetrip_engine::Ticket;
use onetrip_postgres::client::stream::Rest;

/// The state of COPY FROM STDIN and of streams on one connection.
#[derive(Debug)]
pub(super) struct Flow {
    /// Each COPY FROM STDIN that has not ended. The later ones wait for the first.
    pub(super) copying: Vec<Copying>,
    /// Each stream whose caller stopped taking it, until it ends.
    pub(super) left: Vec<(u32, Rest)>,
    /// Whether the host was last told to read.
    pub(super) reads: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Copying {
    pub(super) token: u32,
    pub(super) ticket: Ticket,
    /// All of its data was handed over.
    pub(super) data_ended: bool,
    /// The host waits until more data is accepted.
    pub(super) waits: bool,
}

/// What a host hands over for a COPY.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Some of its data.
    Data(&'a [u8]),
    /// The end of the data.
    Done,
    /// The caller gives up, for this reason.
    Failed(&'a str),
}

impl Flow {
    pub(super) fn new() -> Flow {
        Flow { copying: Vec::new(), left: Vec::new(), reads: true }
    }
}
