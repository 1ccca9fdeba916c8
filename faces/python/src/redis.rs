//! Redis: commands, their replies, and where they go. `Core`, `State` and `Link` are those of
//! PostgreSQL.

mod cache;
mod cluster;
mod encode;
mod ending;
mod reply;
mod request;
mod scope;
mod sentinel;

pub(crate) use cache::{RedisCache, tell};
pub(crate) use cluster::Router;
pub(crate) use ending::{ended, told};
pub(crate) use reply::push;
pub(crate) use request::{Request, Spec};
pub(crate) use scope::RedisScope;
pub(crate) use sentinel::Sentinel;
