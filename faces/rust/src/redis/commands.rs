//! Commands as methods, for whatever [`Sends`](super::Sends): a client, a session, a pipeline.
//!
//! Each is sent when it is called, or added to its pipeline. A method is called as its command; what else a
//! command can do stands behind an underscore (`zrange_withscores`), or in options. Where the type of a
//! reply is always the same the method knows it; where it depends on the data the caller says it:
//!
//! ```no_run
//! use onetrip::redis::{Client, commands::*};
//!
//! # async fn f(client: &Client) -> Result<(), onetrip::Error> {
//! client.set("greeting", "hello").await?;
//! let greeting: Option<String> = client.get("greeting").await?;
//! let added = client.zadd_multiple("board", [(10.0, "ada"), (12.5, "bob")]).await?;
//! let board = client.zrange_withscores::<Vec<(String, f64)>>("board", 0, -1).await?;
//! let locked = client
//!     .set_options::<Option<()>>("lock", "me", SetOptions::new().nx().ex(30))
//!     .await?
//!     .is_some();
//! # Ok(()) }
//! ```
//!
//! Several keys, members or values are anything that can be iterated over: `client.del(["a", "b"])`. A byte
//! string is a sequence of numbers to Rust, so one key of bytes is `client.del([b"key"])`.
//!
//! A command that is not here is sent with [`cmd`](super::Client::cmd).

mod args;
mod bitmaps;
mod geo;
mod hashes;
mod hyperloglog;
mod keys;
mod lists;
mod options;
mod pubsub;
mod scripts;
mod server;
mod sets;
mod sorted_sets;
mod streams;
mod strings;

pub use bitmaps::BitmapCommands;
pub use geo::GeoCommands;
pub use hashes::HashCommands;
pub use hyperloglog::HyperLogLogCommands;
pub use keys::KeyCommands;
pub use lists::ListCommands;
pub use options::{
    Aggregate, BitField, BitOp, End, ExpireIf, Expiry, GeoArea, GeoOptions, LPosOptions, Overflow,
    ScanOptions, SetOptions, Side, SortOptions, Trim, Unit, XAddOptions, XClaimOptions,
    XReadOptions, ZAddOptions, ZCombine, ZRangeOptions,
};
pub use pubsub::PubSubCommands;
pub use scripts::ScriptCommands;
pub use server::ServerCommands;
pub use sets::SetCommands;
pub use sorted_sets::SortedSetCommands;
pub use streams::StreamCommands;
pub use strings::StringCommands;
