//! What a chart shows, in a sentence that is computed from its figures. A difference that may be
//! noise is never told as one.

use super::format::{self, times};
use super::grid::{Dimension, Figure, Grid, Row};
use crate::spread::{REPETITIONS_MIN, Ratio};

/// Where a figure of a column was found, in words that end a sentence.
pub(super) type Place<'a> = &'a dyn Fn(&str) -> String;

/// How the slowest row compares with the fastest in the last column: a pair that does the same on one
/// row and on many, if there is one.
pub(super) fn contrast(grid: &Grid, place: Place<'_>) -> String {
    let Some((place, mut sorted)) = last(grid, place) else { return NOTHING.to_owned() };
    sorted.sort_by(|a, b| a.1.spread.median.total_cmp(&b.1.spread.median));
    match (sorted.last(), sorted.first()) {
        (Some(most), Some(least)) if sorted.len() > 1 => {
            let (most, least) = pair(&sorted).unwrap_or((*most, *least));
            compared(grid, most, least, &place)
        }
        _ => alone(grid),
    }
}

const NOTHING: &str = "Nothing was measured";

type Found<'a> = (&'a Row, &'a Figure);

/// What is known of the last column that has enough for a comparison.
fn last<'a>(grid: &'a Grid, place: Place<'_>) -> Option<(String, Vec<Found<'a>>)> {
    let column = grid.last_column(2).or_else(|| grid.last_column(1))?;
    let found = grid.rows.iter().filter_map(|row| Some((row, row.figures[column].as_ref()?)));
    Some((place(&grid.columns[column].label), found.collect()))
}

fn pair<'a>(found: &[Found<'a>]) -> Option<(Found<'a>, Found<'a>)> {
    let named = |name: &str| found.iter().copied().find(|(row, _)| row.label == name);
    PAIRS.iter().find_map(|(one, many)| Some((named(one)?, named(many)?)))
}

/// Pairs of operations that do the same, once on one row and once on many.
pub(super) const PAIRS: [(&str, &str); 3] = [
    ("update_single_row", "update_random_row"),
    ("select_for_update_single_row", "select_for_update_skip_locked"),
    ("select_for_update_many_rows", "select_for_update_skip_locked_many"),
];

/// How the row that differs most compares with the first one, which is the one to compare with.
pub(super) fn against_first(grid: &Grid, place: Place<'_>) -> String {
    let Some((place, found)) = last(grid, place) else { return NOTHING.to_owned() };
    let Some((base, others)) = found.split_first().filter(|(_, others)| !others.is_empty()) else {
        return alone(grid);
    };
    let ratios = others.iter().filter_map(|it| Some((it.0, it.1.ratio(base.1)?)));
    // What is no noise comes before what is.
    let rank = |ratio: &Ratio| (!ratio.is_noise(), ratio.median.ln().abs());
    let most = ratios
        .max_by(|a, b| rank(&a.1).partial_cmp(&rank(&b.1)).unwrap_or(std::cmp::Ordering::Equal));
    let Some((row, ratio)) = most else { return NOTHING.to_owned() };
    let (row, base) = (&row.label, &base.0.label);
    match ratio.is_noise() {
        true => noise(row, base, &ratio, &place),
        false => format!("{row} takes {} as long as {base}{place}", times(ratio.median)),
    }
}

fn compared(grid: &Grid, most: Found<'_>, least: Found<'_>, place: &str) -> String {
    let (upper, lower) = (&most.0.label, &least.0.label);
    let Some(ratio) = most.1.ratio(least.1) else { return String::new() };
    if ratio.is_noise() {
        return noise(upper, lower, &ratio, place);
    }
    match grid.is_time {
        true => format!("{upper} takes {} as long as {lower}{place}", times(ratio.median)),
        false => {
            format!("{upper} does {} the {} of {lower}{place}", times(ratio.median), grid.what)
        }
    }
}

/// Two things that differ by what may be noise, and where.
pub(super) fn noise(upper: &str, lower: &str, ratio: &Ratio, place: &str) -> String {
    format!("{upper} and {lower} {}", differ(ratio, place))
}

