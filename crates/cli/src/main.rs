//! The `onetrip` command.

mod demo;
mod output;
mod proxy;
mod server;
mod stop;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::{End, tell};
use stop::STATUS_FAILED;

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
    /// Put a network's latency in front of a server of yours.
    Proxy(proxy::ProxyArgs),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Demo(args) => demo::run(args),
        Command::Proxy(args) => proxy::run(args),
    };
    match result {
        Ok(()) | Err(End::Unread) => ExitCode::SUCCESS,
        Err(End::Failed(message)) => {
            tell(&format!("onetrip: {message}"));
            ExitCode::from(STATUS_FAILED)
        }
    }
}
