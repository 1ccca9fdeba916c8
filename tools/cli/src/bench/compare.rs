//! `onetrip bench compare`: two runs side by side, for people and for CI.

use std::path::PathBuf;

use clap::Args;
use onetrip_measure::report;

use crate::output::{End, print};

/// Compare the results of two runs.
///
/// For each cell it shows the time per operation of B as a multiple of A's, with the spread, and
/// whether the difference is more than noise. Cells that differ only in the name of their workload,
/// such as two scripts, are compared too. The exit status is 1 if a cell is slower than
/// --fail-above allows, and 2 if the runs have no cell in common.
#[derive(Args, Debug)]
pub(super) struct CompareArgs {
    /// The results.json of the baseline run.
    a: PathBuf,

    /// The results.json of the run to compare with it.
    b: PathBuf,

    /// Fail if the time per operation of B is more than this many times A's, and the difference is
    /// more than noise: 1.10 allows ten percent.
    #[arg(long, value_name = "RATIO", value_parser = crate::values::positive)]
    fail_above: Option<f64>,
}

/// Prints the comparison.
///
/// # Errors
/// One line: a file that can't be read, or runs that have no cell in common. Or a cell is slower
/// than allowed.
pub(super) fn run(args: &CompareArgs) -> Result<(), End> {
    let read = |path| report::read(path).map_err(|error| format!("bench compare: {error}"));
    let comparison = report::compare(&read(&args.a)?, &read(&args.b)?);
    if let Some(why) = comparison.nothing_in_common() {
        // Otherwise a CI job whose options changed would compare nothing and always pass.
        return Err(format!("bench compare: {why}").into());
    }
    print(&comparison.to_string())?;
    let Some(limit) = args.fail_above else { return Ok(()) };
    let slower = comparison.fails_above(limit);
    if slower.is_empty() {
        return Ok(());
    }
    let cells = if slower.len() == 1 { "cell is" } else { "cells are" };
    print(&format!("{} {cells} slower than {limit} ×, beyond the noise", slower.len()))?;
    Err(End::Found)
}
