//! One statement of a script: where it ends, and where variables stand in it.
//!
//! It is read as the server and psql read it: a semicolon ends it, but not one in quotes, in
//! comments, in parentheses, or in the body of a routine in standard SQL (`begin atomic … end`). So
//! does a backslash, with which a command begins; `\;` is a semicolon that ends nothing.

use std::ops::Range;

use super::expr::{is_word, word_len};

/// A statement as it stands in the script, without its semicolon.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StatementText {
    pub(super) text: String,
    pub(super) variables: Vec<Occurrence>,
    /// Whether there is a `\;` in it, so that it is several statements for the server.
    pub(super) several: bool,
}

/// A place where a variable may be meant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Occurrence {
    /// Of the text, with its colon.
    pub(super) range: Range<usize>,
    /// Whether it stands between quotes of any kind.
    pub(super) quoted: bool,
}

/// Reads the statement at the beginning, and says what is behind it and its semicolon.
///
/// # Errors
/// It does not end: what is open, and how many bytes from the beginning that was opened.
pub(super) fn read(text: &str) -> Result<(StatementText, &str), (String, usize)> {
    let mut reader =
        Reader { text, at: 0, out: StatementText::default(), depth: 0, body: Body::default() };
    reader.read()?;
    let length = reader.out.text.trim_end().len();
    reader.out.text.truncate(length);
    Ok((reader.out, &text[reader.at..]))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    out: StatementText,
    /// Open parentheses.
    depth: usize,
    body: Body,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), (String, usize)> {
        let mut opened = 0;
        while let Some(first) = self.rest().chars().next() {
            let start = self.at;
            match first {
                ';' if self.depth == 0 && self.body.depth == 0 => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' if self.rest()[1..].starts_with([';', ':']) => self.escaped(),
                '\\' => return Ok(()),
                '\'' | '"' => self.quoted(first, false)?,
                '$' => self.dollar()?,
                '-' if self.rest().starts_with("--") => self.line_comment(),
                '/' if self.rest().starts_with("/*") => self.block_comment()?,
                ':' => self.colon(false),
                '(' => {
                    opened = if self.depth == 0 { start } else { opened };
                    self.depth += 1;
                    self.copy(1);
                }
                ')' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.copy(1);
                }
                _ if is_word(first) => self.word()?,
                _ => self.copy(first.len_utf8()),
            }
        }
        match self.depth {
            0 => Ok(()),
            _ => Err(("a parenthesis that is not closed".into(), opened)),
        }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn copy(&mut self, length: usize) {
        self.out.text.push_str(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    /// A semicolon or a colon that a backslash made ordinary.
    fn escaped(&mut self) {
        self.at += 1;
        self.out.several |= self.rest().starts_with(';');
        self.copy(1);
    }

    fn word(&mut self) -> Result<(), (String, usize)> {
        let rest = &self.text[self.at..];
        // A name may have dollars in it, which begin no quote then.
        let end = rest.find(|next| !is_word(next) && next != '$').unwrap_or(rest.len());
        let word = match rest.starts_with(|first: char| first.is_ascii_digit()) {
            true => &rest[..word_len(rest)],
            false => &rest[..end],
        };
        let escapes = word.eq_ignore_ascii_case("e");
        if self.depth == 0 && !word.starts_with(|first: char| first.is_ascii_digit()) {
            self.body.word(word);
        }
        self.copy(word.len());
        match self.rest().starts_with('\'') && escapes {
            true => self.quoted('\'', true),
            false => Ok(()),
        }
    }

    /// From a quote to behind its end. A doubled quote inside is two texts, which come to the same.
    fn quoted(&mut self, quote: char, escapes: bool) -> Result<(), (String, usize)> {
        let start = self.at;
        self.copy(1);
        while let Some(next) = self.rest().chars().next() {
            match next {
                ':' => self.colon(true),
                '\\' if escapes => {
                    self.copy(1);
                    self.copy(self.rest().chars().next().map_or(0, char::len_utf8));
                }
                _ => self.copy(next.len_utf8()),
            }
            if next == quote {
                if escapes && self.rest().starts_with(quote) {
                    self.copy(1);
                    continue;
                }
                return Ok(());
            }
        }
        Err((format!("a quote ({quote}) that is not closed"), start))
    }

    /// `$tag$…$tag$`, or a dollar.
    fn dollar(&mut self) -> Result<(), (String, usize)> {
        let start = self.at;
        let name = &self.rest()[1..];
        let name = &name[..word_len(name)];
        let tag_len = name.len() + 2;
        let is_tag = !name.starts_with(|first: char| first.is_ascii_digit())
            && self.rest()[1 + name.len()..].starts_with('$');
        if !is_tag {
            self.copy(1 + name.len());
            return Ok(());
        }
        let tag = self.rest()[..tag_len].to_owned();
        self.copy(tag_len);
        while let Some(next) = self.rest().chars().next() {
            if self.rest().starts_with(&tag) {
                self.copy(tag_len);
                return Ok(());
            }
            match next {
                ':' => self.colon(true),
                _ => self.copy(next.len_utf8()),
            }
        }
        Err((format!("a quote ({tag}) that is not closed"), start))
    }

    fn line_comment(&mut self) {
        self.copy(self.rest().find(['\n', '\r']).unwrap_or(self.rest().len()));
    }

    /// Comments nest.
    fn block_comment(&mut self) -> Result<(), (String, usize)> {
        let (start, mut depth) = (self.at, 0);
        while let Some(next) = self.rest().chars().next() {
            match self.rest().get(..2) {
                Some("/*") => depth += 1,
                Some("*/") => depth -= 1,
                _ => {
                    self.copy(next.len_utf8());
                    continue;
                }
            }
            self.copy(2);
            if depth == 0 {
                return Ok(());
            }
        }
        Err(("a comment (/*) that is not closed".into(), start))
    }

    /// A variable; or a cast, a slice of an array, a time of day.
    fn colon(&mut self, quoted: bool) {
        let colons = self.rest().len() - self.rest().trim_start_matches(':').len();
        let name = &self.rest()[colons..];
        let name = &name[..word_len(name)];
        let is_name = !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit());
        if colons > 1 || !is_name {
            return self.copy(colons);
        }
        let (start, length) = (self.out.text.len(), 1 + name.len());
        self.copy(length);
        self.out.variables.push(Occurrence { range: start..start + length, quoted });
    }
}

