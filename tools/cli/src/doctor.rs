//! `onetrip doctor`: what is between a client and its server, and which settings the client needs.

use clap::Args;
use onetrip::blocking::Client;
use onetrip::doctor::{Hosts, path};
use onetrip::{Config, redis};

use crate::output::{End, print};
use crate::runtime::runtime;

/// Find out what is between a client and its servers, who they are, and which settings to use. It
/// changes nothing on the servers.
///
/// The exit status is 1 if a client with these settings would run into errors or wait for ever.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// The server or pooler, as a URL or key-value string with the settings that the client will
    /// use, such as postgres://alice@db:6432/shop?prepare_threshold=0. Or the URL of Redis servers:
    /// redis://cache, redis://node-1,node-2?cluster=1, or
    /// redis+sentinel://one,two,three/mymaster. Other users can see it in
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
    let scheme = args.url.split(':').next().unwrap_or_default();
    if scheme.starts_with("redis") || scheme == "unix" {
        return run_redis(&args.url);
    }
    let config: Result<Config, _> = args.url.parse().and_then(Config::or_env);
    let config = config.map_err(|error| format!("doctor: {error}"))?;
    let client = match Client::connect_with(&config) {
        Ok(client) => client,
        Err(error) => {
            tell_hosts(&config)?;
            return Err(failed(error).into());
        }
    };
    let diagnosis = client.doctor().map_err(failed)?;
    print(&diagnosis.to_string())?;
    if diagnosis.is_harmful() { Err(End::Found) } else { Ok(()) }
}

fn run_redis(url: &str) -> Result<(), End> {
    let config: redis::Config = url.parse().map_err(|error| format!("doctor: {error}"))?;
    let diagnosis = runtime(1)?.block_on(redis::doctor::diagnose(&config));
    let diagnosis = diagnosis.map_err(|error| format!("doctor: {error}"))?;
    print(&diagnosis.to_string())?;
    if diagnosis.is_harmful() { Err(End::Found) } else { Ok(()) }
}

/// No host can be used: prints what is known of each, if there are several.
fn tell_hosts(config: &Config) -> Result<(), End> {
    match runtime(1)?.block_on(path(config)) {
        Ok(hosts) if hosts.len() > 1 => print(Hosts(&hosts).to_string().trim_end()),
        _ => Ok(()),
    }
}
