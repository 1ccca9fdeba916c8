//! Says which PostgreSQL servers tests can run on: for scripts, which so need not know the places.

use std::process::ExitCode;

use onetrip_lab::postgres::{Installation, LabError, find, find_all};

const USAGE: &str = "\
usage: onetrip-servers             one of every major version, the newest first: version, directory
       onetrip-servers --default   the one that is used when nobody asks for a certain one";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => print(find_all()),
        ["--default"] => print(find().map(|one| vec![one])),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn print(found: Result<Vec<Installation>, LabError>) -> ExitCode {
    match found {
        Ok(found) => {
            found.iter().for_each(|one| println!("{} {}", one.version(), one.bin().display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
