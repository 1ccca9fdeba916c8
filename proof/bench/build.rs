//! Tells the program which versions it was built with: Cargo.lock knows them; and what the crate can
//! do, since the same program measures older revisions, too.

use std::fs;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(rows_of_tuples)");
    let copy_row = "../../faces/rust/src/streams/copy_row.rs";
    println!("cargo::rerun-if-changed={copy_row}");
    if fs::exists(copy_row).is_ok_and(|is| is) {
        println!("cargo::rustc-cfg=rows_of_tuples");
    }
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = fs::read_to_string("Cargo.lock").expect("Cargo.lock stands beside Cargo.toml");
    for (package, variable) in [
        ("tokio-postgres", "TOKIO_POSTGRES_VERSION"),
        ("deadpool-postgres", "DEADPOOL_POSTGRES_VERSION"),
        ("bb8", "BB8_VERSION"),
        ("sqlx", "SQLX_VERSION"),
        ("redis", "REDIS_VERSION"),
        ("fred", "FRED_VERSION"),
        ("onetrip", "ONETRIP_VERSION"),
    ] {
        let version = version_in(&lock, package).unwrap_or("unknown");
        println!("cargo::rustc-env={variable}={version}");
    }
}

fn version_in<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name).skip(1);
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}
