//! A text without what differs from one use to the next: literals, comments, white space.

use std::ops::Range;

use super::lexer::{Lexer, Token};

/// What is the same in all uses of a statement, and where the rest of it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skeleton {
    /// The text with `?` for each literal, in small letters and without comments. A list of
    /// literals or parameters, and a list of rows of them, is shortened by `…`, so that its length
    /// makes no difference.
    pub text: String,
    /// Where the literals stand: numbers, and strings with their quotes.
    pub literals: Vec<Range<usize>>,
    /// Where the comments stand, with their marks.
    pub comments: Vec<Range<usize>>,
}

/// The skeleton of a text of any number of statements.
#[must_use]
pub fn skeleton(sql: &str) -> Skeleton {
    let mut of = Skeleton::default();
    let mut lexer = Lexer::new(sql);
    let mut before = Piece::Symbol(b'(');
    // Where a sign stands that belongs to a number behind it, and what is in front of it.
    let mut sign = None;
    loop {
        let has_blanks = lexer.skip_blanks(&mut of.comments);
        let start = lexer.position();
        let piece = match lexer.next() {
            Token::End => return of,
            Token::Symbol(symbol) => Piece::Symbol(symbol),
            Token::Word(_) => Piece::Word,
            // What does not end may be anything.
            Token::Quoted(_) if !is_closed(&sql[start..lexer.position()]) => {
                of.literals.push(start..lexer.position());
                Piece::Item
            }
            Token::Quoted(_) => Piece::Quoted,
            Token::Parameter(_) => Piece::Parameter,
            Token::Text(_) | Token::Literal => {
                lexer.skip_number(start);
                let signed = sign.filter(|_| is_number(sql, start));
                if let Some((_, front)) = signed {
                    of.drop_sign();
                    before = front;
                }
                of.literals.push(signed.map_or(start, |it| it.0)..lexer.position());
                Piece::Item
            }
        };
        let source = sql.get(start..lexer.position()).unwrap_or_default();
        if is_apart(before, piece, has_blanks) {
            of.text.push(' ');
        }
        match piece {
            Piece::Symbol(b')') => of.end_group(),
            Piece::Symbol(symbol) => of.text.push(char::from(symbol)),
            Piece::Word => of.text.push_str(&source.to_lowercase()),
            Piece::Quoted => of.text.push_str(source),
            Piece::Parameter => of.add_item(source),
            Piece::Item => of.add_item("?"),
        }
        let is_operand = !matches!(before, Piece::Symbol(symbol) if !b")]".contains(&symbol));
        sign = match piece {
            Piece::Symbol(b'-' | b'+') if !is_operand => Some((start, before)),
            _ => None,
        };
        before = piece;
    }
}

/// Whether a quoted name ends: `""` within it stands for one of them.
fn is_closed(quoted: &str) -> bool {
    quoted.len() > 1 && quoted.bytes().filter(|byte| *byte == b'"').count().is_multiple_of(2)
}

fn is_number(sql: &str, at: usize) -> bool {
    sql[at..].starts_with(|first: char| first.is_ascii_digit())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Symbol(u8),
    Word,
    Quoted,
    /// A literal.
    Item,
    Parameter,
}

/// Whether a space stands between two pieces. White space of the text decides where both ways are
/// common, as in `count (` and `in (`, and between symbols, which may be one operator.
fn is_apart(before: Piece, piece: Piece, has_blanks: bool) -> bool {
    match (before, piece) {
        (_, Piece::Symbol(b',' | b';' | b')' | b'.')) => false,
        (Piece::Symbol(b'(' | b'.'), _) => false,
        (_, Piece::Symbol(b'(' | b':' | b'[' | b']')) => has_blanks,
        (Piece::Symbol(b':' | b'['), _) => has_blanks,
        (Piece::Symbol(before), Piece::Symbol(_)) => has_blanks || before == b',',
        _ => true,
    }
}

const MORE: &str = " …";

impl Skeleton {
    /// Takes back the sign at the end, so that a number is the same text whatever its sign.
    fn drop_sign(&mut self) {
        self.text.pop();
        let len = self.text.trim_end().len();
        self.text.truncate(len);
    }

    /// Adds a literal or a parameter, or `…` behind another one.
    fn add_item(&mut self, item: &str) {
        let list = self.text.trim_end();
        let Some(front) = list.strip_suffix(',') else { return self.text.push_str(item) };
        let digits = front.trim_end_matches(|byte: char| byte.is_ascii_digit());
        if front.ends_with(MORE) {
            self.text.truncate(front.len());
        } else if front.ends_with('?') || (digits.len() < front.len() && digits.ends_with('$')) {
            self.text.truncate(list.len());
            self.text.push_str(MORE);
        } else {
            self.text.push_str(item);
        }
    }

