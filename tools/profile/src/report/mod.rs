//! What was found, as files: a page for people, and what other tools read.
//!
//! | file | for |
//! |---|---|
//! | `report.html` | people: one file that loads nothing, and can be read without JavaScript |
//! | `profile.json` | `onetrip profile diff`, and programs: all that was found |
//! | `trace.perfetto.json` | <https://ui.perfetto.dev>: the units of [`Profile::timelines`] |
//! | `folded.txt` | flame graphs: the time of all units, by shape and statement |
//! | `otlp.json` | OpenTelemetry: the units of [`Profile::timelines`] as traces |

mod folded;
mod html;
mod otlp;
mod trace;

use std::fs::{DirBuilder, OpenOptions, remove_file, rename};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

pub use folded::folded;
pub use html::html;
pub use otlp::otlp;
pub use trace::trace;

use crate::profile::{Lane, LaneUnit, Profile, Timeline};

/// All files of a profile, each with its name.
#[must_use]
pub fn files(profile: &Profile) -> [(&'static str, String); 5] {
    [
        ("report.html", html(profile)),
        ("profile.json", json(profile)),
        ("trace.perfetto.json", trace(profile)),
        ("folded.txt", folded(profile)),
        ("otlp.json", otlp(profile)),
    ]
}

/// `profile.json`.
#[must_use]
pub fn json(profile: &Profile) -> String {
    // It has no maps, and numbers that are none become null.
    serde_json::to_string_pretty(profile).expect("a profile can be written")
}

/// Writes all files into a directory, which is made if it is not there. Nobody but their owner may
/// read them. A file that is there is replaced whole.
///
/// # Errors
/// The directory or a file can't be written.
pub fn write(profile: &Profile, directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    for (name, text) in files(profile) {
        let fresh = directory.join(format!(".{name}.{}", std::process::id()));
        // One that a killed run with the same number left behind.
        let _ = remove_file(&fresh);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        rename(&fresh, directory.join(name))?;
    }
    Ok(())
}

/// Units of all timelines, with their lanes.
fn units(profile: &Profile) -> impl Iterator<Item = (&Timeline, &Lane, &LaneUnit)> {
    profile.timelines.iter().flat_map(|timeline| {
        let lanes = timeline.lanes.iter();
        lanes.flat_map(move |lane| lane.units.iter().map(move |unit| (timeline, lane, unit)))
    })
}

/// What a unit is called.
fn name<'a>(profile: &'a Profile, unit: &LaneUnit) -> &'a str {
    let id = unit.shape.and_then(|id| profile.shapes.iter().find(|it| it.id == id));
    id.map_or("(another shape)", |it| it.name.as_str())
}

/// The first characters of a text, on one line.
fn cut(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(width) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// When the server was at each statement of a unit: it answers in order, so each begins when the
/// one before it in its trip was answered. In milliseconds since the run began.
fn turns(unit: &LaneUnit) -> Vec<(f64, f64)> {
    let mut before = f64::MIN;
    let mut turn = |begin: f64, end: f64| {
        let begin = begin.max(before).min(end);
        before = end;
        (begin, end)
    };
    unit.statements.iter().map(|it| turn(it.begin_ms, it.end_ms)).collect()
}