/// How two things differ whose difference may be noise, and where.
pub(super) fn differ(ratio: &Ratio, place: &str) -> String {
    let difference = times(ratio.median.max(1.0 / ratio.median));
    match ratio.repetitions {
        few if few < REPETITIONS_MIN => {
            let few = format::several(few, "repetition");
            format!("differ by {difference}{place}, which {few} can't tell from noise")
        }
        _ => format!("differ within the noise ({difference}){place}"),
    }
}

/// What becomes of the only row from the first column to the last.
fn alone(grid: &Grid) -> String {
    let Some(row) = grid.rows.iter().find(|row| row.known().next().is_some()) else {
        return NOTHING.to_owned();
    };
    let known: Vec<(usize, &Figure)> = row.known().collect();
    let ((from, first), (to, last)) = match known.as_slice() {
        [first, .., last] => (*first, *last),
        _ => return format!("{}: {} {}", row.label, median(known[0].1), grid.what),
    };
    let (from, to) = (&grid.columns[from].label, &grid.columns[to].label);
    match last.ratio(first) {
        Some(ratio) if ratio.is_noise() => {
            format!("{}: {}", row.label, noise(to, from, &ratio, ""))
        }
        _ => {
            let does = if grid.is_time { "takes" } else { "does" };
            let (from, to) = (Dimension::place(from), Dimension::place(to));
            let (first, last) = (median(first), median(last));
            format!("{} {does} {first} {}{from}, {last}{to}", row.label, grid.what)
        }
    }
}

fn median(figure: &Figure) -> String {
    format::number(figure.spread.median)
}

/// The most that any row gains from its first column to its best.
pub(super) fn gain(grid: &Grid) -> String {
    let best = |row: &Row| {
        let (from, first) = row.known().next()?;
        let (to, most) =
            row.known().max_by(|a, b| a.1.spread.median.total_cmp(&b.1.spread.median))?;
        Some((row.label.clone(), from, to, most.ratio(first)?))
    };
    let gains = grid.rows.iter().filter_map(best);
    let Some((row, from, to, ratio)) = gains.max_by(|a, b| a.3.median.total_cmp(&b.3.median))
    else {
        return NOTHING.to_owned();
    };
    let (from, to) = (&grid.columns[from].label, &grid.columns[to].label);
    let place = if grid.rows.len() > 1 { Dimension::place(&row) } else { String::new() };
    match ratio.is_noise() {
        true => noise(to, from, &ratio, &place),
        false => {
            let gain = times(ratio.median);
            format!("{to} does {gain} the {} of {from}{place}", grid.what)
        }
    }
}

/// Names as lines of a chart carry them: without what all of them begin with, which comes second.
pub(super) fn short(grid: &Grid) -> (Vec<String>, Option<String>) {
    let names: Vec<&str> = grid.rows.iter().map(|row| row.label.as_str()).collect();
    let prefix = common_prefix(&names);
    let is_worth_it = names.len() > 1 && prefix.len() >= PREFIX_MIN;
    let cut = if is_worth_it { prefix.len() } else { 0 };
    let short = names.iter().map(|name| name[cut..].to_owned()).collect();
    (short, is_worth_it.then(|| prefix.to_owned()))
}

/// A shorter beginning is not worth leaving out.
const PREFIX_MIN: usize = 6;

/// Up to and with the last underscore or comma that all have in common.
fn common_prefix<'a>(names: &[&'a str]) -> &'a str {
    let Some((first, rest)) = names.split_first() else { return "" };
    let is_common = |cut: usize| rest.iter().all(|it| it.starts_with(&first[..cut]));
    let ends = first.char_indices().filter(|(_, c)| matches!(c, '_' | ' '));
    let cut = ends.map(|(i, _)| i + 1).filter(|cut| is_common(*cut) && *cut < first.len());
    let longest = cut.filter(|cut| rest.iter().all(|it| it.len() > *cut)).max();
    &first[..longest.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_beginning_ends_where_a_word_does() {
        let names = ["select_for_update_single_row", "select_for_update_skip_locked"];
        assert_eq!(common_prefix(&names), "select_for_update_");
        assert_eq!(common_prefix(&["update_a", "select_a"]), "");
        assert_eq!(common_prefix(&["a_b", "a_b"]), "a_");
        assert_eq!(common_prefix(&[]), "");
    }
}
