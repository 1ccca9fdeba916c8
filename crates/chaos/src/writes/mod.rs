//! The ways to write, one file for each kind. Each records what it wrote and what it was told.

mod batches;
mod pipelines;
mod singles;
mod transactions;
