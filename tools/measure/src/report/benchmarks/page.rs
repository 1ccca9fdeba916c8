//! The page, in Markdown.

use super::charts::{Chart, charts, short};
use super::markdown::{escaped, table};
use super::rows::{BarIs, Row};
use super::setting::setting;
use super::sittings::Measured;
use super::words::{About, Group};
use crate::report::format;

/// The page of a day, and the charts that it shows.
pub(super) fn page(measured: &Measured, date: &str) -> (String, Vec<Chart>) {
    let mut all_charts = Vec::new();
    let groups = Group::ALL.map(|group| {
        let (text, charts) = section(group, &measured.rows, date);
        all_charts.extend(charts);
        text
    });
    let text = [
        format!("# Benchmarks of {date}\n\n{}", summary(&measured.rows)),
        format!("\n{}", what_is_here(date)),
        setting(measured),
        lost(&measured.rows),
        groups.concat(),
        repeating(date),
    ];
    (text.concat(), all_charts)
}

fn summary(rows: &[Row]) -> String {
    let count = |which: &dyn Fn(&&Row) -> bool| rows.iter().filter(which).count();
    let held = count(&|it| it.holds == Some(true));
    let judged = count(&|it| it.holds.is_some());
    let behind = count(&|it| it.holds.is_none() && it.is_lost());
    let skipped = count(&|it| it.is_skipped());
    let mut text = format!(
        "**{}: {held} of {} hold.**\nIn {} the other is ahead.",
        format::several(rows.len(), "row"),
        format::several(judged, "bar"),
        format::several(behind, "row") + " without a bar",
    );
    if skipped > 0 {
        text += &format!(" Not measured: {}.", format::several(skipped, "row"));
    }
    text + "\n"
}

fn what_is_here(date: &str) -> String {
    format!(
        "[How to read a row](README.md#how-to-read-a-row) says what the columns mean. The figures \
         as JSON:\n[{date}.json]({date}.json), and what they were measured on:\n\
         [{date}-environment.json]({date}-environment.json).\n"
    )
}

fn lost(rows: &[Row]) -> String {
    let lost: Vec<&Row> = rows.iter().filter(|it| it.is_lost()).collect();
    let text = match lost.is_empty() {
        true => "No row is.\n".to_owned(),
        false => format!(
            "In these rows a bar is missed, or there is none and the other is ahead.\n\n{}\n{}",
            figures(&lost),
            notes(&lost)
        ),
    };
    format!("\n## What is lost\n\n{text}")
}

/// Of a group: its charts, which show lost rows too, and a table of the others.
fn section(group: Group, rows: &[Row], date: &str) -> (String, Vec<Chart>) {
    let own: Vec<&Row> = rows.iter().filter(|it| About::of(it).group == group).collect();
    if own.is_empty() {
        return (String::new(), Vec::new());
    }
    let charts = charts(group, &own, date);
    let mut text = format!("\n## {}\n", group.title());
    for Chart { name, title, .. } in &charts {
        text += &format!("\n![{title}: how ours stands, as bars]({name})\n");
    }
    let (lost, others): (Vec<&Row>, Vec<&Row>) = own.into_iter().partition(|it| it.is_lost());
    if !lost.is_empty() {
        let are = if lost.len() == 1 { "stands" } else { "stand" };
        text += &format!(
            "\n{} of this group {are} under [What is lost](#what-is-lost).\n",
            format::several(lost.len(), "row")
        );
    }
    if !others.is_empty() {
        text += &format!("\n{}", figures(&others));
        let notes = notes(&others);
        if !notes.is_empty() {
            text += &format!(
                "\n<details>\n<summary>How these were run</summary>\n\n{notes}\n</details>\n"
            );
        }
    }
    (text, charts)
}

const COLUMNS: [&str; 7] = ["what", "ours", "peer", "ratio", "quartiles", "bar", "holds"];

fn figures(rows: &[&Row]) -> String {
    table(&COLUMNS, rows.iter().map(|row| cells(row).to_vec()))
}

fn cells(row: &Row) -> [String; 7] {
    let with_unit = |value: f64| match row.unit.strip_suffix('s').filter(|it| it.len() > 2) {
        Some(one) if value == 1.0 => format!("1\u{a0}{one}"),
        _ => format!("{}\u{a0}{}", figure(value), row.unit),
    };
    let peer = row.peer.map(with_unit).into_iter();
    let peer = peer.chain(row.peer_version.clone().filter(|it| !it.is_empty()));
    let bar = row.bar.map(|bar| {
        let sign = if row.bar_is == BarIs::Min { "≥" } else { "≤" };
        match (row.bar_of_multiple(), row.multiple()) {
            (Some(_), _) => format!("{sign}\u{a0}{}", short(bar)),
            (None, Some(_)) => format!("{sign}\u{a0}{}\u{a0}{}", figure(bar), row.unit),
            (None, None) => format!("{sign}\u{a0}{}", figure(bar)),
        }
    });
    [
        format!("{}<br>`{}`", About::of(row).phrase(), row.name),
        row.ours.map_or("–".to_owned(), with_unit),
        escaped(&peer.collect::<Vec<_>>().join(", ")),
        row.ratio.map(short).unwrap_or_default(),
        row.quartiles()
            .map(|(low, high)| format!("{}–{}", short(low), short(high)))
            .unwrap_or_default(),
        bar.unwrap_or_default(),
        verdict(row).to_owned(),
    ]
}

fn verdict(row: &Row) -> &'static str {
    match (row.holds, row.is_lost() && row.is_near()) {
        _ if row.is_skipped() => "skipped",
        (Some(true), _) => "yes",
        (Some(false), false) => "**no**",
        (Some(false), true) => "**no**, near",
        (None, true) => "behind, near",
        (None, false) if row.is_lost() => "behind",
        (None, false) => "",
    }
}

/// Counts as they are, and three digits of others.
fn figure(value: f64) -> String {
    match value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        true => format::count(value as u64),
        false => format::number(value),
    }
}

/// What is said of rows, each text once; of their names what comes before the kind of figure.
fn notes(rows: &[&Row]) -> String {
    let mut said: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows.iter().filter(|row| !row.note.is_empty()) {
        let name = format!("`{}`", About::without_kind(&row.name));
        match said.iter_mut().find(|(note, _)| *note == row.note) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => said.push((&row.note, vec![name])),
        }
    }
    match said.is_empty() {
        true => String::new(),
        false => {
            let rows = said.into_iter().map(|(note, names)| vec![names.join(", "), escaped(note)]);
            table(&["rows", "how they were run"], rows)
        }
    }
}

fn repeating(date: &str) -> String {
    format!(
        "\n## How to repeat it\n\n\
         ```sh\n\
         make bench                         # everything, into target/bench.json\n\
         make bench ONLY=select_            # what has this in its name\n\
         make bench-page DATE={date}    # a page like this of it\n\
         ```\n\n\
         Runs of parts can be put together: keep `target/bench.json` of each as `a.json`, and\n\
         `target/bench-environment.json` as `a-environment.json`. Then run\n\
         `make bench-page FILES=\"a.json b.json\"`. Where both have a row, the later one counts.\n\n\
         [proof/bench/README.md](../../proof/bench/README.md) says what each row does.\n"
    )
}
