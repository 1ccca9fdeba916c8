//! libonetrip: PostgreSQL and Redis for C and C++.
//!
//! The header `include/onetrip/onetrip.h` says what each function does. What is decided of
//! statements, transactions, retries, resets and outcomes is decided in `core/client`; here are
//! sockets, TLS, time, values, and a driver without threads.
//!
//! * `export/`: the functions of the header; `ffi`: its types, and how C is met.
//! * `client`: a handle, and how its caller waits.
//! * `state`: the pool, its connections, who waits for what; `call`, `link`, `session`, `listener`:
//!   its parts.
//! * `opening`: how a connection comes to be; `config`, `redis`: settings; `tls`, `wire`: sockets.
//! * `values`, `result`: parameters, and what was answered.

mod call;
mod client;
mod config;
mod export;
mod failure;
mod ffi;
mod link;
mod listener;
mod opening;
mod redis;
mod result;
mod session;
mod state;
mod status;
mod tls;
mod values;
mod wire;
