//! Whether a parameter is stored as it is, as far as the text shows: then the column's type is all
//! that its value is converted to. Anywhere else an operator or a function may be chosen by its type.
//!
//! When in doubt it is not.

use super::lexer::{Lexer, Token, is};

/// Where the values of a statement stand that are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the rows of INSERT … VALUES.
    Rows,
    /// Behind SET of an UPDATE.
    Set,
    Elsewhere,
}

/// Whether the parameter with this number is nothing but a value of INSERT … VALUES or of UPDATE …
/// SET at each place where it stands, perhaps with a cast behind it.
#[must_use]
pub fn only_stores(sql: &str, number: usize) -> bool {
    let mut lexer = Lexer::new(sql);
    let (starts, inside): (&[u8], _) = match lexer.next() {
        Token::Word(word) if is(word, b"insert") => (b"values", Place::Rows),
        Token::Word(word) if is(word, b"update") => (b"set", Place::Set),
        _ => return false,
    };
    let (mut place, mut depth, mut found) = (Place::Elsewhere, 0_u32, false);
    // Whether a value begins here, and whether the `=` of an assignment is in front of this.
    let (mut begins, mut is_named) = (false, false);
    loop {
        match lexer.next() {
            Token::End => return found,
            Token::Symbol(b'(') => {
                (begins, depth) = (place == Place::Rows && depth == 0, depth + 1);
            }
            Token::Symbol(b')') => (begins, depth) = (false, depth.saturating_sub(1)),
            Token::Symbol(b',') => {
                begins = place == Place::Rows && depth == 1;
                is_named &= depth > 0;
            }
            // In `a = b = $1` the second one compares.
            Token::Symbol(b'=') if place == Place::Set && depth == 0 => {
                (begins, is_named) = (!is_named, true);
            }
            Token::Word(word) if depth == 0 && is(word, starts) && !found => {
                (place, begins) = (inside, false);
            }
            Token::Word(word) if depth == 0 && place != Place::Elsewhere && ends(word) => {
                place = Place::Elsewhere;
            }
            Token::Parameter(digits) => {
                let is_it = str::from_utf8(digits).ok().and_then(|it| it.parse().ok());
                if is_it == Some(number) {
                    if !begins || !is_whole(lexer) {
                        return false;
                    }
                    found = true;
                }
                begins = false;
            }
            _ => begins = false,
        }
    }
}

/// Whether no operator is behind a value.
fn is_whole(mut behind: Lexer<'_>) -> bool {
    match behind.next() {
        // A cast says of which type it is.
        Token::Symbol(byte) => matches!(byte, b',' | b')' | b';' | b':'),
        Token::Word(word) => ends(word),
        Token::End => true,
        _ => false,
    }
}

/// Whether a word ends the values of a statement.
fn ends(word: &[u8]) -> bool {
    [&b"where"[..], b"from", b"returning", b"on"].iter().any(|end| is(word, end))
}

#[cfg(test)]
mod tests {
    use super::only_stores;

    #[test]
    fn a_value_of_a_row_or_of_an_assignment_is_stored() {
        for sql in [
            "insert into t (a, b) values ($2, $1)",
            "INSERT INTO t VALUES ($1), ($2) RETURNING *",
            "insert into t (a) values ($1::timestamp) on conflict do nothing",
            "update t set a = $1 where id = $2",
            "update t set b = $2, a = $1::timestamptz, c = f($2) where id = 0 returning *",
            "update t set a = $1",
        ] {
            assert!(only_stores(sql, 1), "{sql}");
        }
    }

    #[test]
    fn a_value_of_an_expression_is_not_only_stored() {
        for sql in [
            "select * from t where a = $1",
            "insert into t select * from u where a = $1",
            "insert into t (a) values ($1 + '1 day')",
            "insert into t (a) values (coalesce(null, $1))",
            "insert into t (a) values (b = $1)",
            "insert into t (a) values ($1) on conflict (a) do update set b = 1 where t.a < $1",
            "insert into t (a) values ($2)",
            "update t set a = $1 where a < $1",
            "update t set b = (a = $1)",
            "update t set b = a = $1",
            "update t set b = $2 = $1",
            "update t set a = $1 - b",
            "delete from t where a = $1",
            "with w as (select 1) insert into t values ($1)",
        ] {
            assert!(!only_stores(sql, 1), "{sql}");
        }
    }
}
