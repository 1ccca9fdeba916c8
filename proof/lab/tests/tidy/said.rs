//! What the package for Node says of failures is written from the table of all languages.
//!
//! `ONETRIP_WRITE=1 cargo test -p onetrip-lab --test tidy said` writes it anew.

use std::fmt::Write;

use onetrip_postgres::client::said::{ALL, Said};

use crate::root;

const FILE: &str = "faces/node/src/engine/said.ts";
const HEAD: &str = "\
// What is said of a failure without an error of the server: a code and a line. Do not edit: written
// from `core/postgres/src/client/said.rs` by
// `ONETRIP_WRITE=1 cargo test -p onetrip-lab --test tidy said`.

/** What is said of a failure. */
export interface Said { readonly code: string; readonly text: string }
";

#[test]
fn what_typescript_says_of_failures_is_the_table_in_rust() {
    let mut wanted = HEAD.to_owned();
    for (name, Said { code, text }) in ALL {
        let text = text.replace('\'', "\\'");
        write!(wanted, "\nexport const {name}: Said = {{\n  code: '{code}',\n").unwrap();
        writeln!(wanted, "  text: '{text}',\n}}").unwrap();
    }
    let file = root().join(FILE);
    if std::env::var_os("ONETRIP_WRITE").is_some() {
        return std::fs::write(file, wanted).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), wanted, "{FILE} is not what Rust says");
}
