//! Manual pages and shell completions, made from the definition of the arguments.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::output::{End, print};

#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// Standard output can't be written.
pub(crate) fn completions<C: CommandFactory>(args: &CompletionsArgs) -> Result<(), End> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "onetrip", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())
}

#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The command whose page to print, such as bench or bench compare; man shows it: onetrip man
    /// bench | man -l - [default: onetrip itself].
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,

    /// Write a page for each command into this directory, such as ~/.local/share/man/man1.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints or writes the pages, for `man`.
///
/// # Errors
/// There is no such command, or the directory or standard output can't be written.
pub(crate) fn man<C: CommandFactory>(args: &ManArgs) -> Result<(), End> {
    let Some(directory) = &args.out else { return print(&page(C::command(), &args.command)?) };
    let failed = |error| format!("man: can't write to {} ({error})", directory.display());
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(C::command(), directory).map_err(failed)?;
    Ok(())
}

fn page(mut all: clap::Command, names: &[String]) -> Result<String, String> {
    // This gives subcommands their whole names.
    all.build();
    let mut command = &all;
    for name in names {
        command = command.find_subcommand(name).ok_or_else(|| {
            let known = command.get_subcommands().map(clap::Command::get_name);
            let known = known.filter(|it| *it != "help").collect::<Vec<_>>().join(", ");
            match known.is_empty() {
                true => format!("man: {} has no commands", command.get_name()),
                false => format!("man: no command {name:?}: choose from {known}"),
            }
        })?;
    }
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command.clone()).render(&mut page);
    rendered.expect("writing to memory can't fail");
    Ok(String::from_utf8_lossy(&page).trim_end().to_owned())
}
