//! Reports: what they say, how they are written, and how they look in a browser.

#![allow(clippy::unwrap_used, missing_docs)]

mod synthetic;

use synthetic::Synthetic;

#[test]
fn tmp_make() {
    let results = Synthetic::new(1).rich();
    println!("{}", onetrip_measure::report::terminal(&results));
    let dir = std::path::Path::new("/tmp/report-out");
    println!("{:?}", onetrip_measure::report::write_all(&results, dir));
}