/// Finds the body of a routine by the words outside of parentheses.
#[derive(Default)]
struct Body {
    words: Vec<String>,
    depth: usize,
}

impl Body {
    fn word(&mut self, word: &str) {
        /// CREATE OR REPLACE FUNCTION.
        const WORDS_MAX: usize = 4;
        let word = word.to_ascii_lowercase();
        if self.words.len() < WORDS_MAX {
            self.words.push(word.clone());
        }
        match word.as_str() {
            "begin" if self.is_routine() => self.depth += 1,
            "case" if self.depth > 0 => self.depth += 1,
            "end" => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    fn is_routine(&self) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        matches!(
            words.as_slice(),
            ["create", "function" | "procedure", ..]
                | ["create", "or", "replace", "function" | "procedure"]
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The statement, its variables, and what is behind it.
    fn parts(text: &str) -> (String, Vec<(String, bool)>, &str) {
        let (statement, rest) = read(text).unwrap();
        let variables = statement.variables.iter();
        let variables =
            variables.map(|it| (statement.text[it.range.clone()].to_owned(), it.quoted)).collect();
        (statement.text, variables, rest)
    }

    #[test]
    fn a_semicolon_ends_a_statement_only_where_it_is_one() {
        for text in [
            "select ';'",
            "select 'it''s;'",
            "select E'a\\';'",
            "select E'a'';'",
            "select \";\"",
            "select $$;$$",
            "select $a$ $$ ; $b$ $a$",
            "select /* ; /* ; */ ; */ 1",
            "select 1 -- ;\n + 2",
            "create rule r as on insert to t do (select 1; select 2)",
            "create function f() returns int begin atomic select 1; select case when true then 1 end; end",
            "create or replace procedure p() begin atomic select 1; end",
            "select $1",
            "select a$b$",
        ] {
            let script = format!("{text}; rest");
            assert_eq!(parts(&script), (text.to_owned(), vec![], " rest"), "{text}");
        }
        assert_eq!(parts("begin; select 1; end").2, " select 1; end");
        assert_eq!(parts("select case when true then 1 end; rest").2, " rest");
    }

    #[test]
    fn a_backslash_ends_a_statement_and_an_escaped_semicolon_does_not() {
        assert_eq!(parts("select 1 \\gset").2, "\\gset");
        assert_eq!(parts("select '\\' \\gset").2, "\\gset");
        let (statement, rest) = read("select 1 \\; select 2; select 3").unwrap();
        assert_eq!((statement.text.as_str(), rest), ("select 1 ; select 2", " select 3"));
        assert!(statement.several);
    }

    #[test]
    fn variables_are_found_where_they_are_meant() {
        let found = |text| parts(text).1;
        let plain = |names: &[&str]| -> Vec<(String, bool)> {
            names.iter().map(|name| ((*name).to_owned(), false)).collect()
        };
        assert_eq!(found("select :a+:b_2,x::int, a[1:2], a[1:n]"), plain(&[":a", ":b_2", ":n"]));
        assert_eq!(found("select :größe"), plain(&[":größe"]));
        assert_eq!(found("select x := 1, :: a, -- :c\n /* :d */ :e"), plain(&[":e"]));
        assert_eq!(found("select '10:30', ':a'"), [(":a".to_owned(), true)]);
        assert_eq!(found("select $$ :a $$"), [(":a".to_owned(), true)]);
    }

    #[test]
    fn what_is_not_closed_is_named_with_its_place() {
        let what = |text| read(text).unwrap_err();
        assert_eq!(what("select 'a"), ("a quote (') that is not closed".into(), 7));
        assert_eq!(what("x \"a").1, 2);
        assert_eq!(what("x $a$ $b$"), ("a quote ($a$) that is not closed".into(), 2));
        assert_eq!(what("x /* /* */").1, 2);
        assert_eq!(what("x (a (b)"), ("a parenthesis that is not closed".into(), 2));
        assert_eq!(what("x E'\\").1, 3);
    }
}
