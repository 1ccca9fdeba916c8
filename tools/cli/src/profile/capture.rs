//! `onetrip profile --pcap`: a capture as a source.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;

use onetrip_profile::capture::{self, Captured};
use onetrip_profile::{Profile, Profiler};

use crate::output::tell;

/// Reads a capture, `-` for standard input.
///
/// # Errors
/// It can't be read, in one line.
pub(super) fn read(path: &Path, ports: &[u16], show_values: bool) -> Result<Profile, String> {
    let shown = path.display();
    let source: Box<dyn Read + Send> = match path.to_str() {
        Some("-") => Box::new(stdin()),
        _ => Box::new(File::open(path).map_err(|error| format!("--pcap {shown}: {error}"))?),
    };
    let mut profiler = Profiler::new();
    profiler.show_values(show_values);
    let captured = capture::read(source, ports, &mut profiler)
        .map_err(|error| format!("--pcap {shown}: {error}"))?;
    if let Some(note) = note(&captured) {
        tell(&format!("onetrip: profile: --pcap {shown}: {note}"));
    }
    Ok(profiler.finish())
}

/// What is missing in a capture.
fn note(captured: &Captured) -> Option<String> {
    let Captured { cut, holes, is_cut, segments, .. } = *captured;
    let mut parts = Vec::new();
    if segments == 0 {
        parts.push("there is no data of TCP in it".to_owned());
    }
    if cut > 0 {
        parts.push(format!("{cut} packets were cut when captured: use tcpdump -s 0"));
    }
    if holes > 0 {
        parts.push(format!("{holes} holes, where packets were not captured: use tcpdump -B 65536"));
    }
    if is_cut {
        parts.push("it ends within a packet, or what follows makes no sense".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}
