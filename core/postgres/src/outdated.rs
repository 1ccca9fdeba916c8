//! What an error says of what a client remembers of the server: names of prepared statements, types
//! and formats. A migration, a path or another session may have changed what they stand for.

/// Whether the server can't use a statement as it is: it does not know it, or its plan now returns
/// other columns. In both cases it has not started.
#[must_use]
pub fn means_stale(code: Option<&[u8]>, routine: Option<&[u8]>) -> bool {
    is_lost(code) || has_other_columns(code, routine)
}

/// Whether the server does not know a prepared statement (FetchPreparedStatement in
/// src/backend/commands/prepare.c), which may be one that the program has named in its text.
#[must_use]
pub fn is_lost(code: Option<&[u8]>) -> bool {
    code == Some(b"26000")
}

/// Whether the plan of a prepared statement now returns other columns (RevalidateCachedQuery in
/// src/backend/utils/cache/plancache.c).
#[must_use]
pub fn has_other_columns(code: Option<&[u8]>, routine: Option<&[u8]>) -> bool {
    code == Some(b"0A000") && routine == Some(b"RevalidateCachedQuery")
}

/// Whether a function that runs in the session, of a trigger say, goes on by a plan that was made for
/// other types (`ExecEvalParamExtern` in src/backend/executor/execExprInterp.c, which PL/pgSQL has of
/// its own in src/pl/plpgsql/src/pl_exec.c). It keeps that plan for as long as the session lasts, so
/// only another session is of use.
#[must_use]
pub fn is_of_an_older_plan(code: Option<&[u8]>, routine: Option<&[u8]>) -> bool {
    let is_one = |routine: &[u8]| {
        routine == b"ExecEvalParamExtern" || routine.starts_with(b"plpgsql_param_eval")
    };
    code == Some(b"42804") && routine.is_some_and(is_one)
}

/// Whether the server refused a statement since it has more or fewer columns than it was asked for
/// (`PortalSetResultFormat` in src/backend/tcop/pquery.c).
#[must_use]
pub fn is_miscounted(code: Option<&[u8]>, routine: Option<&[u8]>) -> bool {
    code == Some(b"08P01") && routine == Some(b"PortalSetResultFormat")
}

/// Whether the server could not make sense of a text with the types that it names: undefined,
/// ambiguous or mismatched types, an object that is gone.
#[must_use]
pub fn is_meaningless(code: Option<&[u8]>) -> bool {
    // XX000: "cache lookup failed for type 16389", of an enum, say, that was dropped and made anew.
    const CODES: [&[u8]; 8] =
        [b"42883", b"42725", b"42804", b"42846", b"42P08", b"42P18", b"42704", b"XX000"];
    code.is_some_and(|code| CODES.contains(&code))
}

/// Whether an error may come from types or formats that were remembered and have changed since:
/// the text has lost its meaning, values don't fit, another number of columns.
#[must_use]
pub fn may_be_outdated(code: Option<&[u8]>, routine: Option<&[u8]>) -> bool {
    const OF_VALUES: [&[u8]; 6] = [b"22P02", b"22P03", b"22003", b"22007", b"22008", b"08P01"];
    is_meaningless(code)
        || code.is_some_and(|code| OF_VALUES.contains(&code))
        || lacks_binary_form(routine)
        || is_refused_by_domain(code, routine)
}

/// Whether a value is none of a domain (`domain_check_input` in src/backend/utils/adt/domains.c), which
/// its column may have left since its text was prepared.
fn is_refused_by_domain(code: Option<&[u8]>, routine: Option<&[u8]>) -> bool {
    matches!(code, Some(b"23514" | b"23502")) && routine == Some(b"domain_check_input")
}

/// Whether the server refused a column of the result that has no binary form
/// (`getTypeBinaryOutputInfo` in src/backend/utils/cache/lsyscache.c), or whose elements have none
/// (`array_send`, `get_range_io_data` and `get_multirange_io_data` in src/backend/utils/adt).
/// `routine`: the function of the server that reported the error.
#[must_use]
pub fn lacks_binary_form(routine: Option<&[u8]>) -> bool {
    const ROUTINES: [&[u8]; 4] = [
        b"getTypeBinaryOutputInfo",
        b"array_send",
        b"get_range_io_data",
        b"get_multirange_io_data",
    ];
    routine.is_some_and(|routine| ROUTINES.contains(&routine))
}
