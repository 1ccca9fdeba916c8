//! The picture of what this is about: one transfer in several ways, each as a timeline with the
//! client, the network and the server as lanes, and each message that went over the line as an
//! arrow. All of it was recorded.

mod draw;
mod motion;
mod words;

pub(super) use words::COLUMNS;

use crate::results::{Preset, Results};
use crate::timeline::Timeline;

/// The transfers that were recorded, in the order in which they were planned.
pub(super) struct Picture<'a> {
    /// The server with its version.
    server: String,
    /// The latency that was added, one way.
    latency_ms: f64,
    repetitions: usize,
    strips: Vec<Strip<'a>>,
    /// By what program, and of which run.
    made: String,
}

/// One way to send the transfer.
struct Strip<'a> {
    title: &'static str,
    note: String,
    timeline: &'a Timeline,
}

impl<'a> Picture<'a> {
    /// At the longest round trip where any was recorded; None if none was.
    pub(super) fn of(results: &'a Results) -> Option<Picture<'a>> {
        let of_trips = results.cells.iter().filter(|cell| cell.key.preset == Preset::Trips);
        let recorded: Vec<_> =
            of_trips.filter_map(|cell| Some((cell, cell.timeline.as_ref()?))).collect();
        let rtt_ms = recorded.iter().map(|(cell, _)| cell.key.rtt_added_ms).fold(0.0, f64::max);
        let shown = recorded.into_iter().filter(|(cell, _)| cell.key.rtt_added_ms == rtt_ms);
        let shown: Vec<_> = shown.filter(|(_, it)| !it.messages.is_empty()).collect();
        let strip = |mode: Option<&str>, timeline: &'a Timeline| {
            let (title, note) = words::of_way(mode, timeline);
            Strip { title, note, timeline }
        };
        let repetitions = shown.iter().map(|(cell, _)| cell.repetitions.len()).max()?;
        let (version, began) = (&results.onetrip_version, &results.started_at);
        Some(Picture {
            made: format!("Drawn by onetrip {version} of the run that began at {began}."),
            server: words::server(&results.server),
            latency_ms: rtt_ms / 2.0,
            repetitions,
            strips: shown.iter().map(|(cell, it)| strip(cell.key.mode.as_deref(), it)).collect(),
        })
    }

    /// As an element of a page, whose style sheet has [`STYLE`].
    pub(super) fn inline(&self, width: Width) -> maud::Markup {
        draw::svg(self, width)
    }

    /// As a file of its own, which moves where its reader has nothing against that.
    pub(super) fn file(&self) -> String {
        draw::file(self).into_string()
    }

    fn ends_ms(&self) -> f64 {
        self.strips.iter().map(|it| it.timeline.ends_ms()).fold(0.0, f64::max)
    }
}

/// How it looks, in the colours of the page around it.
pub(super) const STYLE: &str = include_str!("picture.css");

/// What a picture is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// A page on a large screen.
    Wide,
    /// A page on a telephone.
    Narrow,
    /// A file that another page embeds.
    File,
}
