//! Whether a parameter is stored as it is, as far as the text shows: then the column's type is all
//! that its value is converted to. Anywhere else an operator or a function may be chosen by its type.
//!
//! When in doubt it is not. The text is read once for a request, and only if it has a value for which
//! that matters.

use super::lexer::{Lexer, Token, is};

/// Where the values of a statement stand that are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the rows of INSERT … VALUES.
    Rows,
    /// Behind SET of an UPDATE, or of ON CONFLICT DO UPDATE.
    Set,
    Elsewhere,
}

/// The parameters, counted from 1, that are anything but a value of INSERT … VALUES or of SET,
/// perhaps with a cast behind it, at one of the places where they stand. `None`: all may be.
#[must_use]
pub fn not_only_stored(sql: &str) -> Option<Vec<usize>> {
    let mut lexer = Lexer::new(sql);
    let Token::Word(verb) = lexer.next() else { return None };
    if !is(verb, b"insert") && !is(verb, b"update") {
        return None;
    }
    let (mut place, mut depth, mut others) = (Place::Elsewhere, 0_u32, Vec::new());
    // Whether a value begins here, and whether the `=` of an assignment is in front of this.
    let (mut begins, mut is_named) = (false, false);
    loop {
        let token = lexer.next();
        let was_begun = std::mem::take(&mut begins);
        match token {
            Token::End => return Some(others),
            Token::Symbol(b'(') => {
                (begins, depth) = (place == Place::Rows && depth == 0, depth + 1);
            }
            Token::Symbol(b')') => depth = depth.saturating_sub(1),
            Token::Symbol(b',') => {
                begins = place == Place::Rows && depth == 1;
                is_named &= depth > 0;
            }
            // In `a = b = $1` the second one compares.
            Token::Symbol(b'=') if place == Place::Set && depth == 0 => {
                (begins, is_named) = (!is_named, true);
            }
            Token::Word(word) if depth == 0 => {
                place = match word {
                    _ if is(word, b"values") => Place::Rows,
                    _ if is(word, b"set") => Place::Set,
                    _ if ends(word) => Place::Elsewhere,
                    // The types of these rows are those of other queries.
                    _ if queries(word) => return None,
                    _ => place,
                };
            }
            Token::Parameter(digits) if !was_begun || !is_whole(lexer) => {
                others.push(str::from_utf8(digits).ok()?.parse().ok()?);
            }
            _ => {}
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

/// Whether a word makes rows of a query.
fn queries(word: &[u8]) -> bool {
    [&b"select"[..], b"union", b"except", b"intersect"].iter().any(|it| is(word, it))
}

#[cfg(test)]
mod tests {
    use super::not_only_stored;

    fn only_stores(sql: &str) -> bool {
        not_only_stored(sql).is_some_and(|others| !others.contains(&1))
    }

    #[test]
    fn a_value_of_a_row_or_of_an_assignment_is_stored() {
        for sql in [
            "insert into t (a, b) values ($2, $1)",
            "INSERT INTO t VALUES ($1), ($2) RETURNING *",
            "insert into t (a) values ($1::timestamp) on conflict do nothing",
            "update t set a = $1 where id = $2",
            "update t set b = $2, a = $1::timestamptz, c = f($2) where id = 0 returning *",
            "update t set a = $1",
            "insert into t values ($2, $1) on conflict (b) do update set a = $1, b = t.b + 1",
            "insert into t values ($2, $1) on conflict (b) do update set a = $1 where t.b < $2",
        ] {
            assert!(only_stores(sql), "{sql}");
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
            "insert into t values ($2, $1) on conflict (b) do update set a = $1 - t.a",
            "insert into t select a from u union values ($1)",
            "insert into t values ($1) union all select a from u",
            "update t set a = $1 where a < $1",
            "update t set b = (a = $1)",
            "update t set b = a = $1",
            "update t set b = $2 = $1",
            "update t set a = $1 - b",
            "delete from t where a = $1",
            "with w as (select 1) insert into t values ($1)",
        ] {
            assert!(!only_stores(sql), "{sql}");
        }
    }
}
