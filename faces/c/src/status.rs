//! What the functions of the header return.

pub(crate) const OK: i32 = 0;
pub(crate) const AGAIN: i32 = 1;
pub(crate) const DONE: i32 = 2;
pub(crate) const SERVER: i32 = 3;
pub(crate) const ABORTED: i32 = 4;
pub(crate) const REFUSED: i32 = 5;
pub(crate) const TIMEOUT: i32 = 6;
pub(crate) const CANCELLED: i32 = 7;
pub(crate) const LOST: i32 = 8;
pub(crate) const CONNECT: i32 = 9;
pub(crate) const FAILED: i32 = 10;
pub(crate) const IS_NULL: i32 = 11;
pub(crate) const CONVERSION: i32 = 12;
pub(crate) const RANGE: i32 = 13;
pub(crate) const MISUSE: i32 = 14;
pub(crate) const BUSY: i32 = 15;
pub(crate) const FORKED: i32 = 16;
pub(crate) const INTERNAL: i32 = 17;

/// Their names, in this order.
pub(crate) const NAMES: [&str; 18] = [
    "ok\0",
    "again\0",
    "done\0",
    "server\0",
    "aborted\0",
    "refused\0",
    "timeout\0",
    "cancelled\0",
    "lost\0",
    "connect\0",
    "failed\0",
    "null\0",
    "conversion\0",
    "range\0",
    "misuse\0",
    "busy\0",
    "forked\0",
    "internal\0",
];
