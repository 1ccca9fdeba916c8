//! Redis: commands, their replies, and where they go. `Core`, `State` and `Link` are those of
//! PostgreSQL.

mod atomic;
mod cluster;
mod encode;
mod reply;
mod request;
mod scope;
mod shape;

pub(crate) use atomic::settle;
pub(crate) use cluster::Router;
pub(crate) use reply::push;
pub(crate) use request::{Request, Spec, refusal};
pub(crate) use scope::RedisScope;
