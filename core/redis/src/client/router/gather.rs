//! Combines the replies of several nodes into one.

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_engine::{Outcome, memory};

use super::failed::{Failed, Why};
use crate::command::Digits;
use crate::redirect::Address;
use crate::scan::{Scan, ScanLimits, Scanner};
use crate::table::ResponsePolicy;

/// The replies to the parts of a command.
pub(super) struct Gather {
    kind: Kind,
    parts: Vec<Option<Result<Bytes, Failed>>>,
    left: usize,
    readonly: bool,
    /// The node of each part, if it went to all.
    nodes: Vec<Address>,
}

/// How replies are combined.
pub(super) enum Kind {
    Policy(ResponsePolicy),
    /// Lists whose items are taken from the parts in this order.
    Ordered(Vec<u32>),
    /// Lists that are joined.
    Lists,
    /// The first reply that is not null.
    FirstKey,
    /// A map from nodes to replies.
    ByNode,
}

impl Gather {
    pub(super) fn new(kind: Kind, parts: usize, readonly: bool) -> Gather {
        let left = parts;
        let parts = std::iter::repeat_with(|| None).take(parts).collect();
        Gather { kind, parts, left, readonly, nodes: Vec::new() }
    }

    pub(super) fn of_nodes(kind: Kind, nodes: Vec<Address>) -> Gather {
        Gather { nodes, ..Gather::new(kind, 0, false) }.with_parts()
    }

    fn with_parts(mut self) -> Gather {
        self.left = self.nodes.len();
        self.parts.resize_with(self.left, || None);
        self
    }

    /// A part has ended. Returns the whole result with the last part.
    pub(super) fn put(
        &mut self,
        part: usize,
        result: Result<Bytes, Failed>,
    ) -> Option<Result<Bytes, Failed>> {
        let place = self.parts.get_mut(part).filter(|place| place.is_none())?;
        *place = Some(result);
        self.left -= 1;
        (self.left == 0).then(|| self.whole())
    }

    fn whole(&mut self) -> Result<Bytes, Failed> {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for part in std::mem::take(&mut self.parts).into_iter().flatten() {
            match part {
                Ok(reply) if error_text(&reply).is_none() => good.push(reply),
                Ok(reply) => {
                    let failed = Failed::new(Outcome::Rejected, Why::Server);
                    bad.push(Failed { reply: Some(reply), ..failed });
                }
                Err(failed) => bad.push(failed),
            }
        }
        let first_wins = matches!(self.kind, Kind::Policy(ResponsePolicy::OneSucceeded));
        if !bad.is_empty() && (good.is_empty() || !first_wins) {
            return Err(combined(bad, !good.is_empty() && !self.readonly));
        }
        let outcome = if self.readonly { Outcome::Rejected } else { Outcome::Applied };
        if !memory::is_there(good.iter().map(|reply| reply.len() + NAME_MAX).sum()) {
            return Err(Failed::new(outcome, Why::NoMemory));
        }
        let failed = Failed::new(outcome, Why::Mismatch);
        put_together(&self.kind, &good, &self.nodes).ok_or(failed)
    }
}

/// The most bytes that the name of a node takes.
const NAME_MAX: usize = 300;

/// The joint failure of parts. `beside` says that other parts succeeded.
fn combined(failures: Vec<Failed>, beside: bool) -> Failed {
    let mut failures = failures.into_iter();
    let none = Failed::new(Outcome::Unknown, Why::Lost);
    let mut first = failures.next().unwrap_or(none);
    for failed in failures {
        if failed.outcome != first.outcome {
            let both = (first.outcome, failed.outcome);
            first.outcome = match both {
                (Outcome::NotSent | Outcome::Rejected, Outcome::NotSent | Outcome::Rejected) => {
                    Outcome::Rejected
                }
                _ => Outcome::Unknown,
            };
        }
    }
    if beside {
        first.outcome = Outcome::Unknown;
    }
    first
}

/// `None` if the replies do not fit together.
fn put_together(kind: &Kind, replies: &[Bytes], nodes: &[Address]) -> Option<Bytes> {
    match kind {
        Kind::Policy(ResponsePolicy::OneSucceeded | ResponsePolicy::AllSucceeded) => {
            replies.first().cloned()
        }
        Kind::Policy(policy) => numbers(*policy, replies),
        Kind::Ordered(order) => ordered(order, replies),
        Kind::Lists => lists(replies),
        Kind::FirstKey => replies.iter().find(|reply| !is_null(reply)).or(replies.first()).cloned(),
        Kind::ByNode => Some(by_node(replies, nodes)),
    }
}

