//! What callers get of a reply: the same with RESP2 and RESP3, for languages whose values are made
//! at run time.

use std::borrow::Cow;

use crate::Reply;

/// Makes the values of a language.
pub trait Make {
    /// A value.
    type Made;
    /// Why there is none.
    type Fault: From<Unfit>;

    /// A reply that is no aggregate. `raw`: bytes, where strings would be made of data.
    ///
    /// # Errors
    /// The language can't hold it.
    fn scalar(&self, reply: Reply<'_>, raw: bool) -> Result<Self::Made, Self::Fault>;

    /// Several values.
    ///
    /// # Errors
    /// As for a scalar.
    fn several(&self, kind: Several, items: Vec<Self::Made>) -> Result<Self::Made, Self::Fault>;

    /// Keys with their values.
    ///
    /// # Errors
    /// As for a scalar.
    fn map(&self, pairs: Vec<(Self::Made, Self::Made)>) -> Result<Self::Made, Self::Fault>;
}

/// What several values are made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Several {
    /// In order, of any number.
    List,
    /// In order, of a number that is known.
    Tuple,
    /// Without order.
    Set,
}

/// A reply is not what its command is answered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit;

macro_rules! shapes {
    ($($(#[doc = $doc:literal])+ $shape:ident $name:literal,)*) => {
        /// How a reply is converted.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Shape { $($(#[doc = $doc])+ $shape,)* #[doc = "None, whatever came."] #[default] Nothing }

        impl Shape {
            /// A shape by its name.
            #[must_use]
            pub fn of(name: &str) -> Option<Shape> {
                match name { $($name => Some(Shape::$shape),)* "nothing" => Some(Shape::Nothing), _ => None }
            }
        }
    };
}

shapes! {
    /// As it came.
    Plain "",
    /// The same, and bytes also of the texts of the server.
    Wire "wire",
    /// Whether it is 1, true or OK.
    Bool "bool",
    /// A list of these.
    Bools "bools",
    /// Text also where bytes are asked for, since it is no data.
    Text "text",
    /// The same of keys and values.
    TextMap "text_map",
    /// A number, which RESP2 sends as a text.
    Float "float",
    /// A list of these.
    Floats "floats",
    /// Items without order.
    Set "set",
    /// Keys with their values.
    Map "map",
    /// So many items as there always are, or nothing.
    Tuple "tuple",
    /// Members with scores.
    Scored "scored",
    /// A key, a member, a score.
    KeyScored "key_scored",
    /// A cursor, and what was found.
    Scan "scan",
    /// The same with pairs.
    ScanMap "scan_map",
    /// The same with members and scores.
    ScanScored "scan_scored",
    /// Entries of a stream: an identifier, and fields with their values.
    Entries "entries",
    /// Entries by stream.
    Streams "streams",
}

/// Makes what a caller gets of a reply.
///
/// # Errors
/// The reply is not what its command is answered by, or the language can't hold it.
pub fn made<M: Make>(
    make: &M,
    shape: Shape,
    reply: Reply<'_>,
    raw: bool,
) -> Result<M::Made, M::Fault> {
    let plain = |reply| value(make, reply, raw);
    match (shape, reply) {
        (Shape::Nothing, _) => plain(Reply::Nil),
        (_, Reply::Nil) => plain(Reply::Nil),
        (Shape::Bool, reply) => plain(Reply::Bool(is_one(&reply))),
        (Shape::Bools, reply) => list(make, reply, |item| plain(Reply::Bool(is_one(&item)))),
        (Shape::Float, reply) => plain(float(reply)?),
        (Shape::Floats, reply) => list(make, reply, |item| plain(float(item)?)),
        (Shape::Set, reply) => several(make, Several::Set, items(reply), plain),
        (Shape::Wire, Reply::Simple(text)) if raw => plain(Reply::Bulk(Cow::Borrowed(text))),
        (Shape::Text, reply) => value(make, reply, false),
        (Shape::TextMap, reply) => map(make, reply, |item| value(make, item, false)),
        (Shape::Map, reply) => map(make, reply, plain),
        (Shape::Tuple, reply) => several(make, Several::Tuple, items(reply), plain),
        (Shape::Scored, reply) => scored(make, reply, raw),
        (Shape::KeyScored, reply) => {
            let mut items = items(reply);
            let (key, member) = (plain(next(&mut items)?)?, plain(next(&mut items)?)?);
            let score = plain(float(next(&mut items)?)?)?;
            make.several(Several::Tuple, vec![key, member, score])
        }
        (Shape::Scan, reply) => scan(make, reply, plain),
        (Shape::ScanMap, reply) => scan(make, reply, |found| map(make, found, plain)),
        (Shape::ScanScored, reply) => scan(make, reply, |found| scored(make, found, raw)),
        (Shape::Entries, reply) => entries(make, reply, raw),
        (Shape::Streams, reply) => {
            let of = |(stream, found)| Ok((plain(stream)?, entries(make, found, raw)?));
            make.map(pairs(reply)?.into_iter().map(of).collect::<Result<_, M::Fault>>()?)
        }
        (Shape::Plain | Shape::Wire, reply) => plain(reply),
    }
}

/// As it came.
fn value<M: Make>(make: &M, reply: Reply<'_>, raw: bool) -> Result<M::Made, M::Fault> {
    let plain = |reply| value(make, reply, raw);
    match reply {
        Reply::Array(items) | Reply::Push(items) => several(make, Several::List, items, plain),
        Reply::Set(items) => several(make, Several::Set, items, plain),
        Reply::Map(pairs) => {
            let of = |(key, item)| Ok((plain(key)?, plain(item)?));
            make.map(pairs.map(of).collect::<Result<_, M::Fault>>()?)
        }
        scalar => make.scalar(scalar, raw),
    }
}

fn several<'a, M: Make>(
    make: &M,
    kind: Several,
    items: impl Iterator<Item = Reply<'a>>,
    each: impl FnMut(Reply<'a>) -> Result<M::Made, M::Fault>,
) -> Result<M::Made, M::Fault> {
    make.several(kind, items.map(each).collect::<Result<_, _>>()?)
}

fn list<'a, M: Make>(
    make: &M,
    reply: Reply<'a>,
    each: impl FnMut(Reply<'a>) -> Result<M::Made, M::Fault>,
) -> Result<M::Made, M::Fault> {
    several(make, Several::List, items(reply), each)
}

fn map<'a, M: Make>(
    make: &M,
    reply: Reply<'a>,
    each: impl Fn(Reply<'a>) -> Result<M::Made, M::Fault>,
) -> Result<M::Made, M::Fault> {
    let of = |(key, item)| Ok((each(key)?, each(item)?));
    make.map(pairs(reply)?.into_iter().map(of).collect::<Result<_, M::Fault>>()?)
}

fn scored<M: Make>(make: &M, reply: Reply<'_>, raw: bool) -> Result<M::Made, M::Fault> {
    let of = |(member, score)| {
        let pair = vec![value(make, member, raw)?, value(make, float(score)?, raw)?];
        make.several(Several::Tuple, pair)
    };
    let made = pairs(reply)?.into_iter().map(of).collect::<Result<_, M::Fault>>()?;
    make.several(Several::List, made)
}

fn scan<'a, M: Make>(
    make: &M,
    reply: Reply<'a>,
    each: impl FnOnce(Reply<'a>) -> Result<M::Made, M::Fault>,
) -> Result<M::Made, M::Fault> {
    let mut items = items(reply);
    let cursor = next(&mut items)?;
    let digits =
        text_of(&cursor).filter(|text| text.iter().all(u8::is_ascii_digit)).ok_or(Unfit)?;
    // It has 64 bits without a sign.
    let cursor = make.scalar(Reply::BigNumber(digits), false)?;
    let found = each(next(&mut items)?)?;
    make.several(Several::Tuple, vec![cursor, found])
}

fn entries<M: Make>(make: &M, reply: Reply<'_>, raw: bool) -> Result<M::Made, M::Fault> {
    list(make, reply, |entry| {
        let mut parts = items(entry);
        let id = value(make, next(&mut parts)?, false)?;
        // One that was deleted has no fields.
        let fields = parts.next().unwrap_or(Reply::Nil);
        let fields = map(make, fields, |item| value(make, item, raw))?;
        make.several(Several::Tuple, vec![id, fields])
    })
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

fn next<'a>(items: &mut impl Iterator<Item = Reply<'a>>) -> Result<Reply<'a>, Unfit> {
    items.next().ok_or(Unfit)
}

/// Pairs: a map in RESP3, in RESP2 a list of pairs, or keys and values by turns.
fn pairs(reply: Reply<'_>) -> Result<Vec<(Reply<'_>, Reply<'_>)>, Unfit> {
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

fn is_one(reply: &Reply<'_>) -> bool {
    match reply {
        Reply::Int(number) => *number == 1,
        Reply::Bool(truth) => *truth,
        Reply::Simple(text) => *text == b"OK",
        _ => false,
    }
}

fn float(reply: Reply<'_>) -> Result<Reply<'_>, Unfit> {
    Ok(match reply {
        Reply::Nil | Reply::Double(_) => reply,
        Reply::Int(number) => Reply::Double(number as f64),
        other => {
            let text = text_of(&other).and_then(|text| std::str::from_utf8(text).ok());
            Reply::Double(text.and_then(|text| text.parse().ok()).ok_or(Unfit)?)
        }
    })
}

fn text_of<'r>(reply: &'r Reply<'_>) -> Option<&'r [u8]> {
    match reply {
        Reply::Simple(text) | Reply::BigNumber(text) | Reply::Verbatim { text, .. } => Some(text),
        Reply::Bulk(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes values as text.
    struct Text;

    impl Make for Text {
        type Made = String;
        type Fault = Unfit;

        fn scalar(&self, reply: Reply<'_>, raw: bool) -> Result<String, Unfit> {
            Ok(match reply {
                Reply::Nil => "nil".to_owned(),
                Reply::Int(number) => number.to_string(),
                Reply::Double(number) => format!("{number:?}"),
                Reply::Bool(truth) => truth.to_string(),
                Reply::Bulk(text) if raw => format!("b'{}'", text.escape_ascii()),
                other => text_of(&other).ok_or(Unfit)?.escape_ascii().to_string(),
            })
        }

        fn several(&self, kind: Several, items: Vec<String>) -> Result<String, Unfit> {
            let (open, end) = match kind {
                Several::List => ('[', ']'),
                Several::Tuple => ('(', ')'),
                Several::Set => ('{', '}'),
            };
            Ok(format!("{open}{}{end}", items.join(" ")))
        }

        fn map(&self, pairs: Vec<(String, String)>) -> Result<String, Unfit> {
            let pairs: Vec<_> = pairs.iter().map(|(key, item)| format!("{key}:{item}")).collect();
            Ok(format!("{{{}}}", pairs.join(" ")))
        }
    }

    fn shaped(name: &str, reply: &[u8], raw: bool) -> Result<String, Unfit> {
        let (reply, _) = Reply::read(reply).map_err(|_| Unfit)?;
        made(&Text, Shape::of(name).ok_or(Unfit)?, reply, raw)
    }

    #[test]
    fn both_protocols_give_the_same() {
        for (name, two, three, expected) in [
            ("map", "*2\r\n+a\r\n:1\r\n", "%1\r\n+a\r\n:1\r\n", "{a:1}"),
            ("bool", ":1\r\n", "#t\r\n", "true"),
            ("bools", "*2\r\n:1\r\n:0\r\n", "*2\r\n#t\r\n#f\r\n", "[true false]"),
            ("float", "$3\r\n1.5\r\n", ",1.5\r\n", "1.5"),
            ("floats", "*2\r\n$1\r\n2\r\n$-1\r\n", "*2\r\n,2\r\n_\r\n", "[2.0 nil]"),
            ("set", "*1\r\n+a\r\n", "~1\r\n+a\r\n", "{a}"),
            ("scored", "*2\r\n+m\r\n$3\r\n1.5\r\n", "*1\r\n*2\r\n+m\r\n,1.5\r\n", "[(m 1.5)]"),
            (
                "key_scored",
                "*3\r\n+k\r\n+m\r\n$1\r\n2\r\n",
                "*3\r\n+k\r\n+m\r\n,2\r\n",
                "(k m 2.0)",
            ),
            (
                "streams",
                "*1\r\n*2\r\n+s\r\n*1\r\n*2\r\n+1-1\r\n*2\r\n+f\r\n+v\r\n",
                "%1\r\n+s\r\n*1\r\n*2\r\n+1-1\r\n*2\r\n+f\r\n+v\r\n",
                "{s:[(1-1 {f:v})]}",
            ),
            ("tuple", "*-1\r\n", "_\r\n", "nil"),
        ] {
            assert_eq!(shaped(name, two.as_bytes(), false).as_deref(), Ok(expected), "{name}");
            assert_eq!(shaped(name, three.as_bytes(), false).as_deref(), Ok(expected), "{name}");
        }
    }

    #[test]
    fn data_is_bytes_where_that_is_asked_for_and_the_servers_texts_are_not() {
        assert_eq!(shaped("", b"$1\r\na\r\n", true).as_deref(), Ok("b'a'"));
        assert_eq!(shaped("", b"+OK\r\n", true).as_deref(), Ok("OK"));
        assert_eq!(shaped("wire", b"+OK\r\n", true).as_deref(), Ok("b'OK'"));
        assert_eq!(shaped("text", b"$1\r\na\r\n", true).as_deref(), Ok("a"));
        assert_eq!(
            shaped("text_map", b"*2\r\n$1\r\na\r\n$1\r\nb\r\n", true).as_deref(),
            Ok("{a:b}")
        );
        assert_eq!(shaped("nothing", b"$1\r\na\r\n", true).as_deref(), Ok("nil"));
    }

    #[test]
    fn cursors_have_64_bits_and_what_does_not_fit_is_said() {
        let scan = b"*2\r\n$20\r\n18446744073709551615\r\n*1\r\n+a\r\n";
        assert_eq!(shaped("scan", scan, false).as_deref(), Ok("(18446744073709551615 [a])"));
        assert_eq!(shaped("scan", b"*2\r\n$2\r\n-1\r\n*0\r\n", false), Err(Unfit));
        assert_eq!(shaped("scan", b"*1\r\n+0\r\n", false), Err(Unfit));
        assert_eq!(shaped("map", b"*3\r\n+a\r\n+b\r\n+c\r\n", false), Err(Unfit));
        assert_eq!(shaped("float", b"+x\r\n", false), Err(Unfit));
        assert_eq!(Shape::of("no such"), None);
    }
}
