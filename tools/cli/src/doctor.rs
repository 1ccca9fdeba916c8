//! `onetrip doctor`: what is between a client and its server, and which settings the client needs.

use clap::Args;
use onetrip::blocking::Client;

use crate::output::{End, print};

/// Find out what is between a client and a server, and which settings to use. It changes nothing on
/// the server.
///
/// The exit status is 1 if a client with these settings would run into errors or wait for ever.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// The server or pooler, as a URL or key-value string with the settings that the client will
    /// use, such as postgres://alice@db:6432/shop?prepare_threshold=0. Other users can see it in
    /// the list of processes, so give the password in PGPASSWORD or in the password file
    /// (PGPASSFILE, ~/.pgpass).
    url: String,
}

/// Prints the diagnosis.
///
/// # Errors
/// One line: what failed, where, and what to do. Or something harmful was found and printed.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), End> {
    let failed = |error: onetrip::Error| format!("doctor: {error}");
    let client = Client::connect(&args.url).map_err(failed)?;
    let diagnosis = client.doctor().map_err(failed)?;
    print(&diagnosis.to_string())?;
    if diagnosis.is_harmful() { Err(End::Found) } else { Ok(()) }
}
