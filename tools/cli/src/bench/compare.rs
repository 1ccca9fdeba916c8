//! `onetrip bench compare`: two runs side by side, for people and for their CI.

use std::path::PathBuf;

use clap::Args;
use onetrip_measure::report;

use crate::output::{End, print};

/// Hold the results of two runs against each other.
///
/// For each cell it shows the time per operation of B in multiples of A's, with the spread, and
/// whether the difference is more than noise. Cells that differ in the name of their workload
/// alone, such as two scripts, are held against each other, too. The exit status is 1 if something
/// is slower than --fail-above allows, and 2 if the runs have nothing in common.
#[derive(Args, Debug)]
pub(super) struct CompareArgs {
    /// The results.json of the run to compare with.
    a: PathBuf,

    /// The results.json of the run that is compared.
    b: PathBuf,

    /// Fail if the time per operation of B is more than this many times A's, and the difference is
    /// more than noise: 1.10 allows ten percent.
    #[arg(long, value_name = "RATIO", value_parser = crate::values::positive)]
    fail_above: Option<f64>,
}

/// Prints the comparison.
///
/// # Errors
/// One line: a file that can't be read, or runs that have nothing in common. Or something is slower
/// than allowed.
pub(super) fn run(args: &CompareArgs) -> Result<(), End> {
    let read = |path| report::read(path).map_err(|error| format!("bench compare: {error}"));
    let comparison = report::compare(&read(&args.a)?, &read(&args.b)?);
    if let Some(why) = comparison.nothing_in_common() {
        // Otherwise a CI whose options have changed would be green for ever.
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