    /// Adds a closing parenthesis. Of groups in a row that differ in numbers of parameters at most,
    /// the first is kept.
    fn end_group(&mut self) {
        self.text.push(')');
        let Some((front, group)) = last_group(&self.text) else { return };
        let Some(list) = front.trim_end().strip_suffix(',') else { return };
        let has_more = list.strip_suffix(MORE).and_then(|it| it.strip_suffix(','));
        let Some((_, first)) = last_group(has_more.unwrap_or(list)) else { return };
        if without_numbers(first).eq(without_numbers(group)) {
            let (len, is_second) = (list.len(), has_more.is_none());
            self.text.truncate(len);
            if is_second {
                self.text.push(',');
                self.text.push_str(MORE);
            }
        }
    }
}

/// A text that ends with a group in parentheses, divided in front of the group.
fn last_group(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_u32;
    let mut begins = |byte: u8| {
        match byte {
            b')' => depth += 1,
            b'(' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    };
    let open = text.bytes().enumerate().rev().find(|(_, byte)| begins(*byte))?.0;
    text[open..].starts_with('(').then(|| text.split_at(open))
}

/// A group without the numbers of its parameters.
fn without_numbers(group: &str) -> impl Iterator<Item = char> {
    let mut is_number = false;
    group.chars().filter(move |it| {
        is_number = *it == '$' || (is_number && it.is_ascii_digit());
        *it == '$' || !is_number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_comments_and_white_space_make_no_difference() {
        for (sql, text) in [
            ("SELECT 1", "select ?"),
            ("select  -- why\n 'it''s', E'\\'', $$a$$ /* b */ from T", "select ?, … from t"),
            ("select * from t where id=$1", "select * from t where id = $1"),
            (
                "select \"Id\" from a.b where x->>'k' = 1.5",
                "select \"Id\" from a.b where x ->> ? = ?",
            ),
            ("select a::int4, count(*)", "select a::int4, count(*)"),
            ("select 1e-5, 1_000 + 0xFFfe - .5", "select ?, … + ? -.?"),
            ("set a = a + -17, b = -2, c = - 3", "set a = a + ?, b = ?, c = ?"),
            ("values (-1, +2), (3, -4)", "values (?, …), …"),
            ("select a - 1, f(b) -1, c[1] - 2", "select a - ?, f(b) - ?, c[?] - ?"),
            ("select -'1', x #- '{a}'", "select - ?, x #- ?"),
            ("select $a$ that does not end", "select ?"),
            ("select \"a name", "select ?"),
            ("select \"a \"\"", "select ?"),
            ("select \"a \"\"\", \"\"", "select \"a \"\"\", \"\""),
            ("", ""),
        ] {
            assert_eq!(skeleton(sql).text, text, "{sql}");
        }
    }

    #[test]
    fn lists_of_any_length_are_one() {
        for (sql, text) in [
            ("where a in (1)", "where a in (?)"),
            ("where a in (1, 2)", "where a in (?, …)"),
            ("where a in (1,2,3,4)", "where a in (?, …)"),
            ("where a in ($1, $2, $3)", "where a in ($1, …)"),
            ("values (1, 'a'), (2, 'b')", "values (?, …), …"),
            ("values (1, 'a'), (2, 'b'), (3, 'c')", "values (?, …), …"),
            ("values ($1, $2), ($3, $4), ($9, $10)", "values ($1, …), …"),
            ("set a = 1, b = 2", "set a = ?, b = ?"),
        ] {
            assert_eq!(skeleton(sql).text, text, "{sql}");
        }
    }

    #[test]
    fn literals_and_comments_are_found() {
        let sql = "/* a='b' */ select 17, -3, 'x' --c";
        let Skeleton { literals, comments, .. } = skeleton(sql);
        let of =
            |ranges: Vec<Range<usize>>| ranges.into_iter().map(|it| &sql[it]).collect::<Vec<_>>();
        assert_eq!(of(literals), ["17", "-3", "'x'"]);
        assert_eq!(of(comments), ["/* a='b' */", "--c"]);
    }

    #[test]
    fn any_text_has_a_skeleton() {
        for sql in ["'", "\"", "$a$", "((", "))", "/*", "é'ü", "$", "$1$", "…, ?"] {
            let _ = skeleton(sql);
        }
    }
}
