//! Keywords of a configuration; `onetrip_postgres` has their table.

pub(crate) use onetrip_postgres::client::connect::keywords::Keyword;
pub(super) use onetrip_postgres::client::connect::keywords::{
    Form, KEYWORDS, Row, SWITCH, UNSUPPORTED, UNSUPPORTED_VARIABLES, says,
};

/// The keyword's bit in the set of keywords that were given.
pub(super) fn bit(keyword: Keyword) -> u128 {
    1 << keyword as u8
}

/// What this version does not support of a keyword of libpq.
pub(super) fn unsupported(name: &str) -> Option<&'static str> {
    UNSUPPORTED.iter().find(|(unsupported, _)| *unsupported == name).map(|(_, what)| *what)
}

/// The known name that is closest to an unknown one, if it is close: within a third of the longer
/// name's letters, so that one wrong letter of `host` counts as a slip and two do not.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let known = KEYWORDS.iter().map(|row| (slips(name, row.name), row.name));
    let (slips, known) = known.min_by_key(|(slips, _)| *slips)?;
    (slips * 3 <= name.len().max(known.len())).then_some(known)
}

/// The number of changes of one letter, and of swaps of two neighbours, that lead from one name to
/// the other.
fn slips(from: &str, to: &str) -> usize {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let change = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut least = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
            if swapped {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_nearest() {
        for (name, near) in [
            ("hots", Some("host")),
            ("hst", Some("host")),
            ("ports", Some("port")),
            ("aplication_name", Some("application_name")),
            ("conect_timout", Some("connect_timeout")),
            ("nope", None),
            ("x", None),
            ("color", None),
        ] {
            assert_eq!(nearest(name), near, "{name}");
        }
    }
}
