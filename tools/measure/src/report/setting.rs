//! The setting of a run, as names and values, and how to read its figures.

use super::format;
use crate::results::{Line, Results, Server};

/// What stands over every report.
pub(super) fn facts(results: &Results) -> Vec<(&'static str, String)> {
    let server = &results.server;
    let mut facts = vec![
        ("Server", format!("{}{}", server.url, whose(server))),
        ("Version", format!("{} {}", server.product, server.version)),
        ("Client", client(results)),
        ("Began", results.started_at.clone()),
        ("Took", format!("{} s", format::number(results.elapsed_s))),
        ("Seed", results.seed.to_string()),
        ("Command", results.command.join(" ")),
    ];
    if let Some(beside) = &results.beside {
        let server = &beside.server;
        let version =
            format!("{} {}, {}{}", server.product, server.version, server.url, whose(server));
        facts.insert(2, ("Beside it", version));
    }
    facts
}

fn whose(server: &Server) -> &'static str {
    if server.private { " (private, started for this run)" } else { "" }
}

/// All servers of the run.
pub(super) fn servers(results: &Results) -> Vec<&Server> {
    let beside = results.beside.iter().map(|it| &it.server);
    [&results.server].into_iter().chain(beside).collect()
}

/// The lines to each server, with what is measured of them.
pub(super) fn lines(results: &Results) -> Vec<(String, &[Line])> {
    let beside = results.beside.iter().map(|it| (&it.server, &it.lines[..]));
    let all = [(&results.server, &results.lines[..])].into_iter().chain(beside);
    let what = |product: &str| match product {
        "PostgreSQL" => "an empty request".to_owned(),
        product => format!("PING ({product})"),
    };
    all.map(|(server, lines)| {
        (format!("Round trips of {}, as measured, in ms", what(&server.product)), lines)
    })
    .collect()
}

fn client(results: &Results) -> String {
    let client = &results.client;
    let cpus = format::several(client.cpus, "CPU");
    let threads = format::several(client.threads, "thread");
    format!("onetrip {} on {}, {cpus}, {threads}", results.onetrip_version, client.system)
}

/// The measured round trips in a line; empty where there are none.
pub(super) fn round_trips(lines: &[Line]) -> String {
    let each = lines.iter().map(|line| {
        let measured = format::number(line.rtt_ms.median);
        match line.rtt_added_ms {
            0.0 => format!("{measured} ms"),
            added => format!("{measured} ms (+{})", format::tick(added)),
        }
    });
    each.collect::<Vec<_>>().join(", ")
}

/// How figures are to be read.
pub(super) const READING: [&str; 3] = [
    "A figure is the median of the repetitions; what stands in brackets are their first and third \
     quartile, so half of the repetitions lie between.",
    "A ratio is the median of the ratios of all pairs of repetitions. It is within the noise where 1 lies \
     among the middle nine of ten of them, or where one side has fewer than three repetitions.",
    "Latency counts from when an operation should have begun (with a rate) or began (without), up to its \
     end, with all that was tried again.",
];
