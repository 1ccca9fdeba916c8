//! Arrays with an element for which the type that was learned has no room, as a `datetime` in a
//! `date[]`: the whole of them leaves as its text, from which the server takes what its type has room
//! for by then. (It casts no range or composite to another one.)

use onetrip_postgres::binary::array;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDate, PyDateTime, PyFloat, PyInt, PyString, PyTzInfoAccess};

use crate::encode::{FIRST_DAY, LAST_DAY, days_of, elements, loses, whole_text};
use crate::python;
use crate::types::{self, Kind, Type};

/// The dimensions of an array (MAXDIM in src/include/utils/array.h). A list can contain itself.
const DIMENSIONS_MAX: usize = 6;

/// The text of such a value; none where its binary form is right, or one of its parts has no text.
pub(crate) fn text(type_: &Type, value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    let Kind::Array(of) = &type_.base().kind else { return None };
    if !(may_lose(of) && any_lost(of, value, 1)) {
        return None;
    }
    let mut out = Vec::new();
    put_array(of, value, 1, &mut out)?;
    Some(out)
}

fn may_lose(of: &Type) -> bool {
    use Kind::{Date, Float4, Float8, Numeric, Own, TimestampTz, Uuid};
    matches!(of.base().kind, Date | Float4 | Float8 | Numeric | TimestampTz | Uuid | Own(_))
}

/// Whether an element loses something. To find that out costs less than a text of all.
fn any_lost(of: &Type, value: &Bound<'_, PyAny>, depth: usize) -> bool {
    let all = elements(value).filter(|_| depth <= DIMENSIONS_MAX).unwrap_or_default();
    let is_lost = |it: &Bound<'_, PyAny>| loses(of, it) || any_lost(of, it, depth + 1);
    all.iter().any(is_lost)
}

fn put_array(of: &Type, value: &Bound<'_, PyAny>, depth: usize, out: &mut Vec<u8>) -> Option<()> {
    let all = elements(value).filter(|_| depth <= DIMENSIONS_MAX)?;
    out.push(b'{');
    for (number, value) in all.iter().enumerate() {
        if number > 0 {
            out.push(of.delimiter);
        }
        if value.is_none() {
            out.extend_from_slice(b"NULL");
        } else if elements(value).is_some() {
            put_array(of, value, depth + 1, out)?;
        } else {
            let is_lost = loses(of, value);
            let text = if is_lost { whole_text(of, value).ok()? } else { text_of(of, value)? };
            array::put_quoted(out, text.to_str().ok()?.as_bytes());
        }
    }
    out.push(b'}');
    Some(())
}

/// The text of a part that would lose nothing; none of what its type does not take.
fn text_of<'py>(of: &Type, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyString>> {
    let py = value.py();
    match &types::without_ends(of.base()).kind {
        Kind::Date if is_end(of, value) => None,
        Kind::Date if value.is_instance_of::<PyDateTime>() => whole_text(of, value).ok(),
        Kind::Date if value.is_instance_of::<PyDate>() => value.str().ok(),
        // One without a zone is none, and in the drop-in its ends have no text.
        Kind::TimestampTz => {
            let is_aware = |it: &Bound<'_, PyDateTime>| it.get_tzinfo().is_some();
            let moment = value.cast::<PyDateTime>().ok().filter(|it| is_aware(it))?;
            (!matches!(days_of(moment), FIRST_DAY | LAST_DAY))
                .then(|| whole_text(of, value).ok())?
        }
        Kind::Float4 | Kind::Float8 | Kind::Numeric => {
            let is_decimal =
                python::decimal(py).is_ok_and(|of| value.is_instance(of).unwrap_or(false));
            let is_number = value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>();
            let is_number = is_number && !value.is_instance_of::<PyBool>();
            (is_decimal || is_number).then(|| whole_text(of, value).ok()).flatten()
        }
        Kind::Uuid => {
            let is_uuid = python::uuid(py).is_ok_and(|of| value.is_instance(of).unwrap_or(false));
            is_uuid.then(|| value.str().ok()).flatten()
        }
        Kind::Own(codec) => text_of(types::written_as(codec)?, value),
        _ => None,
    }
}

/// Whether a day stands for infinity, as in the drop-in for asyncpg.
fn is_end(of: &Type, value: &Bound<'_, PyAny>) -> bool {
    let is_end = |it: &Bound<'_, PyDate>| matches!(days_of(it), FIRST_DAY | LAST_DAY);
    matches!(of.base().kind, Kind::Own(_)) && value.cast::<PyDate>().is_ok_and(is_end)
}
