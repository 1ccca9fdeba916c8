//! How a row of the table is written in the source.

use std::borrow::Cow;

use super::keys::KeySpec;
use super::place::Rule;
use super::policy::{RequestPolicy, ResponsePolicy};
use super::{BLOCKING, CACHEABLE, LEAVES, READONLY, Spec, depends_on_more, leaves};

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
    let reads = flags & READONLY != 0 && flags & BLOCKING == 0 && !keys.is_empty();
    let cached = if reads && !depends_on_more(name.as_bytes()) { CACHEABLE } else { 0 };
    Spec {
        name: Cow::Borrowed(name),
        arity,
        flags: flags | left | cached,
        keys: Cow::Borrowed(keys),
        rule: Rule::of(name.as_bytes(), flags & BLOCKING != 0),
        request,
        response,
    }
}
