//! Options of a request, as bits that the host sets.

/// It is a text of any number of statements, for the simple protocol.
pub const SIMPLE: u32 = 1;
/// Its results shall be in binary form.
pub const BINARY: u32 = 1 << 1;
/// It shares a sync point with the next request, which follows in the same turn of the host's
/// loop.
pub const MEMBER: u32 = 1 << 2;
/// It is never prepared because of its count of uses.
pub const UNPREPARED: u32 = 1 << 3;
/// It is a COPY FROM STDIN. The first of its data takes the place of parameters, and the rest
/// is fed.
pub const COPY_IN: u32 = 1 << 4;
/// Its reply is taken as it comes: `READ` says when to stop reading, and the host reports with
/// `onetrip_postgres_taken` what was taken. For a connection that one caller has to itself.
pub const STREAM: u32 = 1 << 5;
/// It may run twice, so that on a shared connection it may share a sync point with neighbouring
/// reads that have this flag, too.
pub const REPEATABLE: u32 = 1 << 6;
/// The statement is described and not run: the types of its parameters, and its columns. The
/// request has no parameters.
pub const DESCRIBE: u32 = 1 << 7;
/// It is a read that goes to another server once its connection has ended. Set by
/// `onetrip_replicas_submit`, and by hosts in Rust.
pub const ELSEWHERE: u32 = 1 << 8;
/// Where the server has lost the statement that it names, or can't use it as it is, the host
/// describes its text anew, so the request is not sent again by itself. Set by hosts in Rust.
pub const ANEW: u32 = 1 << 9;
pub(crate) const ALL: u32 =
    SIMPLE | BINARY | MEMBER | UNPREPARED | COPY_IN | STREAM | REPEATABLE | DESCRIBE;
