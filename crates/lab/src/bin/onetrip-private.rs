//! Runs a command beside a private PostgreSQL and, where there is one, a private Redis: for tests in other languages.

use std::process::{Command, ExitCode};

use onetrip_lab::{postgres, redis};

const USAGE: &str = "\
usage: onetrip-private COMMAND [ARGUMENT…]
  runs COMMAND with ONETRIP_TEST_POSTGRES and ONETRIP_TEST_REDIS set to the URLs of servers that end with it;
  the latter is not set where no Redis or Valkey is found";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((program, arguments)) = arguments.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(program, arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("onetrip-private: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(program: &str, arguments: &[String]) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let server = postgres::PrivatePostgres::start(postgres::Options::default())?;
    let mut command = Command::new(program);
    command.args(arguments).env("ONETRIP_TEST_POSTGRES", server.url());
    let redis = match redis::Installation::find() {
        Ok(_) => Some(redis::Server::start(redis::Settings::default())?),
        Err(_) => None,
    };
    if let Some(redis) = &redis {
        command.env("ONETRIP_TEST_REDIS", redis.url());
    }
    let status = command.status().map_err(|error| format!("{program} can't be run: {error}"))?;
    server.stop()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
