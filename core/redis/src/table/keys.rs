//! Finds the arguments of a command that are keys, by the key specifications of its description,
//! which say where the keys begin and how they are counted.

use std::borrow::Cow;
use std::slice;

use crate::command::{Args, Command};

/// The arguments of a command that are keys.
#[derive(Clone, Debug)]
pub struct Keys<'a> {
    command: &'a Command,
    specs: slice::Iter<'a, KeySpec>,
    run: Run<'a>,
}

/// How some keys of a command are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySpec {
    Found {
        begin: Begin,
        find: Find,
    },
    /// After the last STORE of SORT, which may be anywhere among its options.
    SortStore,
    /// The one key of MIGRATE, or if that is empty, those after KEYS.
    Migrate,
    /// The description does not say.
    Unknown,
}

/// Where the keys begin. Arguments count from 0, which is the name of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    Index(usize),
    /// After a keyword, which is searched from this argument on, or from the end backwards if
    /// `from` is negative.
    Keyword {
        word: Cow<'static, str>,
        from: isize,
    },
}

/// Which of the arguments from there on are keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Find {
    /// Up to `last`, which counts from the first key if it is not negative, and from the end
    /// otherwise. With `limit`, only the first of this many equal parts of the rest.
    Range { last: isize, step: usize, limit: usize },
    /// As many as the argument at `count` says, from `first` on. Both count from where the keys
    /// begin.
    Counted { count: usize, first: usize, step: usize },
}

pub(super) const fn index(at: usize) -> Begin {
    Begin::Index(at)
}

pub(super) const fn keyword(word: &'static str, from: isize) -> Begin {
    Begin::Keyword { word: Cow::Borrowed(word), from }
}

pub(super) const fn range(begin: Begin, last: isize, step: usize, limit: usize) -> KeySpec {
    KeySpec::Found { begin, find: Find::Range { last, step, limit } }
}

pub(super) const fn counted(begin: Begin, count: usize, first: usize, step: usize) -> KeySpec {
    KeySpec::Found { begin, find: Find::Counted { count, first, step } }
}

impl<'a> Keys<'a> {
    pub(super) fn new(specs: &'a [KeySpec], command: &'a Command) -> Keys<'a> {
        Keys { command, specs: specs.iter(), run: Run::none(command) }
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if let Some(key) = self.run.next() {
                return Some(key);
            }
            self.run = self.specs.next()?.run(self.command).unwrap_or(Run::none(self.command));
        }
    }
}

/// Keys at equal distances.
#[derive(Clone, Debug)]
struct Run<'a> {
    rest: Args<'a>,
    /// Arguments to skip before the next one.
    skip: usize,
    left: usize,
    step: usize,
}

impl<'a> Run<'a> {
    fn none(command: &'a Command) -> Run<'a> {
        Run { rest: command.iter(), skip: 0, left: 0, step: 1 }
    }

    /// From the argument `first` up to, but not including, `end`.
    fn new(command: &'a Command, first: usize, end: usize, step: usize) -> Option<Run<'a>> {
        let len = end.min(command.count()).checked_sub(first)?;
        let step = step.max(1);
        Some(Run { rest: command.iter(), skip: first, left: len.div_ceil(step), step })
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let key = self.rest.nth(self.skip);
        self.skip = self.step - 1;
        key
    }
}

impl KeySpec {
    /// `None` if the arguments don't fit.
    fn run<'a>(&self, command: &'a Command) -> Option<Run<'a>> {
        match self {
            KeySpec::Found { begin, find } => find.run(command, begin.place(command)?),
            KeySpec::SortStore => sort_store(command),
            KeySpec::Migrate => migrate(command),
            KeySpec::Unknown => None,
        }
    }
}

impl Begin {
    fn place(&self, command: &Command) -> Option<usize> {
        match self {
            Begin::Index(at) => Some(*at),
            Begin::Keyword { word, from } if *from >= 0 => {
                let from = from.unsigned_abs();
                let at = command.iter().skip(from).position(|arg| is(arg, word))?;
                Some(from + at + 1)
            }
            Begin::Keyword { word, from } => {
                let end = (command.count() + 1).checked_sub(from.unsigned_abs())?;
                let words = command.iter().enumerate().take(end).skip(1);
                words.filter(|(_, arg)| is(arg, word)).last().map(|(at, _)| at + 1)
            }
        }
    }
}

impl Find {
    fn run<'a>(&self, command: &'a Command, begin: usize) -> Option<Run<'a>> {
        match *self {
            Find::Range { last, step, limit } => {
                let rest = command.count().checked_sub(begin)?;
                let end = match last {
                    0.. => begin + last.unsigned_abs() + 1,
                    _ if limit > 1 => begin + rest / limit,
                    _ => (command.count() + 1).checked_sub(last.unsigned_abs())?,
                };
                Run::new(command, begin, end, step)
            }
            Find::Counted { count, first, step } => {
                let count = number(command.iter().nth(begin + count)?)?.checked_sub(1)?;
                let last = count.checked_mul(step)?.checked_add(begin + first)?;
                // There are fewer than the count says, so the server refuses the command.
                let end = (last < command.count()).then_some(last + 1)?;
                Run::new(command, begin + first, end, step)
            }
        }
    }
}

fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

fn number(arg: &[u8]) -> Option<usize> {
    std::str::from_utf8(arg).ok()?.parse().ok()
}

/// The options of SORT are followed by 2 arguments (LIMIT) or 1 (GET, BY, STORE). The last STORE
/// counts (`sortGetKeys` in db.c).
fn sort_store(command: &Command) -> Option<Run<'_>> {
    let mut args = command.iter().enumerate().skip(2);
    let mut found = None;
    while let Some((at, arg)) = args.next() {
        if is(arg, "LIMIT") {
            args.nth(1);
        } else if is(arg, "GET") || is(arg, "BY") {
            args.next();
        } else if is(arg, "STORE") {
            found = Some(at + 1);
            args.next();
        }
    }
    let at = found?;
    Run::new(command, at, at + 1, 1)
}

/// `MIGRATE host port key|"" database timeout [COPY] [REPLACE] [AUTH password | AUTH2 user
/// password] [KEYS key ...]`.
fn migrate(command: &Command) -> Option<Run<'_>> {
    if !command.iter().nth(3)?.is_empty() {
        return Run::new(command, 3, 4, 1);
    }
    let mut args = command.iter().enumerate().skip(6);
    while let Some((at, arg)) = args.next() {
        if is(arg, "AUTH") {
            args.next();
        } else if is(arg, "AUTH2") {
            args.nth(1);
        } else if is(arg, "KEYS") {
            return Run::new(command, at + 1, command.count(), 1);
        }
    }
    None
}
