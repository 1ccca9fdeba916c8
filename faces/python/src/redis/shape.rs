//! What callers get of a reply, the same with RESP2 and RESP3.

use onetrip_redis::Reply;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PySet, PyTuple};

use super::reply::{Misread, as_bytes, text, value};

type Made<'py> = Result<Bound<'py, PyAny>, Misread>;

macro_rules! shapes {
    ($($shape:ident $name:literal,)*) => {
        /// How a reply is converted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Shape { $($shape,)* }

        impl Shape {
            pub(super) fn of(name: &str) -> Option<Shape> {
                match name { $($name => Some(Shape::$shape),)* _ => None }
            }
        }
    };
}

shapes! {
    // As it came.
    Plain "",
    // The same, and bytes also of the texts of the server.
    Wire "wire",
    // None, whatever came.
    Nothing "nothing",
    Bool "bool",
    Bools "bools",
    // Text also where bytes are asked for, since it is no data.
    Text "text",
    TextMap "text_map",
    Float "float",
    Floats "floats",
    Set "set",
    Map "map",
    // A tuple, or None.
    Tuple "tuple",
    // Members with scores.
    Scored "scored",
    // A key, a member, a score.
    KeyScored "key_scored",
    Scan "scan",
    ScanMap "scan_map",
    ScanScored "scan_scored",
    // Entries of a stream.
    Entries "entries",
    // Entries by stream.
    Streams "streams",
}

pub(super) fn shaped<'py>(py: Python<'py>, shape: Shape, reply: Reply<'_>, raw: bool) -> Made<'py> {
    let plain = |reply| value(py, reply, raw);
    match (shape, reply) {
        (Shape::Nothing, _) => Ok(py.None().into_bound(py)),
        (_, Reply::Nil) => plain(Reply::Nil),
        (Shape::Bool, reply) => Ok(is_one(py, &reply)),
        (Shape::Bools, reply) => list(py, items(reply), |item| Ok(is_one(py, &item))),
        (Shape::Float, reply) => float(py, reply),
        (Shape::Floats, reply) => list(py, items(reply), |item| float(py, item)),
        (Shape::Set, reply) => {
            let set = PySet::empty(py)?;
            for item in items(reply) {
                set.add(plain(item)?)?;
            }
            Ok(set.into_any())
        }
        (Shape::Wire, Reply::Simple(bytes)) if raw => Ok(PyBytes::new(py, bytes).into_any()),
        (Shape::Text, reply) => value(py, reply, false),
        (Shape::TextMap, reply) => map(py, reply, false),
        (Shape::Map, reply) => map(py, reply, raw),
        (Shape::Tuple, reply) => {
            let items: Vec<_> = items(reply).map(plain).collect::<Result<_, _>>()?;
            Ok(PyTuple::new(py, items)?.into_any())
        }
        (Shape::Scored, reply) => scored(py, reply, raw),
        (Shape::KeyScored, reply) => {
            let mut items = items(reply);
            let (key, member) = (plain(next(&mut items)?)?, plain(next(&mut items)?)?);
            let score = float(py, next(&mut items)?)?;
            Ok(PyTuple::new(py, [key, member, score])?.into_any())
        }
        (Shape::Scan, reply) => scan(py, reply, plain),
        (Shape::ScanMap, reply) => scan(py, reply, |reply| map(py, reply, raw)),
        (Shape::ScanScored, reply) => scan(py, reply, |reply| scored(py, reply, raw)),
        (Shape::Entries, reply) => entries(py, reply, raw),
        (Shape::Streams, reply) => {
            let made = PyDict::new(py);
            for (stream, found) in pairs(reply)? {
                made.set_item(plain(stream)?, entries(py, found, raw)?)?;
            }
            Ok(made.into_any())
        }
        (Shape::Plain | Shape::Wire, reply) => plain(reply),
    }
}

