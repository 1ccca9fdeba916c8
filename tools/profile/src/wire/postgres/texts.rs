//! What a text of SQL shows: its skeleton, what it is for, its literals, and who asked.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use onetrip_postgres::message::Format;
use onetrip_postgres::sql::{classify, skeleton};

use super::VALUE_LEN_MAX;
use crate::exchange::{INPUTS_MAX, Kind, Shared, TextId};
use crate::value::Value;

/// A text.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) text: TextId,
    pub(super) kind: Kind,
    pub(super) inputs: Vec<Vec<Value>>,
    pub(super) trace: Option<Value>,
    pub(super) endpoint: Option<Arc<str>>,
}

/// What is shown of a statement that was prepared before anything was seen.
pub(super) const UNSEEN: &str = "(prepared before the profile began)";

/// What is shown of an exchange without a text.
pub(super) fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Login => "(login)",
        Kind::Prepare => "(describe)",
        Kind::Ping => "(sync)",
        _ => "(unread)",
    }
}

/// What was read of texts, by their hashes: drivers send the same one again and again.
#[derive(Debug, Default)]
pub(crate) struct ReadTexts(HashMap<Value, Read>);

/// Texts that are remembered, the length of each, and its literals.
const READ_MAX: usize = 4_096;
const READ_LEN_MAX: usize = 64 << 10;
const READ_LITERALS_MAX: usize = 16;

pub(super) fn read(shared: &mut Shared, sql: &str) -> Read {
    if sql.len() > READ_LEN_MAX {
        return read_anew(shared, sql);
    }
    let hash = shared.values.hash(0, sql.as_bytes());
    if let Some(read) = shared.read.0.get(&hash) {
        read.inputs.iter().flatten().for_each(|value| shared.values.count(*value));
        return read.clone();
    }
    let read = read_anew(shared, sql);
    if shared.read.0.len() >= READ_MAX {
        shared.read.0.clear();
    }
    if read.inputs.len() <= READ_LITERALS_MAX {
        shared.read.0.insert(hash, read.clone());
    }
    read
}

fn read_anew(shared: &mut Shared, sql: &str) -> Read {
    let of = skeleton(sql);
    let named = without_names(&of.text);
    let stripped = without_setting(&named);
    let kind = || kind_of(sql, &of.text);
    let text = if shared.shows_values {
        let hash = shared.values.hash(0, stripped.as_bytes()).0;
        shared.texts.add_as(hash, || sql.to_owned(), kind)
    } else {
        shared.texts.add(&stripped, kind)
    };
    let inputs_max = if shared.memory.is_tight() { 0 } else { INPUTS_MAX };
    let mut inputs = Vec::with_capacity(of.literals.len().min(inputs_max));
    for literal in of.literals.iter().take(inputs_max) {
        let literal = sql[literal.clone()].trim_matches('\'');
        let mut values = Vec::new();
        if literal.len() <= VALUE_LEN_MAX {
            shared.values.of_postgres(literal.as_bytes(), Format::Text, 0, &mut values);
        }
        values.iter().for_each(|value| shared.values.count(*value));
        inputs.push(values);
    }
    let comments = || of.comments.iter().map(|it| &sql[it.clone()]);
    let trace = comments().find_map(trace_in).map(|trace| shared.values.hash(0, trace.as_bytes()));
    let endpoint = comments().find_map(endpoint_in).map(Arc::from);
    Read { text, kind: shared.texts.get(text).kind, inputs, trace, endpoint }
}

/// A setting may have a value that is no literal: `set role alice`.
fn without_setting(skeleton: &str) -> Cow<'_, str> {
    let is_set = skeleton.starts_with("set ") || skeleton.starts_with("alter system ");
    let behind = |mark: &str| skeleton.find(mark).map(|at| at + mark.trim_end().len());
    let ends = [" = ", " to ", " role ", " authorization "].map(behind);
    match ends.into_iter().flatten().min().filter(|_| is_set) {
        Some(end) => Cow::Owned(format!("{} ?", &skeleton[..end])),
        None => Cow::Borrowed(skeleton),
    }
}

/// A skeleton without the names of savepoints and cursors, which programs count up.
fn without_names(text: &str) -> Cow<'_, str> {
    let first = text.split(' ').next().unwrap_or_default();
    let is_rollback = first == "rollback" && text.contains(" to ");
    if (is_rollback || matches!(first, "savepoint" | "release")) && !text.contains("; ") {
        let command = text.rsplit_once(' ').map_or(text, |it| it.0);
        return format!("{command} ?").into();
    }
    let is_cursor = matches!(first, "declare" | "fetch" | "move" | "close");
    let name =
        text.split_once('"').and_then(|(begin, rest)| Some((begin, rest.split_once('"')?.1)));
    match name.filter(|_| is_cursor) {
        Some((begin, end)) => format!("{begin}?{end}").into(),
        None => text.into(),
    }
}

