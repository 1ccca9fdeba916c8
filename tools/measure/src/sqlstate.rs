//! What an error of the server means for a run.

/// Whether what others did is the reason, and to try again is the cure: a serialization failure or a
/// deadlock.
pub(crate) fn is_conflict(code: &str) -> bool {
    matches!(code, "40001" | "40P01")
}

/// Whether it comes again each time: the connection (class 08), a statement's name (26), the login (28),
/// a database or schema that isn't there (3D, 3F), what is wrong with a statement (42), an operator or
/// a server that goes down (57P).
pub(crate) fn is_fatal(code: &str) -> bool {
    ["08", "26", "28", "3D", "3F", "42", "57P"].iter().any(|class| code.starts_with(class))
}
