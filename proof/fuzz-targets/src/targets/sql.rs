//! The lexer of SQL texts.

use allocation_counter::measure;
use onetrip_postgres::sql::{Place, classify, refusal};

use crate::input::{show, text};

const PLACES: [Place; 5] = [
    Place::Shared,
    Place::Pipeline { alone: true },
    Place::Pipeline { alone: false },
    Place::Session { in_transaction: false },
    Place::Session { in_transaction: true },
];

/// The input is the text.
pub(super) fn run(data: &[u8]) {
    let sql = text(data);
    let mut traits = classify("");
    let info = measure(|| traits = classify(sql));
    assert_eq!(info.count_total, 0, "it allocates");
    for place in PLACES {
        if let Some(refusal) = refusal(traits, place) {
            show(refusal);
            assert!(!refusal.code().is_empty());
        }
    }
    // Comments and blanks in front of a text change nothing.
    let commented = format!(" \n--; commit\n/* /* begin; */ ' */\t{sql}");
    assert_eq!(classify(&commented), traits);
}
