//! A script in pieces: statements and commands, each with its line.

use super::expr::word_len;
use super::statement::{self, StatementText};

/// A piece of a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// Where it begins, from 1.
    pub(super) line: usize,
    pub(super) kind: PieceKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum PieceKind {
    Statement(StatementText),
    /// Its name without the backslash, in lower case, and what stands behind it. Lines that a
    /// backslash continues are one.
    Command {
        name: String,
        arguments: String,
    },
}

/// Splits a script.
///
/// # Errors
/// A line, and what is wrong there.
pub(super) fn split(text: &str) -> Result<Vec<Piece>, (usize, String)> {
    let mut pieces = Vec::new();
    let mut rest = skip_blank(text);
    let (mut line, mut before) = (1, text);
    while !rest.is_empty() {
        line += lines(&before[..before.len() - rest.len()]);
        before = rest;
        let (kind, behind) = match rest.strip_prefix('\\') {
            Some(command) => self::command(command),
            None => {
                let failed = |(what, at): (String, usize)| (line + lines(&rest[..at]), what);
                let (statement, behind) = statement::read(rest).map_err(failed)?;
                (PieceKind::Statement(statement), behind)
            }
        };
        let is_empty = matches!(&kind, PieceKind::Statement(it) if is_blank(&it.text));
        if !is_empty {
            pieces.push(Piece { line, kind });
        }
        rest = skip_blank(behind);
    }
    Ok(pieces)
}

/// How many lines end in a text.
fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// What is behind white space and the comments of whole lines.
fn skip_blank(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        if !text.starts_with("--") {
            return text;
        }
        text = text.find('\n').map_or("", |end| &text[end..]);
    }
}

/// Whether there is nothing but comments.
fn is_blank(statement: &str) -> bool {
    let mut rest = skip_blank(statement);
    while let Some(comment) = rest.strip_prefix("/*") {
        let mut depth = 1;
        let mut behind = comment;
        while depth > 0 {
            let Some(at) = behind.find(['/', '*']) else { return true };
            behind = &behind[at..];
            let step = match behind.get(..2) {
                Some("/*") => {
                    depth += 1;
                    2
                }
                Some("*/") => {
                    depth -= 1;
                    2
                }
                _ => 1,
            };
            behind = &behind[step..];
        }
        rest = skip_blank(behind);
    }
    rest.is_empty()
}

fn command(text: &str) -> (PieceKind, &str) {
    let (name, mut rest) = text.split_at(match word_len(text) {
        // A name that is none, for the error.
        0 => text.find(char::is_whitespace).unwrap_or(text.len()),
        length => length,
    });
    let mut arguments = String::new();
    loop {
        let end = rest.find('\n').unwrap_or(rest.len());
        let line = rest[..end].trim_end_matches('\r');
        rest = &rest[end..];
        match line.strip_suffix('\\') {
            Some(continued) if !rest.is_empty() => {
                arguments.push_str(continued);
                arguments.push(' ');
                rest = &rest[1..];
            }
            _ => {
                arguments.push_str(line);
                break;
            }
        }
    }
    let arguments = arguments.trim().to_owned();
    (PieceKind::Command { name: name.to_ascii_lowercase(), arguments }, rest)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(usize, String)> {
        let show = |piece: Piece| match piece.kind {
            PieceKind::Statement(statement) => (piece.line, statement.text),
            PieceKind::Command { name, arguments } => (piece.line, format!("\\{name} {arguments}")),
        };
        split(text).unwrap().into_iter().map(show).collect()
    }

    fn expected(pieces: &[(usize, &str)]) -> Vec<(usize, String)> {
        pieces.iter().map(|(line, text)| (*line, (*text).to_owned())).collect()
    }

    #[test]
    fn statements_and_commands_come_with_the_line_of_their_beginning() {
        let script =
            "-- a comment\n\\set a 1 + \\\n  2\n\nselect\n  :a;select 2\n\\SLEEP 1 ms\r\nend";
        let wanted = [
            (2, "\\set a 1 +    2"),
            (5, "select\n  :a"),
            (6, "select 2"),
            (7, "\\sleep 1 ms"),
            (8, "end"),
        ];
        assert_eq!(shown(script), expected(&wanted));
    }

    #[test]
    fn a_command_may_stand_behind_a_statement_on_its_line() {
        let wanted = [(1, "select 1 as x"), (1, "\\gset p_"), (2, "select 2")];
        assert_eq!(shown("select 1 as x \\gset p_\nselect 2"), expected(&wanted));
    }

    #[test]
    fn what_is_empty_is_no_statement() {
        assert_eq!(shown(" ;; -- x\n; /* a /* b */ */ ; /* c */"), []);
        assert_eq!(shown(""), []);
        assert_eq!(shown("/*+ hint */ select 1"), expected(&[(1, "/*+ hint */ select 1")]));
    }

    #[test]
    fn what_is_not_closed_has_the_line_where_it_was_opened() {
        let error = split("select 1;\nselect\n 'a\n\n;").unwrap_err();
        assert_eq!(error, (3, "a quote (') that is not closed".into()));
    }
}
