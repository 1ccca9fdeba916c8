//! Private Redis or Valkey servers, and clusters of them, for tests, the demo and benchmarks.
//!
//! [`Server::start`] gives a server within a tenth of a second. It listens on 127.0.0.1 and on a
//! Unix socket in a directory of its own, asks for a password, keeps nothing on disk, touches no
//! other server of the machine, does not run as root, and ends with the process that started it,
//! however that process ends. [`Cluster::start`] gives several that share the hash slots,
//! [`Sentinels::start`] a master and replicas that Sentinels watch over.
//!
//! This module has: finding the program (`installation`), its configuration (`settings`), its life
//! (`server`), the server shared by the tests of one binary (`shared`), clusters (`cluster`), the
//! move of a hash slot (`slot_move`), and the little of the protocol that these need (`plain`).
//!
//! ```no_run
//! use onetrip_lab::redis::{Server, Settings};
//!
//! let server = Server::start(Settings::default())?;
//! println!("Redis {} answers at {}", server.version(), server.url());
//! server.stop()?;
//! # Ok::<(), onetrip_lab::redis::LabError>(())
//! ```

mod cluster;
pub mod commanded;
mod installation;
pub mod model;
mod plain;
mod sentinels;
mod server;
mod settings;
mod shared;
mod slot_move;

pub use crate::private::LabError;
pub use cluster::{Cluster, ClusterSettings, HASH_SLOTS};
pub use installation::{Installation, REDIS_SERVER_VARIABLE};
pub use plain::{Answer, Plain};
pub use sentinels::{SentinelSettings, Sentinels};
pub use server::Server;
pub use settings::{ClientCertificates, Settings, Tls};
pub use shared::{found_or_skipped, shared};
pub use slot_move::SlotMove;
