//! Prints the PostgreSQL servers and the poolers that tests can use, so that scripts need not
//! search for them.

use std::process::ExitCode;

use onetrip_lab::postgres::pgbouncer::{self, Program};
use onetrip_lab::postgres::{Installation, LabError, find, find_all};

const USAGE: &str = "\
usage: onetrip-servers             a server of each major version, newest first: version, directory
       onetrip-servers --default   the server that tests use by default
       onetrip-servers --poolers   a PgBouncer of each version, newest first: version, program";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => print(find_all().map(servers)),
        ["--default"] => print(find().map(|one| servers(vec![one]))),
        ["--poolers"] => print(pgbouncer::find_all().map(poolers)),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn servers(found: Vec<Installation>) -> Vec<String> {
    found.iter().map(|one| format!("{} {}", one.version(), one.bin().display())).collect()
}

fn poolers(found: Vec<Program>) -> Vec<String> {
    found.iter().map(|one| format!("{} {}", one.version(), one.path().display())).collect()
}

fn print(found: Result<Vec<String>, LabError>) -> ExitCode {
    match found {
        Ok(found) => {
            found.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
