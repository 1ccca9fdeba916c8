//! Explains invalid arguments in one line.

use std::process::ExitCode;

use clap::Error;
use clap::error::ErrorKind;

use crate::command_line::concealed;
use crate::output::tell;
use crate::stop::STATUS_FAILED;

/// Prints the help or the version if that was asked for; otherwise says in one line what is wrong.
pub(crate) fn explain(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Standard output may be closed.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(STATUS_FAILED)
        }
        _ => {
            let line = one_line(&error.to_string());
            tell(&format!("onetrip: {}", concealed(&line)));
            ExitCode::from(STATUS_FAILED)
        }
    }
}

/// Clap's message without its usage lines and its line about --help.
fn one_line(message: &str) -> String {
    let is_more = |line: &&str| line.starts_with("Usage:") || line.starts_with("For more");
    let said = message.lines().map(str::trim).take_while(|line| !is_more(line));
    let said: Vec<&str> = said.filter(|line| !line.is_empty()).collect();
    let line = said.join(" ").replace(" tip: ", "; tip: ");
    let line = line.strip_prefix("error: ").unwrap_or(&line).trim_end_matches('.').to_owned();
    line + " (see --help)"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_and_the_tip_are_one_line() {
        let said = "error: invalid value 'x' for '--preset <PRESET>'\n  [possible values: a, b]\n\n  \
                    tip: a similar value exists: 'a'\n\nUsage: onetrip bench\n\nFor more information, try '--help'.\n";
        let line = "invalid value 'x' for '--preset <PRESET>' [possible values: a, b]; \
                    tip: a similar value exists: 'a' (see --help)";
        assert_eq!(one_line(said), line);
    }
}
