//! Redis and Valkey: commands that pipeline by themselves over one connection.

mod call;
mod client;
mod config;
mod connect;
mod decode;
mod error;
mod frames;
mod from_reply;
mod link;
mod login;
mod metrics;
mod node;
mod pipeline;
mod place;
mod pool;
mod pushes;
mod replies;
mod reply;
mod script;
mod sends;
mod sent;
mod session;
mod trace;
mod turns;

pub use client::{Client, Cmd};
pub use config::{Config, Limits, Protocol};
pub use from_reply::FromReply;
pub use onetrip_redis::{Command, ToArg};
pub use pipeline::{Atomic, Pipeline, Position, Replies, Running};
pub use reply::Reply;
pub use script::{Script, ScriptCall};
pub use sends::Sends;
pub use session::Session;
