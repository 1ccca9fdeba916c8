//! Descriptions of commands that the table does not know, as the server gives them: commands of
//! modules and of later versions.

use std::borrow::Cow;

use super::keys::{Begin, Find, KeySpec};
use super::place::Rule;
use super::{
    BLOCKING, CONTAINER, LEAVES, NO_MULTI, READONLY, RequestPolicy, ResponsePolicy, Spec, WRITE,
};
use crate::command::Command;
use crate::fields::{field, items, number, text};
use crate::reply::Reply;

/// Commands as a server describes them, by name.
#[derive(Clone, Debug, Default)]
pub struct Described {
    /// If two have the same name, the later one counts.
    specs: Vec<Spec>,
}

impl Described {
    /// Reads a reply to `COMMAND` or `COMMAND INFO`. Entries that are not understood are left out;
    /// key specifications that are not understood count as unknown.
    #[must_use]
    pub fn read(reply: &Reply<'_>) -> Described {
        let mut described = Described::default();
        for entry in items(reply).into_iter().flatten() {
            described.enter(&entry);
        }
        described
    }

    fn enter(&mut self, entry: &Reply<'_>) {
        let subcommands = items(entry).and_then(|mut fields| fields.nth(SUBCOMMANDS));
        let mut subcommands = subcommands.as_ref().and_then(items);
        let is_container = subcommands.as_mut().is_some_and(|subs| subs.clone().next().is_some());
        if let Some(spec) = read_spec(entry, is_container) {
            self.specs.push(spec);
        }
        // Subcommands have no subcommands of their own.
        for entry in subcommands.into_iter().flatten() {
            if let Some(spec) = read_spec(&entry, false) {
                self.specs.push(spec);
            }
        }
    }

    /// What is known of this command, like [`Spec::of`]: first from the table, then from the
    /// server.
    #[must_use]
    pub fn of(&self, command: &Command) -> Option<&Spec> {
        if let Some(spec) = Spec::of(command).filter(|spec| !spec.has(CONTAINER)) {
            return Some(spec);
        }
        self.find(command).or(Spec::of(command))
    }

    /// What the server said of this command.
    #[must_use]
    pub fn find(&self, command: &Command) -> Option<&Spec> {
        let mut words = command.iter().map(upper);
        let name = words.next()?;
        let spec = self.named(&name)?;
        let sub = if spec.has(CONTAINER) { words.next() } else { None };
        let sub = sub.and_then(|sub| self.named(&format!("{name} {sub}")));
        Some(sub.unwrap_or(spec))
    }

    fn named(&self, name: &str) -> Option<&Spec> {
        self.specs.iter().rfind(|spec| spec.name == name)
    }
}

fn upper(word: &[u8]) -> String {
    // Bytes that are no name of a command are found nowhere.
    String::from_utf8_lossy(&word[..word.len().min(NAME_LEN_MAX)]).to_ascii_uppercase()
}

/// Longer than any name of a command.
const NAME_LEN_MAX: usize = 128;

/// The index of the subcommands in a command's entry.
const SUBCOMMANDS: usize = 9;

fn read_spec(entry: &Reply<'_>, is_container: bool) -> Option<Spec> {
    let fields: Vec<Reply<'_>> = items(entry)?.take(SUBCOMMANDS).collect();
    let name = text(fields.first()?)?.to_ascii_uppercase().replace('|', " ");
    let arity = i16::try_from(number(fields.get(1)?)?).ok()?;
    let said = words(fields.get(2)?);
    let has = |flag: &str| said.iter().any(|word| word == flag);
    let mut flags = [("write", WRITE), ("readonly", READONLY), ("blocking", BLOCKING)]
        .into_iter()
        .chain([("no_multi", NO_MULTI)])
        .fold(0, |flags, (word, flag)| if has(word) { flags | flag } else { flags });
    if is_container {
        flags |= CONTAINER;
    }
    // The description of a module's command does not say whether it can fail halfway.
    if flags & READONLY == 0 {
        flags |= LEAVES;
    }
    let tips = fields.get(7).map(words).unwrap_or_default();
    let rule = Rule::of(name.as_bytes(), flags & BLOCKING != 0);
    let keys = Cow::Owned(keys(&fields, has("movablekeys")));
    let (request, response) = (request(&tips), response(&tips));
    Some(Spec { name: Cow::Owned(name), arity, flags, keys, rule, request, response })
}

