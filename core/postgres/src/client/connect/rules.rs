//! Settings that contradict each other, beside [those of every protocol](onetrip_engine::rules).

use onetrip_engine::rules::Is::OneOf;
use onetrip_engine::rules::{self, Rule};

const WEAK: &[&str] = &["disable", "allow", "prefer"];

/// Of what is in force: `sslmode` and `sslnegotiation` with their defaults.
pub const RULES: &[Rule] = &[Rule {
    when: &[("sslnegotiation", OneOf(&["direct"])), ("sslmode", OneOf(WEAK))],
    says: "sslnegotiation=direct can't go on without TLS: set sslmode to require, verify-ca or \
               verify-full",
}];

/// Which rule the settings break that are in force: its words.
pub fn broken<T: AsRef<str>>(said: impl Fn(&str) -> Option<T>) -> Option<&'static str> {
    rules::broken(RULES, &said).or_else(|| rules::broken(rules::TLS, &said))
}
