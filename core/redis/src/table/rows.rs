//! How a row of the table is written in the source.

use std::borrow::Cow;

use super::keys::KeySpec;
use super::place::Rule;
use super::policy::{RequestPolicy, ResponsePolicy};
use super::{BLOCKING, LEAVES, Spec, leaves};

/// `"NAME" arity (FLAGS) (KEYS) request response;` for each command.
macro_rules! table {
    ($($name:literal $arity:literal ($($flag:ident)*) ($($keys:ident)*)
       $request:ident $response:ident;)*) => {
        pub(super) static ROWS: &[$crate::table::Spec] = &[$(
            $crate::table::rows::row(
                $name,
                $arity,
                0 $(| $crate::table::$flag)*,
                const { &[$($keys),*] },
                $crate::table::RequestPolicy::$request,
                $crate::table::ResponsePolicy::$response,
            ),
        )*];
    };
}

pub(super) use table;

pub(super) const fn row(
    name: &'static str,
    arity: i16,
    flags: u8,
    keys: &'static [KeySpec],
    request: RequestPolicy,
    response: ResponsePolicy,
) -> Spec {
    let left = if leaves(name.as_bytes()) { LEAVES } else { 0 };
    Spec {
        name: Cow::Borrowed(name),
        arity,
        flags: flags | left,
        keys: Cow::Borrowed(keys),
        rule: Rule::of(name.as_bytes(), flags & BLOCKING != 0),
        request,
        response,
    }
}