fn words(reply: &Reply<'_>) -> Vec<String> {
    items(reply).into_iter().flatten().filter_map(|word| text(&word)).collect()
}

/// From its key specifications; before 7.0, from the places of its first and last key.
fn keys(fields: &[Reply<'_>], moves: bool) -> Vec<KeySpec> {
    if let Some(specs) = fields.get(8).and_then(items) {
        return specs.flat_map(|spec| key_specs(&spec)).collect();
    }
    if moves {
        return vec![KeySpec::Unknown];
    }
    let place = |at: usize| number(fields.get(at)?).and_then(small);
    let found = || {
        let (first, last) = (place(3)?, place(4)?);
        let (first, step) = (usize::try_from(first).ok()?, usize::try_from(place(5)?).ok()?);
        let last = if last < 0 { last } else { last - first as isize };
        let find = Find::Range { last, step, limit: 0 };
        (first > 0).then_some(KeySpec::Found { begin: Begin::Index(first), find })
    };
    found().into_iter().collect()
}

/// A specification that says that it is incomplete leaves other keys unknown.
fn key_specs(spec: &Reply<'_>) -> Vec<KeySpec> {
    let flags = field(spec, "flags").as_ref().map(words).unwrap_or_default();
    let mut specs = vec![key_spec(spec).unwrap_or(KeySpec::Unknown)];
    if flags.iter().any(|flag| flag == "incomplete") {
        specs.push(KeySpec::Unknown);
    }
    specs
}

fn key_spec(spec: &Reply<'_>) -> Option<KeySpec> {
    let part = |name| {
        let part = field(spec, name)?;
        Some((text(&field(&part, "type")?)?, field(&part, "spec")?))
    };
    let (kind, of) = part("begin_search")?;
    let begin = match kind.as_str() {
        "index" => Begin::Index(at(&of, "index")?),
        "keyword" => {
            let word = Cow::Owned(text(&field(&of, "keyword")?)?);
            Begin::Keyword { word, from: signed(&of, "startfrom")? }
        }
        _ => return None,
    };
    let (kind, of) = part("find_keys")?;
    let step = at(&of, "keystep");
    let find = match kind.as_str() {
        "range" => {
            let (last, limit) = (signed(&of, "lastkey")?, at(&of, "limit")?);
            Find::Range { last, step: step?, limit }
        }
        "keynum" => {
            let (count, first) = (at(&of, "keynumidx")?, at(&of, "firstkey")?);
            Find::Counted { count, first, step: step? }
        }
        _ => return None,
    };
    Some(KeySpec::Found { begin, find })
}

fn signed(reply: &Reply<'_>, name: &str) -> Option<isize> {
    number(&field(reply, name)?).and_then(small)
}

fn at(reply: &Reply<'_>, name: &str) -> Option<usize> {
    signed(reply, name).and_then(|number| usize::try_from(number).ok())
}

/// No argument's index is larger than this, so sums of indices fit.
fn small(number: i64) -> Option<isize> {
    isize::try_from(number).ok().filter(|number| number.unsigned_abs() <= PLACE_MAX)
}

const PLACE_MAX: usize = crate::command::ARGUMENTS_MAX;

fn request(tips: &[String]) -> RequestPolicy {
    match tip(tips, "request_policy:") {
        Some("all_nodes") => RequestPolicy::AllNodes,
        Some("all_shards") => RequestPolicy::AllShards,
        Some("multi_shard") => RequestPolicy::MultiShard,
        Some(_) => RequestPolicy::Special,
        None => RequestPolicy::Usual,
    }
}

fn response(tips: &[String]) -> ResponsePolicy {
    match tip(tips, "response_policy:") {
        Some("one_succeeded") => ResponsePolicy::OneSucceeded,
        Some("all_succeeded") => ResponsePolicy::AllSucceeded,
        Some("agg_sum") => ResponsePolicy::Sum,
        Some("agg_min") => ResponsePolicy::Min,
        Some("agg_max") => ResponsePolicy::Max,
        Some("agg_logical_and") => ResponsePolicy::And,
        Some("agg_logical_or") => ResponsePolicy::Or,
        Some(_) => ResponsePolicy::Special,
        None => ResponsePolicy::Usual,
    }
}

fn tip<'a>(tips: &'a [String], kind: &str) -> Option<&'a str> {
    tips.iter().find_map(|tip| tip.strip_prefix(kind))
}
