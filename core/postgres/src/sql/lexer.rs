//! Splits a statement's text into words and the rest, like the server's `scan.l`, as far as the
//! rules need it.

use std::ops::Range;

/// A piece of the text.
pub(super) enum Token<'a> {
    /// A keyword or a name without quotes.
    Word(&'a [u8]),
    /// A name between double quotes, without the quotes.
    Quoted(&'a [u8]),
    /// A string between single quotes, without a letter in front.
    Text(&'a [u8]),
    /// The digits of a parameter's number.
    Parameter(&'a [u8]),
    /// Any other string, or a number.
    Literal,
    /// Any other byte.
    Symbol(u8),
    End,
}

/// A position in the text. It is copied to look ahead.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(sql: &'a str) -> Lexer<'a> {
        Lexer { text: sql.as_bytes(), at: 0 }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Token<'a> {
        while let Some(&byte) = self.text.get(self.at) {
            let start = self.at;
            self.at += 1;
            match CLASS[usize::from(byte)] {
                Class::Space => {}
                Class::Letter => {
                    self.skip_while(|byte| {
                        matches!(
                            CLASS[usize::from(byte)],
                            Class::Letter | Class::Digit | Class::Dollar
                        )
                    });
                    let word = &self.text[start..self.at];
                    if (word == b"e" || word == b"E") && self.peek() == Some(b'\'') {
                        self.at += 1;
                        self.skip_escape_string();
                        return Token::Literal;
                    }
                    return Token::Word(word);
                }
                Class::Digit => {
                    self.skip_while(|byte| byte.is_ascii_digit());
                    return Token::Literal;
                }
                Class::Quote => {
                    self.skip_quoted(b'\'');
                    return Token::Text(&self.text[start..self.at]);
                }
                Class::DoubleQuote => {
                    self.skip_quoted(b'"');
                    let end = self.at.saturating_sub(1).max(start + 1);
                    return Token::Quoted(&self.text[start + 1..end]);
                }
                Class::Dollar => {
                    return if self.skip_dollar_string(start) {
                        Token::Literal
                    } else if self.skip_parameter() {
                        Token::Parameter(&self.text[start + 1..self.at])
                    } else {
                        Token::Symbol(b'$')
                    };
                }
                Class::Minus if self.peek() == Some(b'-') => self.skip_line(),
                Class::Slash if self.peek() == Some(b'*') => self.skip_block_comment(),
                Class::Minus | Class::Slash | Class::Symbol => return Token::Symbol(byte),
            }
        }
        Token::End
    }

    /// Skips white space and comments, whose places are added. Whether there were any.
    pub(super) fn skip_blanks(&mut self, comments: &mut Vec<Range<usize>>) -> bool {
        let begin = self.at;
        while let Some(byte) = self.peek() {
            let start = self.at;
            let next = self.text.get(start + 1);
            match (CLASS[usize::from(byte)], next) {
                (Class::Space, _) => {
                    self.at += 1;
                    continue;
                }
                (Class::Minus, Some(b'-')) => self.skip_line(),
                (Class::Slash, Some(b'*')) => {
                    self.at += 1;
                    self.skip_block_comment();
                }
                _ => break,
            }
            comments.push(start..self.at);
        }
        self.at > begin
    }

    /// Skips the rest of a number whose first digits were read from here: a fraction, an exponent,
    /// digits behind `_` or `0x`. Anything else that was read stays as it is.
    pub(super) fn skip_number(&mut self, start: usize) {
        if !self.text.get(start).is_some_and(u8::is_ascii_digit) {
            return;
        }
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        loop {
            self.skip_while(is_part);
            let is_exponent = matches!(self.text[self.at - 1], b'e' | b'E')
                && !self.text[start..self.at].contains(&b'x')
                && matches!(self.peek(), Some(b'+' | b'-'))
                && self.text.get(self.at + 1).is_some_and(u8::is_ascii_digit);
            if !is_exponent {
                return;
            }
            self.at += 1;
        }
    }

    /// What was read from this position on.
    pub(super) fn read_since(&self, from: usize) -> &'a [u8] {
        &self.text[from..self.at]
    }

    /// How many bytes were read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Skips bytes that can't matter: all but quotes, comments, parentheses, semicolons, and words
    /// that begin with a letter of the sets in `starts`. Stops before a byte that may matter.
    #[inline]
    pub(super) fn skip_uninteresting(&mut self, starts: u8) {
        let mut before = 0;
        for (at, &byte) in self.text[self.at..].iter().enumerate() {
            let flags = FLAGS[usize::from(byte)];
            // Within a word neither a letter nor a `$` begins anything. The byte before tells,
            // rather than a state, so that the iterations of this loop don't depend on one another.
            // (The `x` of `1x` counts as the inside of a word, but no valid statement has that.)
            let begins = if before & starts::INSIDE == 0 { starts } else { 0 };
            if flags & (starts::ALWAYS | begins) != 0 {
                self.at += at;
                return;
            }
            before = flags;
        }
        self.at = self.text.len();
    }

    /// Whether the next token is this keyword; the lexer stays where it is.
    pub(super) fn is(&self, keyword: &[u8]) -> bool {
        let mut ahead = *self;
        matches!(ahead.next(), Token::Word(word) if is(word, keyword))
    }

    /// Skips EXPLAIN's options: words, or a list in parentheses, unless these hold the query
    /// itself.
    pub(super) fn skip_explain_options(&mut self) {
        while self.is(b"analyze") || self.is(b"analyse") || self.is(b"verbose") {
            self.next();
        }
        let mut inside = *self;
        if !matches!(inside.next(), Token::Symbol(b'(')) {
            return;
        }
        let query: [&[u8]; 4] = [b"select", b"values", b"table", b"with"];
        let nested = matches!({ inside }.next(), Token::Symbol(b'('));
        if !nested && !query.iter().any(|word| inside.is(word)) {
            self.skip_parentheses();
        }
    }

    /// If a pair of parentheses comes next, skips it with its content.
    pub(super) fn skip_parentheses(&mut self) {
        let mut ahead = *self;
        let mut depth = 0_u32;
        loop {
            match ahead.next() {
                Token::Symbol(b'(') => depth += 1,
                Token::Symbol(b')') if depth > 0 => depth -= 1,
                Token::End => depth = 0,
                _ if depth == 0 => return,
                _ => {}
            }
            if depth == 0 {
                *self = ahead;
                return;
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn skip_while(&mut self, belongs: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&belongs) {
            self.at += 1;
        }
    }

    /// Skips from behind an opening quote to behind the closing one. A doubled quote is part of the
    /// text.
    fn skip_quoted(&mut self, quote: u8) {
        loop {
            self.skip_while(|byte| byte != quote);
            self.at = self.text.len().min(self.at + 1);
            if self.peek() != Some(quote) {
                return;
            }
            self.at += 1;
        }
    }

    /// Skips from behind the opening quote of `E'…'` to its end. A string may go on after a line
    /// break, and its continuation also has backslash escapes (`quotecontinue` in scan.l).
    fn skip_escape_string(&mut self) {
        loop {
            match self.peek() {
                None => return,
                Some(b'\\') => self.at = self.text.len().min(self.at + 2),
                Some(b'\'') => {
                    self.at += 1;
                    if self.peek() == Some(b'\'') {
                        self.at += 1;
                    } else if let Some(at) = self.continuation() {
                        self.at = at;
                    } else {
                        return;
                    }
                }
                Some(_) => self.at += 1,
            }
        }
    }

    /// The position behind the quote where the string goes on: after white space (or line comments)
    /// with a line break.
    fn continuation(&self) -> Option<usize> {
        let mut ahead = *self;
        let mut line_break = false;
        loop {
            match ahead.peek()? {
                b'\n' | b'\r' => line_break = true,
                b'-' if ahead.text.get(ahead.at + 1) == Some(&b'-') => {
                    ahead.skip_line();
                    continue;
                }
                byte if CLASS[usize::from(byte)] == Class::Space => {}
                b'\'' if line_break => return Some(ahead.at + 1),
                _ => return None,
            }
            ahead.at += 1;
        }
    }

    /// Skips `$tag$…$tag$`, whose first `$` is at `start`; false if there is no such string.
    fn skip_dollar_string(&mut self, start: usize) -> bool {
        if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return false;
        }
        let mut ahead = *self;
        ahead.skip_while(|byte| matches!(CLASS[usize::from(byte)], Class::Letter | Class::Digit));
        if ahead.peek() != Some(b'$') {
            return false;
        }
        ahead.at += 1;
        let tag = &self.text[start..ahead.at];
        loop {
            ahead.skip_while(|byte| byte != b'$');
            let rest = &self.text[ahead.at..];
            if rest.is_empty() || rest.starts_with(tag) {
                self.at = ahead.at + tag.len().min(rest.len());
                return true;
            }
            ahead.at += 1;
        }
    }

    /// Skips the digits of a parameter such as `$1`; false if there are none.
    fn skip_parameter(&mut self) -> bool {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_digit());
        self.at > start
    }

    fn skip_line(&mut self) {
        self.skip_while(|byte| byte != b'\n' && byte != b'\r');
    }

    /// Skips from between the slash and the star to behind the comment. Comments nest.
    fn skip_block_comment(&mut self) {
        let mut depth = 1_u32;
        self.at += 1;
        while depth > 0 {
            match (self.peek(), self.text.get(self.at + 1)) {
                (None, _) => return,
                (Some(b'*'), Some(b'/')) => depth -= 1,
                (Some(b'/'), Some(b'*')) => depth += 1,
                _ => {
                    self.at += 1;
                    continue;
                }
            }
            self.at += 2;
        }
    }
}

