//! Commands as methods of everything that implements [`Sends`](super::Sends): a client, a session,
//! a pipeline.
//!
//! Each is sent when it is called, or added to its pipeline. A method has the name of its command;
//! a variant of a command has a suffix behind an underscore (`zrange_withscores`), or takes
//! options. If the type of a reply is always the same, the method has it; if it depends on the
//! data, the caller names it:
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
//! Where a command takes several keys, members or values, any iterator over them is accepted:
//! `client.del(["a", "b"])`. A byte string is itself a sequence of numbers in Rust, so a single key
//! of bytes is `client.del([b"key"])`.
//!
//! For a command that is not here use [`cmd`](super::Client::cmd).

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
