//! Writes the rules of settings for the Node packages; see `scripts/keywords`.

use onetrip_engine::rules;
use onetrip_redis::client::settings::RULES;

const HEAD: &str = "\
// Which settings of Redis contradict each other. Do not edit: written by `scripts/keywords`.

import type { Rule } from '../engine/rules'

/** Of what is in force. */
";

/// The file, whole.
pub(crate) fn table() -> String {
    let in_force = rules::json(&[RULES, rules::TLS].concat());
    let options = rules::json(rules::TLS_OPTIONS);
    format!(
        "{HEAD}export const RULES: readonly Rule[] = {in_force}\n\n\
         /** Of what was said beside options of TLS. */\n\
         export const TLS_OPTIONS: readonly Rule[] = {options}\n"
    )
}

#[allow(dead_code, reason = "the test calls the function above alone")]
fn main() {
    print!("{}", table());
}