/// The items of an aggregate; of anything else none.
fn items(reply: Reply<'_>) -> impl Iterator<Item = Reply<'_>> {
    let items = match reply {
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => Some(items),
        Reply::Map(pairs) => Some(pairs.items()),
        _ => None,
    };
    items.into_iter().flatten()
}

fn next<'a>(items: &mut impl Iterator<Item = Reply<'a>>) -> Result<Reply<'a>, Misread> {
    items.next().ok_or(Misread::Malformed)
}

fn list<'py, 'a>(
    py: Python<'py>,
    items: impl Iterator<Item = Reply<'a>>,
    each: impl FnMut(Reply<'a>) -> Made<'py>,
) -> Made<'py> {
    let items: Vec<_> = items.map(each).collect::<Result<_, _>>()?;
    Ok(PyList::new(py, items)?.into_any())
}

fn is_one<'py>(py: Python<'py>, reply: &Reply<'_>) -> Bound<'py, PyAny> {
    let is_one = match reply {
        Reply::Int(number) => *number == 1,
        Reply::Bool(truth) => *truth,
        Reply::Simple(text) => *text == b"OK",
        _ => false,
    };
    PyBool::new(py, is_one).to_owned().into_any()
}

/// RESP2 sends such numbers as texts.
fn float<'py>(py: Python<'py>, reply: Reply<'_>) -> Made<'py> {
    let number = match reply {
        Reply::Nil => return Ok(py.None().into_bound(py)),
        Reply::Double(number) => number,
        Reply::Int(number) => number as f64,
        other => {
            let text = as_bytes(&other).and_then(|text| std::str::from_utf8(text).ok());
            text.and_then(|text| text.parse().ok()).ok_or(Misread::Malformed)?
        }
    };
    Ok(PyFloat::new(py, number).into_any())
}

/// Pairs: a map in RESP3, in RESP2 a list of pairs, or keys and values by turns.
fn pairs(reply: Reply<'_>) -> Result<Vec<(Reply<'_>, Reply<'_>)>, Misread> {
    let nested = match &reply {
        Reply::Array(items) => matches!(items.clone().next(), Some(Reply::Array(_))),
        _ => false,
    };
    let mut rest = items(reply);
    let mut made = Vec::new();
    while let Some(first) = rest.next() {
        made.push(match nested {
            true => {
                let mut pair = items(first);
                (next(&mut pair)?, next(&mut pair)?)
            }
            false => (first, next(&mut rest)?),
        });
    }
    Ok(made)
}

fn map<'py>(py: Python<'py>, reply: Reply<'_>, raw: bool) -> Made<'py> {
    let made = PyDict::new(py);
    for (key, item) in pairs(reply)? {
        made.set_item(value(py, key, raw)?, value(py, item, raw)?)?;
    }
    Ok(made.into_any())
}

fn scored<'py>(py: Python<'py>, reply: Reply<'_>, raw: bool) -> Made<'py> {
    let made = PyList::empty(py);
    for (member, score) in pairs(reply)? {
        made.append(PyTuple::new(py, [value(py, member, raw)?, float(py, score)?])?)?;
    }
    Ok(made.into_any())
}

fn scan<'py, 'a>(
    py: Python<'py>,
    reply: Reply<'a>,
    each: impl FnOnce(Reply<'a>) -> Made<'py>,
) -> Made<'py> {
    let mut items = items(reply);
    let cursor = next(&mut items)?;
    let cursor = as_bytes(&cursor).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let cursor: u64 = cursor.ok_or(Misread::Malformed)?;
    let found = each(next(&mut items)?)?;
    Ok(PyTuple::new(py, [cursor.into_pyobject(py)?.into_any(), found])?.into_any())
}

fn entries<'py>(py: Python<'py>, reply: Reply<'_>, raw: bool) -> Made<'py> {
    list(py, items(reply), |entry| {
        let mut parts = items(entry);
        let id = next(&mut parts)?;
        let id = text(py, as_bytes(&id).ok_or(Misread::Malformed)?)?;
        // One that was deleted has no fields.
        let fields = map(py, parts.next().unwrap_or(Reply::Nil), raw)?;
        Ok(PyTuple::new(py, [id, fields])?.into_any())
    })
}
