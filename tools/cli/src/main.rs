//! The `onetrip` command.

mod arguments;
mod bench;
mod command_line;
mod demo;
mod doctor;
mod live;
mod measuring;
mod output;
mod pages;
mod profile;
mod proxy;
mod runtime;
mod shown;
mod sidecar;
mod stop;
mod values;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::{End, tell};

/// The exit status of a check that found a problem.
const STATUS_FOUND: u8 = 1;

/// Tools around onetrip, a client for PostgreSQL and Redis: measure round trips, simulate latency,
/// and diagnose connections.
#[derive(Parser, Debug)]
#[command(name = "onetrip", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands. A doc comment on a variant would replace the description at its arguments.
#[derive(Subcommand, Debug)]
enum Command {
    Demo(demo::DemoArgs),
    Bench(Box<bench::BenchArgs>),
    Doctor(doctor::DoctorArgs),
    Profile(Box<profile::ProfileArgs>),
    Proxy(proxy::ProxyArgs),
    Sidecar(Box<sidecar::SidecarArgs>),
    /// Print a completion script for a shell.
    Completions(pages::CompletionsArgs),
    /// Print the manual page, or write those of all commands into a directory.
    Man(pages::ManArgs),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return arguments::explain(&error),
    };
    let result = match arguments.command {
        Command::Demo(args) => demo::run(&args).map_err(|end| end.within("demo")),
        Command::Bench(args) => bench::run(*args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Profile(args) => profile::run(*args).map_err(|end| end.within("profile")),
        Command::Proxy(args) => proxy::run(args),
        Command::Sidecar(args) => sidecar::run(&args).map_err(|end| end.within("sidecar")),
        Command::Completions(args) => pages::completions::<Arguments>(&args),
        Command::Man(args) => pages::man::<Arguments>(&args),
    };
    match result {
        Ok(()) | Err(End::Unread) => ExitCode::SUCCESS,
        Err(End::Found) => ExitCode::from(STATUS_FOUND),
        Err(End::Status(status)) => ExitCode::from(status),
        Err(End::Failed(message)) => {
            tell(&format!("onetrip: {message}"));
            ExitCode::from(stop::status())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_default_is_shown_as_it_can_be_given() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                // Several are shown with blanks between them, whatever their delimiter is.
                let shown = argument.get_default_values().len();
                assert!(shown <= 1, "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Arguments::command());
    }
}