/// What kind of token a byte begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Space,
    /// A letter, an underscore or a byte of a character beyond ASCII.
    Letter,
    Digit,
    Quote,
    DoubleQuote,
    Dollar,
    Minus,
    Slash,
    Symbol,
}

const CLASS: [Class; 256] = {
    let mut table = [Class::Symbol; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Class::Space,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..=0xff => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'\'' => Class::Quote,
            b'"' => Class::DoubleQuote,
            b'$' => Class::Dollar,
            b'-' => Class::Minus,
            b'/' => Class::Slash,
            _ => Class::Symbol,
        };
        byte += 1;
    }
    table
};

/// What a byte means to [`Lexer::skip_uninteresting`], as bits.
pub(super) mod starts {
    /// It belongs to a word: a letter, a digit or a `$`.
    pub(in crate::sql) const INSIDE: u8 = 1;
    /// It always matters: quotes, parentheses, semicolons, and bytes that may begin a comment.
    pub(in crate::sql) const ALWAYS: u8 = 1 << 1;
    /// It may begin a word that matters in every statement: `pg_…`, `e'…'`, `$tag$`.
    pub(in crate::sql) const ANY: u8 = 1 << 2;
    /// It may begin a word that makes a query more than a read.
    pub(in crate::sql) const QUERY: u8 = 1 << 3;
    /// It may begin a word that matters in other statements: CONCURRENTLY, FROM STDIN and the like.
    pub(in crate::sql) const OTHER: u8 = 1 << 4;
}

