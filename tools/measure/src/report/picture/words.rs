//! The picture in words: what it is called, how it is read, and all that is in it for those who
//! can't see it.

use super::Picture;
use crate::report::format::{self, coarse, duration_ms, several};
use crate::results::Server;
use crate::timeline::{End, Message, Timeline, Trip};

/// What a way to send a transfer is called, and what is to be seen of it.
pub(super) fn of_way(mode: Option<&str>, timeline: &Timeline) -> (&'static str, String) {
    let (title, note) = match mode {
        Some("one by one") => {
            let (work, all) = (coarse(timeline.at_work_ms()), duration_ms(timeline.ends_ms()));
            let note = format!("the server has work for {work}\u{a0}ms of {all}");
            return ("Each statement awaited", note);
        }
        Some("transaction") => ("BEGIN rides along", "it leaves with the first UPDATE"),
        Some("pipeline") => ("One pipeline", "both UPDATEs leave together, as one transaction"),
        Some("procedure") => ("A PL/pgSQL procedure", "the server does both UPDATEs itself"),
        _ => ("A transfer", ""),
    };
    (title, note.to_owned())
}

/// With its version up to its first space: the rest says how it was built.
pub(super) fn server(server: &Server) -> String {
    let version = server.version.split_whitespace().next().unwrap_or_default();
    format!("{} {version}", server.product)
}

impl Picture<'_> {
    pub(in crate::report) fn title(&self) -> String {
        let ways = match self.strips.len() {
            1 => "One way",
            2 => "Two ways",
            3 => "Three ways",
            _ => "Four ways",
        };
        format!("{ways} to send the same money transfer")
    }

    /// What the lanes and arrows are.
    pub(in crate::report) fn subtitle(&self) -> String {
        format!(
            "To {}, {} ms away. Time goes from left to right, and each arrow is one message.",
            self.server,
            format::tick(self.latency_ms)
        )
    }

    /// Where it is from.
    pub(in crate::report) fn source(&self) -> String {
        let median = match self.repetitions {
            1 => String::new(),
            many => {
                format!("; of each way the run nearest to the median of {many}")
            }
        };
        format!("Recorded beside the client by the proxy that adds the latency{median}.")
    }

    /// All of it, in sentences.
    pub(super) fn described(&self) -> String {
        let each = self.strips.iter().map(|strip| {
            let trips: Vec<String> = strip.timeline.round_trips().iter().map(trip).collect();
            format!("{}: {}. {}", strip.title, summary(strip.timeline), trips.join(" "))
        });
        let each: Vec<String> = each.collect();
        format!("{} {}", self.subtitle(), each.join(" "))
    }

    /// A line for each message.
    pub(in crate::report) fn rows(&self) -> Vec<[String; 6]> {
        let of_strip = |strip: &super::Strip<'_>| {
            let trips = strip.timeline.round_trips();
            let all = trips.iter().flat_map(|trip| trip.0.iter().map(move |it| (trip, it)));
            all.map(|(trip, it)| row(strip.title, trip, it)).collect::<Vec<_>>()
        };
        self.strips.iter().flat_map(of_strip).collect()
    }
}

/// What [`Picture::rows`] has.
pub(in crate::report) const COLUMNS: [&str; 6] =
    ["way", "message", "commands", "left, ms", "arrived, ms", "bytes"];

fn row(way: &str, trip: &Trip<'_>, message: &Message) -> [String; 6] {
    let (what, commands) = match message.from {
        End::Client => ("request", trip.commands().join(", ")),
        End::Server => ("answer", message.done.join(", ")),
    };
    let [left, arrived] = [message.left_ms, message.arrived_ms].map(|ms| format!("{ms:.1}"));
    [way.to_owned(), what.to_owned(), commands, left, arrived, format::count(message.bytes)]
}

fn trip(trip: &Trip<'_>) -> String {
    let left = trip.0.first().map_or(0.0, |it| it.left_ms);
    let answered = trip.0.iter().map(|it| it.arrived_ms).fold(0.0, f64::max);
    let what = match trip.commands().as_slice() {
        [] => "A request".to_owned(),
        commands => commands.join(", "),
    };
    let [left, answered] = [left, answered].map(format::tick_or_zero);
    format!("{what}: sent after {left} ms, answered after {answered} ms.")
}

/// Trips and time.
pub(super) fn summary(timeline: &Timeline) -> String {
    format!("{}, {}", trips(timeline), duration_ms(timeline.ends_ms()))
}

pub(super) fn trips(timeline: &Timeline) -> String {
    several(timeline.round_trips().len(), "trip")
}
