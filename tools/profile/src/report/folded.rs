//! Folded stacks: a line for each shape, statement and part of the time, with microseconds.

use std::fmt::Write;

use super::cut;
use crate::profile::Profile;

/// Characters of a frame.
const WIDTH: usize = 200;

/// `folded.txt`, for `flamegraph.pl`, inferno, speedscope and the like.
#[must_use]
pub fn folded(profile: &Profile) -> String {
    let mut out = String::new();
    for shape in &profile.shapes {
        for statement in &shape.by_statement {
            let time = &statement.time;
            let parts = [
                ("network", time.network_ms),
                ("server", time.server_ms),
                ("program", time.program_ms),
            ];
            for (part, ms) in parts {
                let micros = (ms * 1000.0).round();
                if micros >= 1.0 {
                    let (shape, statement) = (frame(&shape.name), frame(&statement.text));
                    // Writing to a String can't fail.
                    let _ = writeln!(out, "{shape};{statement};{part} {micros:.0}");
                }
            }
        }
    }
    out
}

/// A text without what divides frames.
fn frame(text: &str) -> String {
    let plain = |it: char| if it.is_control() { ' ' } else { it };
    let text: String = text.replace(';', ",").chars().map(plain).collect();
    let text = cut(&text, WIDTH);
    if text.is_empty() { "(empty)".to_owned() } else { text }
}
