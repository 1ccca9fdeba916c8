//! What an error says of a text that was used for the first time, or for the first time since the
//! server's tables or types changed.

use std::time::Duration;

/// How long a question for the types of a text may be unanswered before it is asked once more.
/// Longer than one that waits for nothing takes, so that it is asked once as a rule.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Questions for the types of one text that are open at a time. Each has a connection that others
/// can't use meanwhile; before a third one the oldest is taken back.
pub const ASKED_MAX: usize = 2;

/// Whether a caller who has to know the types of a text asks for them, and does not wait for the
/// answer to a question that is open. `newest`: how long the last one has been unanswered; `None`
/// if none is open. What it waits for, such as a lock or a server that is frozen, need not hold up
/// another one.
#[must_use]
pub fn asks(newest: Option<Duration>) -> bool {
    newest.is_none_or(|age| age >= ASKED_AGAIN_AFTER)
}

/// Whether the server refused a column of the result that has no binary form
/// (`getTypeBinaryOutputInfo` in src/backend/utils/cache/lsyscache.c), or whose elements have none
/// (`array_send`, `get_range_io_data` and `get_multirange_io_data` in src/backend/utils/adt).
/// `routine`: the function of the server that reported the error.
#[must_use]
pub fn lacks_binary_form(routine: Option<&str>) -> bool {
    const ROUTINES: [&str; 4] =
        ["getTypeBinaryOutputInfo", "array_send", "get_range_io_data", "get_multirange_io_data"];
    routine.is_some_and(|routine| ROUTINES.contains(&routine))
}

/// Whether an error may come from types or formats that were remembered and have changed since:
/// undefined, ambiguous or mismatched types, values that don't fit, another number of columns.
#[must_use]
pub fn may_be_outdated(sqlstate: Option<&str>, routine: Option<&str>) -> bool {
    const OF_TYPES: [&str; 9] =
        ["42883", "42725", "42804", "42846", "42P08", "42P18", "22P02", "22P03", "08P01"];
    sqlstate.is_some_and(|code| OF_TYPES.contains(&code)) || lacks_binary_form(routine)
}
