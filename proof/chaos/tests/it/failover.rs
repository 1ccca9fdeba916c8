//! One failover of each kind with a cluster of PostgreSQL servers, for clients that know all of its
//! hosts, and for those that reach it by one host name: through HAProxy, as
//! docs/operations/clusters.md sets it up, and PgBouncer. `ONETRIP_SEED=n` repeats the order and the
//! choices of one seed.

use onetrip_chaos::Kind;
use onetrip_chaos::failover::{Options, PathReport, run_with_paths};
use onetrip_lab::postgres::patroni::found_or_skipped;

const PAGE: &str = include_str!("../../../../docs/operations/clusters.md");

#[test]
fn what_was_acknowledged_stays_while_primaries_die_and_are_cut_off() {
    const KINDS: [Kind; 3] = [Kind::NodeKilled, Kind::SwitchedOver, Kind::NodeCut];
    if found_or_skipped().is_none() {
        return;
    }
    let seed = onetrip_chaos::Options::of_a_test().seed;
    let options = Options { seed, faults: KINDS.to_vec(), tasks: 200, guests: Vec::new() };
    let (outcome, paths) = run_with_paths(&options, PAGE);
    for takeover in &outcome.takeovers {
        let took = takeover.takes_writes.duration_since(takeover.from);
        println!("{:?}: another node took writes after {took:?}", takeover.kind);
    }
    for path in &paths {
        let PathReport { name, acknowledged, failed, last_error, .. } = path;
        println!("{name}: {acknowledged} acknowledged, failed {failed:?}; {last_error:?}");
    }
    outcome.report.judge(&KINDS);
    for path in &paths {
        assert!(path.findings.is_empty(), "{}, seed {seed}: {:?}", path.name, path.findings);
        assert!(path.acknowledged > 0, "{}", path.name);
        let between = if path.name == "HAProxy" { "a proxy: " } else { "PgBouncer " };
        for words in [": primary, used", &format!(", behind {between}")] {
            assert!(path.hosts.contains(words), "{}: {}", path.name, path.hosts);
        }
    }
}
