//! One failover of each kind with a cluster of PostgreSQL servers. `ONETRIP_SEED=n` repeats the
//! order and the choices of one seed.

use onetrip_chaos::Kind;
use onetrip_chaos::failover::{Options, run};
use onetrip_lab::postgres::patroni::found_or_skipped;

#[test]
fn what_was_acknowledged_stays_while_primaries_die_and_are_cut_off() {
    const KINDS: [Kind; 3] = [Kind::NodeKilled, Kind::SwitchedOver, Kind::NodeCut];
    if found_or_skipped().is_none() {
        return;
    }
    let seed = onetrip_chaos::Options::of_a_test().seed;
    let options = Options { seed, faults: KINDS.to_vec(), tasks: 200, guests: Vec::new() };
    let outcome = run(&options, |_| ());
    for takeover in &outcome.takeovers {
        let took = takeover.takes_writes.duration_since(takeover.from);
        println!("{:?}: another node took writes after {took:?}", takeover.kind);
    }
    outcome.report.judge(&KINDS);
}
