//! The examples of docs/guide/c.md, compiled and run in their order.
