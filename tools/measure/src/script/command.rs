//! The commands of a script that begin with a backslash.

use super::expr::{Expression, shortened, word_len};
use super::names::Names;

/// A command by itself. The parser handles its relation to its neighbours.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Command {
    Set { variable: usize, value: Expression },
    Sleep { length: Length, unit_us: u64 },
    If(Expression),
    Elif(Expression),
    Else,
    Endif,
    Store(Store),
    StartPipeline,
    SyncPipeline,
    EndPipeline,
}

/// How long to sleep, in the unit that follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Length {
    Fixed(u64),
    Variable(usize),
}

/// Columns of a result that become variables.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Store {
    /// The prefix of the variables' names.
    pub(super) prefix: String,
    /// `\aset`: takes the results of all statements of a text, and the last row of each.
    pub(super) all: bool,
}

const KNOWN: &str = "\\set, \\sleep, \\if, \\elif, \\else, \\endif, \\gset, \\aset, \\startpipeline, \
                     \\syncpipeline and \\endpipeline";

impl Command {
    /// Reads a command.
    ///
    /// # Errors
    /// What is wrong or not supported, with the command's name in front.
    pub(super) fn parse(name: &str, text: &str, names: &mut Names) -> Result<Command, String> {
        let of_command = |what| format!("\\{}: {what}", shortened(name));
        let command = match name {
            "set" => set(text, names),
            "sleep" => sleep(text, names),
            "if" => Expression::parse(text, names).map(Command::If),
            "elif" => Expression::parse(text, names).map(Command::Elif),
            "else" => alone(Command::Else, text),
            "endif" => alone(Command::Endif, text),
            "gset" => store(false, text),
            "aset" => store(true, text),
            "startpipeline" => alone(Command::StartPipeline, text),
            "syncpipeline" => alone(Command::SyncPipeline, text),
            "endpipeline" => alone(Command::EndPipeline, text),
            "shell" | "setshell" => Err("is not supported: a script must not run programs of the \
                                         operating system (compute the value before, and give \
                                         it as a definition: name=value)"
                .into()),
            _ => Err(format!("is not supported: the commands are {KNOWN}")),
        };
        command.map_err(of_command)
    }
}

fn set(text: &str, names: &mut Names) -> Result<Command, String> {
    let (name, expression) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    if name.is_empty() {
        return Err("a name is missing".into());
    }
    check_name(name)?;
    if expression.trim().is_empty() {
        return Err("an expression is missing".into());
    }
    let variable = names.number_of(name);
    Ok(Command::Set { variable, value: Expression::parse(expression, names)? })
}

/// Checks the name of a variable.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let begins_well = !name.starts_with(|first: char| first.is_ascii_digit());
    match !name.is_empty() && begins_well && word_len(name) == name.len() {
        true => Ok(()),
        false => Err(format!(
            "\"{}\" is no name of a variable: letters, digits and underscores, and no digit first",
            shortened(name)
        )),
    }
}

fn sleep(text: &str, names: &mut Names) -> Result<Command, String> {
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else { return Err("a time is missing".into()) };
    let (length, unit) = match first.strip_prefix(':') {
        Some(name) => {
            check_name(name)?;
            (Length::Variable(names.number_of(name)), "")
        }
        None => {
            let digits = first.find(|next: char| !next.is_ascii_digit()).unwrap_or(first.len());
            let (number, unit) = first.split_at(digits);
            let number = number.parse();
            let wrong = |_| format!("\"{}\" is no time", shortened(first));
            (Length::Fixed(number.map_err(wrong)?), unit)
        }
    };
    let unit = if unit.is_empty() { words.next().unwrap_or("s") } else { unit };
    let unit_us = match unit.to_ascii_lowercase().as_str() {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return Err(format!("\"{}\" is no unit: us, ms or s", shortened(unit))),
    };
    no_more(words.next(), Command::Sleep { length, unit_us })
}

fn store(all: bool, text: &str) -> Result<Command, String> {
    let mut words = text.split_whitespace();
    let prefix = words.next().unwrap_or_default().to_owned();
    if !prefix.is_empty() {
        check_name(&prefix)?;
    }
    no_more(words.next(), Command::Store(Store { prefix, all }))
}

fn alone(command: Command, text: &str) -> Result<Command, String> {
    no_more(text.split_whitespace().next(), command)
}

fn no_more(word: Option<&str>, command: Command) -> Result<Command, String> {
    match word {
        None => Ok(command),
        Some(word) => Err(format!("unexpected argument \"{}\"", shortened(word))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(name: &str, text: &str) -> Result<Command, String> {
        Command::parse(name, text, &mut Names::default())
    }

    #[test]
    fn a_time_has_a_unit_beside_it_behind_it_or_none() {
        let fixed = |length, unit_us| Ok(Command::Sleep { length: Length::Fixed(length), unit_us });
        assert_eq!(parse("sleep", "10"), fixed(10, 1_000_000));
        assert_eq!(parse("sleep", "10 ms"), fixed(10, 1_000));
        assert_eq!(parse("sleep", "10us"), fixed(10, 1));
        let variable = Command::Sleep { length: Length::Variable(0), unit_us: 1_000 };
        assert_eq!(parse("sleep", ":a MS"), Ok(variable));
        for wrong in ["", "ms", "10 h", "10 ms 5", "99999999999999999999", ":", "-1"] {
            assert!(parse("sleep", wrong).unwrap_err().starts_with("\\sleep: "), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_supported_is_named_with_its_reason() {
        let error = parse("shell", "rm -rf /").unwrap_err();
        assert!(error.starts_with("\\shell: is not supported: a script must not run"), "{error}");
        let error = parse("watch", "").unwrap_err();
        assert!(error.starts_with("\\watch: is not supported: the commands are \\set,"), "{error}");
    }

    #[test]
    fn arguments_are_checked() {
        for (name, text) in [
            ("set", ""),
            ("set", "a"),
            ("set", "1a 2"),
            ("set", "a-b 2"),
            ("set", "a 1 +"),
            ("if", ""),
            ("else", "1"),
            ("endpipeline", "now"),
            ("gset", "a b"),
            ("gset", "%"),
        ] {
            let error = parse(name, text).unwrap_err();
            assert!(error.starts_with(&format!("\\{name}: ")), "{error}");
        }
    }
}
