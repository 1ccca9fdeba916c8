//! Ten seconds of chaos. `ONETRIP_SEED=n` repeats the faults of one seed, `ONETRIP_SECONDS=n` asks for
//! another time.

use std::time::Duration;

use onetrip_chaos::{Kind, Options, postgres};

#[test]
fn what_the_client_says_is_true_while_everything_breaks() {
    let seconds = std::env::var("ONETRIP_SECONDS").ok().and_then(|text| text.parse().ok());
    let options = Options::new(Duration::from_secs(seconds.unwrap_or(10)));
    println!("ONETRIP_SEED={}", options.seed);
    let report = postgres::run(&options);
    println!("{report}");
    let findings = report.findings.join("\n");
    assert!(findings.is_empty(), "seed {}:\n{findings}", options.seed);
    // Chaos that met nothing shows nothing.
    assert!(Kind::POSTGRES.iter().all(|kind| report.faults.contains_key(kind)), "{report}");
    let tally = &report.tally;
    let met = [tally.acknowledged, tally.unknown, tally.not_sent, tally.rejected, report.lost];
    assert!(met.iter().all(|count| *count > 0), "{report}");
    assert!(tally.unknown <= tally.in_flight, "{report}");
}
