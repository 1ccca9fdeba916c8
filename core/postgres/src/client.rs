//! Everything that a client of PostgreSQL decides, the same in every language. It does no I/O, like
//! the protocol below it.
//!
//! * [`connect`]: the way to a server, as a plan that the host carries out.
//! * [`statements`]: which texts a connection has prepared, and under which names.
//! * [`names`]: how generated names begin.
//! * [`named`]: statements under names that the user chose.
//! * [`copy`], [`stream`]: data that is written, and replies that are read, as there is room.
//! * [`early`]: between a program and a server, what the program need not wait for.
//! * [`exact`]: which values mean the same under every type of their column.
//! * [`first_use`]: what an error says of the first use of a text.
//! * [`migrated`]: what becomes of a statement whose tables, functions or types were changed.
//! * [`identity`]: which cluster, timeline and role a connection leads to.
//! * [`pipeline`]: statements that share sync points, and leave while further ones are issued.
//! * [`position`]: where in the log a write was, and which of the client's are known.
//! * [`replicas`], [`moving`]: which server a read goes to, behind which guard, and where next.
//! * [`said`]: the code and the line of what fails without an error of the server.
//! * [`retry`]: the requests that the engine may send again by itself.
//! * [`lent`]: a connection that serves one program after another, and the proof of its reset.
//! * [`listener`]: notifications on a connection of their own, which reconnects by itself.
//! * [`texts`]: how often a text was used, and what it shows.
//! * [`transaction`]: a BEGIN that leaves with the first statement, and its guard.
//! * [`types`]: types that the server's catalogue must describe.

pub mod connect;
pub mod copy;
pub mod early;
pub mod exact;
pub mod first_use;
pub mod identity;
pub mod lent;
pub mod listener;
pub mod migrated;
pub mod moving;
pub mod named;
pub mod names;
pub mod pipeline;
pub mod position;
pub mod replicas;
pub mod retry;
pub mod said;
pub mod statements;
pub mod stream;
pub mod texts;
pub mod transaction;
pub mod types;
