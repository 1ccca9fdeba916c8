//! The `onetrip` command.

mod demo;
mod proxy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("onetrip: {message}");
            ExitCode::from(2)
        }
    }
}
