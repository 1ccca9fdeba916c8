//! Scripts of one's own.

mod command;
mod expr;
mod failure;
mod machine;
mod names;
mod operation;
mod parse;
mod pipe;
mod plan;
mod random;
mod row;
mod scripts;
mod send;
mod split;
mod statement;
pub mod tables;
mod value;

pub use operation::ScriptOperation;
pub use plan::{Plan, Protocol, Settings};
pub use scripts::{BUILTINS, Mix, Script, builtin, parse_weighted};
