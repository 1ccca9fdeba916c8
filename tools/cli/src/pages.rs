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
    /// Write a page for each command into this directory, such as ~/.local/share/man/man1.
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints or writes the pages, for `man`.
///
/// # Errors
/// The directory or standard output can't be written.
pub(crate) fn man<C: CommandFactory>(args: &ManArgs) -> Result<(), End> {
    let Some(directory) = &args.directory else { return print(&page(C::command())) };
    let failed = |error| format!("man: can't write to {} ({error})", directory.display());
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(C::command(), directory).map_err(failed)?;
    Ok(())
}

fn page(command: clap::Command) -> String {
    let mut page = Vec::new();
    // Writing to memory can't fail.
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.expect("writing to memory can't fail");
    String::from_utf8_lossy(&page).trim_end().to_owned()
}
