//! A profile in a few lines of text.

use onetrip_profile::{Finding, Profile};

use crate::output::thousands;

/// Findings that are shown.
const SHOWN: usize = 5;
/// Characters of a statement that are shown.
const WIDTH: usize = 76;

/// The numbers of a run, and what saves most.
pub(super) fn summary(profile: &Profile) -> String {
    let mut lines = vec![format!(
        "{} of {} on {} in {:.1} s, {}",
        several(profile.units, "unit"),
        several(profile.shapes.len() as u64, "shape"),
        several(profile.connections, "connection"),
        profile.seconds,
        match profile.rtt_ms {
            Some(rtt) => format!("round trip {rtt:.2} ms"),
            None => "round trip not known".to_owned(),
        }
    )];
    let trips = &profile.trips;
    lines.push(format!(
        "trips      now {}, without waits of the protocol {}, proven {}, at best {}",
        thousands(trips.now),
        thousands(trips.wire),
        thousands(trips.proven),
        thousands(trips.floor)
    ));
    lines.push(format!("unknown    {:.0} % of the waits", profile.unknown * 100.0));
    lines.push(format!(
        "time       network {}, server {}, program {}",
        ms(profile.time.network_ms),
        ms(profile.time.server_ms),
        ms(profile.time.program_ms)
    ));
    for (why, count) in &profile.opaque {
        lines.push(format!("not read   {}: {why}", several(*count, "connection")));
    }
    if let Some(incomplete) = &profile.incomplete {
        lines.push(format!("lossy      {incomplete}"));
    }
    lines.push(match profile.findings.len() {
        0 => "findings   none".to_owned(),
        count => format!("findings   {count}, the most first"),
    });
    let shown = profile.findings.iter().take(SHOWN).enumerate();
    lines.extend(shown.map(|(at, finding)| said(at + 1, finding)));
    if profile.findings.len() > SHOWN {
        lines.push(format!("   and {} more", profile.findings.len() - SHOWN));
    }
    lines.join("\n")
}

fn said(number: usize, finding: &Finding) -> String {
    let mut lines = format!("{number:>2}. {}: {}", finding.kind, finding.title);
    if finding.saves_trips >= 1.0 {
        let trips = several(finding.saves_trips.round() as u64, "trip");
        lines += &format!("; saves {trips}, {}", ms(finding.saves_ms));
    }
    if let Some(statement) = finding.statements.last() {
        lines += &format!("\n    {}", cut(statement, WIDTH));
    }
    lines
}

/// The first characters of a text, on one line.
pub(super) fn cut(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= width {
        return line;
    }
    let kept: String = line.chars().take(width - 1).collect();
    kept + "…"
}

/// `1 trip`, `1,204 trips`.
pub(super) fn several(count: u64, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {word}{plural}", thousands(count as f64))
}

/// `1.2 ms`, `12.3 s`.
pub(super) fn ms(ms: f64) -> String {
    match ms {
        ms if ms >= 10_000.0 => format!("{:.1} s", ms / 1e3),
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}
