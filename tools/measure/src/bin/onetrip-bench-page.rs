//! Makes a page of what `make bench` found.

use std::path::PathBuf;
use std::process::ExitCode;

use onetrip_measure::report::benchmarks;
use onetrip_measure::{Error, Result};

const USAGE: &str = "\
usage: onetrip-bench-page [--date YYYY-MM-DD] --out DIRECTORY FILE.json…
  makes DIRECTORY/YYYY-MM-DD.md and its charts of files of rows as make bench writes them, and adds
  it to the list in DIRECTORY/README.md; FILE-environment.json beside each says where;
  of rows with one name the last counts; without --date it is the day of the last file";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(arguments) {
        Ok(paths) => {
            paths.iter().for_each(|path| println!("{}", path.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("onetrip-bench-page: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result<Vec<PathBuf>> {
    let (mut date, mut out, mut files) = (None, None, Vec::new());
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--date" => date = arguments.next(),
            "--out" => out = arguments.next(),
            it if it.starts_with('-') => {
                return Err(Error::new(format!("{it} is unknown; {USAGE}")));
            }
            _ => files.push(PathBuf::from(argument)),
        }
    }
    match out {
        Some(out) if !files.is_empty() => benchmarks::write(&files, date.as_deref(), out.as_ref()),
        _ => Err(Error::new(USAGE)),
    }
}
