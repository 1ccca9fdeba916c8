//! What an error says of a text that was used for the first time, or for the first time since the
//! server's tables or types changed.

use std::time::Duration;

use crate::client::statements::AGE_MAX;
use crate::outdated;

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

/// How long the type of a value is remembered that the server was asked about since the value
/// converts to several: as long as a name that its text was prepared under.
const REMEMBERED_FOR: Duration = AGE_MAX;

/// Whether the server is to be asked anew which of its types a value is to have. `age`: how long ago
/// it said so. Nothing shows by itself that it would say another one by now: it casts the value.
#[must_use]
pub fn is_old(age: Duration) -> bool {
    age >= REMEMBERED_FOR
}

/// Whether the server refused a column of the result that has no binary form.
/// `routine`: the function of the server that reported the error.
#[must_use]
pub fn lacks_binary_form(routine: Option<&str>) -> bool {
    outdated::lacks_binary_form(routine.map(str::as_bytes))
}

/// Whether an error may come from types or formats that were remembered and have changed since, or
/// says so: the text is described anew at its next use.
#[must_use]
pub fn may_be_outdated(sqlstate: Option<&str>, routine: Option<&str>) -> bool {
    let (code, routine) = (sqlstate.map(str::as_bytes), routine.map(str::as_bytes));
    outdated::may_be_outdated(code, routine) || outdated::means_stale(code, routine)
}
