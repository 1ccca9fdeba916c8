//! Ten seconds each of chaos with sessions whose owners leave something in them. `ONETRIP_SEED=n`
//! repeats the choices of one seed, `ONETRIP_SECONDS=n` sets another duration.

use std::sync::Mutex;

use onetrip_chaos::sessions::{Setting, run};
use onetrip_chaos::{Kind, Options};
use onetrip_lab::postgres::pgbouncer::{PoolMode, find_all};

/// The runs have five hundred tasks each and would compete for the processors, so one runs at a
/// time.
static TURN: Mutex<()> = Mutex::new(());

fn held(setting: &Setting) {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let report = run(&Options::of_a_test(), setting);
    match setting.faults {
        true => report.judge(&Kind::SESSIONS),
        false => {
            println!("{report}");
            let findings = report.findings.join("\n");
            assert!(findings.is_empty(), "seed {}:\n{findings}", report.seed);
            assert!(report.tally.acknowledged > 0, "{report}");
        }
    }
}

fn through(mode: PoolMode, connections: usize) {
    for program in find_all().expect("the directories can be read") {
        held(&Setting { connections, pooler: Some((program, mode)), faults: true });
    }
}

#[test]
fn nobody_works_in_a_session_of_somebody_else() {
    for connections in [1, 10] {
        held(&Setting { connections, pooler: None, faults: false });
    }
}

#[test]
fn nobody_works_in_a_session_of_somebody_else_while_everything_breaks() {
    held(&Setting { connections: 5, pooler: None, faults: true });
}

#[test]
fn nobody_does_behind_a_pooler_whose_connections_are_lent_for_a_session() {
    through(PoolMode::Session, 5);
}

#[test]
fn nobody_does_behind_a_pooler_whose_connections_are_lent_for_a_transaction() {
    through(PoolMode::Transaction, 10);
}
