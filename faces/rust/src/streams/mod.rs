//! Results and copies of any length in bounded memory, on a connection that they have to
//! themselves.
//!
//! A stream is read only as fast as its reader takes it: once enough is buffered, the driver stops
//! reading the socket, and so the server stops sending. That takes no trips, whatever the latency,
//! and the server plans the statement as any other. (A portal that is fetched piece by piece costs
//! a trip per piece, and rules out parallel plans.) Data that is written waits for room in the
//! socket.

mod binary_in;
mod binary_out;
mod copy_in;
mod copy_out;
mod copy_row;
mod flow;
mod large;
mod lease;
mod messages;
mod methods;
mod pieces;
mod rows;

pub use binary_in::BinaryCopyIn;
pub use binary_out::BinaryCopyOut;
pub use copy_in::CopyIn;
pub use copy_out::CopyOut;
pub use copy_row::{CopyRow, CopyValue};
pub(crate) use large::execute_large;
pub(crate) use lease::Lease;
pub(crate) use methods::stream_methods;
pub use pieces::{RowPieces, ValuePieces};
pub use rows::RowStream;

/// The progress of a COPY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of copy data that were submitted to be sent, or received.
    pub bytes: u64,
    /// Rows of a [`BinaryCopyIn`], or rows received. Raw data that is sent is not parsed, so there
    /// it is 0.
    pub rows: u64,
}

/// The callback for the progress of a COPY.
pub(crate) type OnProgress = Box<dyn FnMut(Progress) + Send + Sync>;