const FLAGS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let lower = (byte as u8).to_ascii_lowercase();
        table[byte] = match CLASS[byte] {
            Class::Quote | Class::DoubleQuote | Class::Minus | Class::Slash => starts::ALWAYS,
            Class::Letter | Class::Digit => starts::INSIDE,
            Class::Dollar => starts::INSIDE | starts::ANY,
            Class::Symbol if matches!(lower, b'(' | b')' | b';') => starts::ALWAYS,
            Class::Space | Class::Symbol => 0,
        };
        if matches!(lower, b'p' | b'e') {
            table[byte] |= starts::ANY;
        }
        if matches!(lower, b'i' | b'u' | b'd' | b'm' | b'f') {
            table[byte] |= starts::QUERY;
        }
        if matches!(lower, b'b' | b'c' | b't' | b'f') {
            table[byte] |= starts::OTHER;
        }
        byte += 1;
    }
    table
};

/// Compares a word without regard to case; `keyword` is lower case.
#[inline]
pub(super) fn is(word: &[u8], keyword: &[u8]) -> bool {
    word.eq_ignore_ascii_case(keyword)
}

/// The word in lower case. Empty if it is longer than the buffer, and so longer than every word
/// that matters.
#[inline]
pub(super) fn lower<'b>(word: &[u8], buffer: &'b mut [u8]) -> &'b [u8] {
    let Some(target) = buffer.get_mut(..word.len()) else { return &[] };
    for (to, from) in target.iter_mut().zip(word) {
        *to = from.to_ascii_lowercase();
    }
    target
}