/// What a text is for, and whether a pool sends it when a connection changes hands.
fn kind_of(sql: &str, skeleton: &str) -> (Kind, bool) {
    let text = skeleton.trim_end_matches(';');
    let traits = classify(sql);
    let first = text.split([' ', '(', ';']).next().unwrap_or_default();
    let is_one = !traits.several();
    let kind = match first {
        "" => Kind::Ping,
        "begin" | "start" if is_one => Kind::Begin,
        "commit" | "end" if is_one => Kind::Commit,
        "rollback" if is_one && text.contains(" to ") => Kind::Savepoint,
        "rollback" | "abort" if is_one => Kind::Rollback,
        "savepoint" | "release" if is_one => Kind::Savepoint,
        "set" | "reset" | "show" | "discard" | "deallocate" | "listen" | "unlisten" if is_one => {
            Kind::Session
        }
        // A cursor that can't be opened fails what follows, and to close one needs no answer.
        "declare" | "close" if is_one => Kind::Session,
        // Django sets the time zone of a connection so.
        "select" if text.strip_prefix("select ").is_some_and(sets) => Kind::Session,
        "copy" => Kind::Copy,
        _ if matches!(text, "select ?" | "select ? as ?") => Kind::Ping,
        _ if traits.read_only_select() => Kind::Read,
        _ => Kind::Write,
    };
    let resets =
        text.contains("pg_advisory_unlock_all") || first == "discard" || text == "reset all";
    if resets { (Kind::Session, true) } else { (kind, kind == Kind::Ping) }
}

/// Whether it calls the function that sets a setting.
fn sets(columns: &str) -> bool {
    columns.strip_prefix("pg_catalog.").unwrap_or(columns).starts_with("set_config(")
}

/// The trace in a comment of sqlcommenter: `traceparent='00-<trace>-<span>-01'`.
fn trace_in(comment: &str) -> Option<&str> {
    let (_, value) = comment.split_once("traceparent='")?;
    value.split('\'').next()?.split('-').nth(1).filter(|it| it.len() == 32)
}

/// The endpoint in a comment of sqlcommenter or marginalia: its route, or controller and action.
/// Nothing else of a comment is kept.
fn endpoint_in(comment: &str) -> Option<String> {
    let inside = comment.trim_start_matches("/*").trim_end_matches("*/").trim();
    let of = |name: &str| {
        inside.split(',').find_map(|pair| {
            let (key, value) = pair.split_once(['=', ':'])?;
            let value = value.trim_matches('\'');
            (key.trim() == name && value.len() <= 200).then_some(value)
        })
    };
    match (of("route"), of("controller"), of("action")) {
        (Some(route), ..) => Some(pattern_of(route)),
        (None, Some(controller), Some(action)) => Some(format!("{controller}#{action}")),
        (None, Some(controller), None) => Some(controller.to_owned()),
        _ => None,
    }
}

/// A route as a pattern. Some libraries put the path itself there: what is behind `?` goes, and each
/// part that may be a value is a `?`.
fn pattern_of(route: &str) -> String {
    let path = route.split('?').next().unwrap_or_default();
    let part = |part: &str| {
        let is_version = part.strip_prefix('v').is_some_and(|it| it.len() < 3);
        let is_name = part.len() <= 32 && !part.bytes().any(|byte| byte.is_ascii_digit());
        if is_name || is_version || part.contains(['<', '{', ':']) { part } else { "?" }.to_owned()
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_no_values() {
        for (route, expected) in [
            ("/api/v1/users/<int:user_id>/orders", "/api/v1/users/<int:user_id>/orders"),
            ("/users/{id2}/", "/users/{id2}/"),
            ("/u/4111111111111111?token=x", "/u/?"),
            ("/u/a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11/name", "/u/?/name"),
            ("/reset/abcdefghijklmnopqrstuvwxyzabcdefgh", "/reset/?"),
        ] {
            assert_eq!(pattern_of(route), expected);
        }
    }

    #[test]
    fn names_that_programs_count_up_are_no_part_of_a_text() {
        for (text, expected) in [
            ("savepoint \"s1396_x2\"", "savepoint ?"),
            ("release savepoint s1", "release savepoint ?"),
            ("rollback to savepoint \"s1396_x2\"", "rollback to savepoint ?"),
            ("rollback", "rollback"),
            (
                "declare \"c_1396_1\" no scroll cursor for select \"a\" from t",
                "declare ? no scroll cursor for select \"a\" from t",
            ),
            ("fetch forward 100 from \"c_1396_1\"", "fetch forward 100 from ?"),
            ("close \"c_1396_1\"", "close ?"),
            ("select \"a\" from t", "select \"a\" from t"),
        ] {
            assert_eq!(without_names(text), expected);
        }
    }

    #[test]
    fn a_setting_by_a_function_is_one_of_the_session() {
        for name in ["set_config", "pg_catalog.set_config"] {
            let text = format!("select {name}(?, ?, false)");
            assert_eq!(kind_of(&text, &text).0, Kind::Session, "{text}");
        }
    }
}
