//! The charts of a page: rows that say how many times as much, as far as they have a bar or are
//! lost; and what memory takes of its bar.

use super::rows::{BarIs, Row};
use super::words::{About, Group};
use crate::report::chart::{Block, Ratio, Ratios, Words, height};
use crate::report::format;

/// A file beside the page.
pub(super) struct Chart {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) svg: String,
}

/// The most that blocks in one chart may come to: what is higher is divided.
const HEIGHT_MAX: i32 = 1200;

const RATIOS: &str = "Ratio, ours ÷ peer, on a logarithmic axis";
const SHARES: &str = "Ours ÷ its bar, on a logarithmic axis";

/// Of a group, whose rows these are. None where nothing can be shown so.
pub(super) fn charts(group: Group, rows: &[&Row], date: &str) -> Vec<Chart> {
    let is_shares = group == Group::Memory;
    let ratio = if is_shares { share } else { ratio };
    let blocks = blocks(rows, ratio);
    let parts = divided(&blocks);
    let count = parts.len();
    let chart = |(i, part): (usize, &[Block])| {
        let (number, of) = match count {
            1 => (String::new(), String::new()),
            _ => (format!("-{}", i + 1), format!(", {} of {count}", i + 1)),
        };
        let title = format!("{}{of}", group.title());
        let description = description(part);
        let words = Words { id: group.slug(), title: &title, description: &description };
        let ratios = Ratios {
            label: if is_shares { SHARES } else { RATIOS },
            meanings: ["holds its bar", "misses it, or is behind"],
            blocks: part,
        };
        Chart {
            name: format!("{date}-{}{number}.svg", group.slug()),
            svg: ratios.file(&words),
            title,
        }
    };
    parts.into_iter().enumerate().map(chart).collect()
}

/// Those of one subject beside each other, in the order of their first rows.
fn blocks(rows: &[&Row], ratio: fn(&Row) -> Option<Ratio>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for row in rows {
        let Some(ratio) = ratio(row) else { continue };
        let about = About::of(row);
        let peer = row.peer_version.iter().filter(|it| !it.is_empty());
        // Without how it was built.
        let peer = peer.map(|it| format!("peer: {}", it.split(" (").next().unwrap_or(it)));
        let line = about.parts.iter().cloned().chain(peer).collect::<Vec<_>>().join(", ");
        let [heading, line] = [&about.subject, &line].map(|it| plain(&format::capital(it)));
        match blocks.iter_mut().find(|it| it.heading == heading && it.line == line) {
            Some(block) => block.ratios.push(ratio),
            None => blocks.push(Block { heading, line, ratios: vec![ratio] }),
        }
    }
    // Those that share a heading stand under it.
    let headings: Vec<String> = blocks.iter().map(|it| it.heading.clone()).collect();
    blocks.sort_by_key(|block| headings.iter().position(|it| *it == block.heading));
    blocks
}

/// In parts of about the same height.
fn divided(blocks: &[Block]) -> Vec<&[Block]> {
    let count = (height(blocks) + HEIGHT_MAX - 1) / HEIGHT_MAX;
    let (mut parts, mut rest) = (Vec::new(), blocks);
    for left in (2..=count).rev() {
        let wanted = height(rest) / left;
        let len = (1..rest.len()).find(|len| height(&rest[..*len]) >= wanted);
        let (part, behind) = rest.split_at(len.unwrap_or(rest.len()));
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    parts.retain(|part| !part.is_empty());
    parts
}

fn ratio(row: &Row) -> Option<Ratio> {
    let value = row.multiple().filter(|it| *it > 0.0)?;
    let (is_lost, bar) = (row.is_lost(), row.bar_of_multiple());
    if bar.is_none() && !is_lost {
        return None;
    }
    let sign = if row.bar_is == BarIs::Min { "≥" } else { "≤" };
    let bar_text = bar.map_or("no bar".to_owned(), |bar| format!("{sign} {}", short(bar)));
    Some(Ratio {
        label: label(row),
        value,
        range: row.quartiles().filter(|(low, _)| *low > 0.0),
        bar: bar.filter(|it| *it > 0.0),
        texts: [short(value), bar_text],
        is_good: !is_lost,
    })
}

fn share(row: &Row) -> Option<Ratio> {
    let bar = row.bar.filter(|bar| *bar > 0.0 && row.bar_is == BarIs::Max)?;
    let ours = row.ours.filter(|ours| *ours > 0.0)?;
    Some(Ratio {
        label: label(row),
        value: ours / bar,
        range: row.quartiles().map(|(low, high)| (low / bar, high / bar)).filter(|it| it.0 > 0.0),
        bar: Some(1.0),
        texts: [format!("{} {}", short(ours), row.unit), format!("of {}", format::tick(bar))],
        is_good: !row.is_lost(),
    })
}

fn label(row: &Row) -> String {
    let of_unit = || match row.unit.as_str() {
        unit if unit.ends_with("/s") => "rate",
        "s" | "ms" | "µs" | "µs/op" | "ns/op" => "time",
        "MiB" => "memory",
        _ => "",
    };
    About::of(row).kind.unwrap_or_else(of_unit).to_owned()
}

/// Two digits after the point, where that is not too many.
pub(super) fn short(value: f64) -> String {
    match value {
        it if it < 10.0 => format!("{it:.2}"),
        _ => format::number(value),
    }
}

/// A chart has no code.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

fn description(blocks: &[Block]) -> String {
    let each = blocks.iter().map(|block| {
        let ratio = |it: &Ratio| {
            let [value, bar] = &it.texts;
            let what = if it.label.is_empty() { String::new() } else { format!("{} ", it.label) };
            format!("{what}{value} ({bar})")
        };
        let ratios: Vec<String> = block.ratios.iter().map(ratio).collect();
        let line = if block.line.is_empty() { String::new() } else { format!(", {}", block.line) };
        format!("{}{line}: {}.", block.heading, format::list(&ratios))
    });
    each.collect::<Vec<_>>().join(" ")
}
