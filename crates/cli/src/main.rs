//! The `onetrip` command.

mod demo;
mod doctor;
mod output;
mod proxy;
mod server;
mod stop;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::{End, tell};
use stop::STATUS_FAILED;

/// The exit status of a command that looked for something bad and found it.
const STATUS_FOUND: u8 = 1;

/// A PostgreSQL client that hides the round trip, and tools to see what one costs.
#[derive(Parser, Debug)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// See on a real PostgreSQL what round trips cost, and what pipelining gives back.
    Demo(demo::DemoArgs),
    /// Find out what is between a client and a server of yours, and which settings to use.
    Doctor(doctor::DoctorArgs),
    /// Put a network's latency in front of a server of yours.
    Proxy(proxy::ProxyArgs),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(args) => demo::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Proxy(args) => proxy::run(args),
    };
    match result {
        Ok(()) | Err(End::Unread) => ExitCode::SUCCESS,
        Err(End::Found) => ExitCode::from(STATUS_FOUND),
        Err(End::Failed(message)) => {
            tell(&format!("onetrip: {message}"));
            ExitCode::from(STATUS_FAILED)
        }
    }
}