/// Combines numbers, or lists of numbers item by item.
fn numbers(policy: ResponsePolicy, replies: &[Bytes]) -> Option<Bytes> {
    let fold = |a: i64, b: i64| match policy {
        ResponsePolicy::Sum => a.checked_add(b),
        ResponsePolicy::Min => Some(a.min(b)),
        ResponsePolicy::Max => Some(a.max(b)),
        ResponsePolicy::And => Some(i64::from(a != 0 && b != 0)),
        ResponsePolicy::Or => Some(i64::from(a != 0 || b != 0)),
        _ => None,
    };
    let mut out = BytesMut::new();
    let listed = replies.first()?.first() == Some(&b'*');
    let mut row = number_row(replies.first()?, listed)?;
    for reply in &replies[1..] {
        let other = number_row(reply, listed).filter(|other| other.len() == row.len())?;
        for (number, other) in row.iter_mut().zip(other) {
            *number = fold(*number, other)?;
        }
    }
    if listed {
        put_line(&mut out, b'*', row.len() as i64);
    }
    row.iter().for_each(|number| put_line(&mut out, b':', *number));
    Some(out.freeze())
}

fn number_row(reply: &[u8], listed: bool) -> Option<Vec<i64>> {
    if !listed {
        return Some(vec![number(reply)?]);
    }
    let (count, body) = list(reply)?;
    let mut numbers = Vec::new();
    for item in items(body) {
        numbers.push(number(item)?);
    }
    (numbers.len() == count).then_some(numbers)
}

fn ordered(order: &[u32], replies: &[Bytes]) -> Option<Bytes> {
    let mut items_of = Vec::new();
    let mut len = LINE_MAX;
    for reply in replies {
        items_of.push(items(list(reply)?.1));
        len += reply.len();
    }
    let mut out = BytesMut::with_capacity(len);
    put_line(&mut out, b'*', order.len() as i64);
    for part in order {
        out.put_slice(items_of.get_mut(*part as usize)?.next()?);
    }
    items_of.iter_mut().all(|items| items.next().is_none()).then(|| out.freeze())
}

fn lists(replies: &[Bytes]) -> Option<Bytes> {
    let (mut items, mut len) = (0, LINE_MAX);
    for reply in replies {
        items += list(reply)?.0;
        len += reply.len();
    }
    let mut out = BytesMut::with_capacity(len);
    put_line(&mut out, b'*', items as i64);
    for reply in replies {
        out.put_slice(list(reply)?.1);
    }
    Some(out.freeze())
}

/// The most bytes of a line.
const LINE_MAX: usize = 23;

fn by_node(replies: &[Bytes], nodes: &[Address]) -> Bytes {
    let mut out = BytesMut::new();
    put_line(&mut out, b'%', replies.len() as i64);
    for (reply, node) in replies.iter().zip(nodes) {
        let name = node.to_string();
        put_line(&mut out, b'$', name.len() as i64);
        out.put_slice(name.as_bytes());
        out.put_slice(b"\r\n");
        out.put_slice(reply);
    }
    out.freeze()
}

fn put_line(out: &mut BytesMut, kind: u8, value: i64) {
    out.put_u8(kind);
    if value < 0 {
        out.put_u8(b'-');
    }
    Digits::of(value.unsigned_abs(), |digits| out.put_slice(digits));
    out.put_slice(b"\r\n");
}

/// The text of an error; `None` for any other reply.
pub(super) fn error_text(reply: &[u8]) -> Option<&[u8]> {
    let text = match reply.first()? {
        b'-' => &reply[1..],
        b'!' => split_line(reply)?.1,
        _ => return None,
    };
    Some(text.strip_suffix(b"\r\n").unwrap_or(text))
}

fn is_null(reply: &[u8]) -> bool {
    matches!(reply, b"_\r\n" | b"$-1\r\n" | b"*-1\r\n")
}

fn number(reply: &[u8]) -> Option<i64> {
    let (line, rest) = split_line(reply.strip_prefix(b":")?)?;
    rest.is_empty().then(|| parsed(line))?
}

/// The number of items of a list, and the bytes after its line.
fn list(reply: &[u8]) -> Option<(usize, &[u8])> {
    let (line, body) = split_line(reply.strip_prefix(b"*").or(reply.strip_prefix(b"~"))?)?;
    Some((parsed(line)?, body))
}

fn parsed<T: std::str::FromStr>(line: &[u8]) -> Option<T> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\r')?;
    Some((&bytes[..end], bytes.get(end + 2..)?))
}

/// The items of a list, one after the other, of any type. Stops where they can't be read.
pub(super) fn items(mut body: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if body.is_empty() {
            return None;
        }
        let mut scanner = Scanner::new(ScanLimits::default());
        let Ok(Scan::Whole { len, .. }) = scanner.scan(body) else { return None };
        let (item, rest) = body.split_at(len);
        body = rest;
        Some(item)
    })
}
