//! Settings that contradict each other, or that say nothing where they stand, beside [those of
//! every protocol](onetrip_engine::rules).
//!
//! Settings have their names in a URL, and the values that are in force. The others are `host`,
//! `path` (of a Unix socket), `master` (the name that Sentinels know) and `rediss` (the URL's scheme
//! asks for TLS, and the program says nothing else). Of what is off, as `cluster=0`, nothing is said.

use onetrip_engine::rules::Is::{OneOf, Said, Unsaid};
use onetrip_engine::rules::{self, Rule};

const OFF: &[&str] = &["disable"];
const NO_TLS: &str = "sslrootcert, sslcert and sslkey are for TLS, and this connection has none: \
                      begin the URL with rediss://, or leave them out";
const OF_SENTINELS: &str =
    "settings of Sentinels go with redis+sentinel://, or in Rust and Node with sentinel";

/// Of what is in force.
pub const RULES: &[Rule] = &[
    Rule {
        when: &[("path", Said), ("host", Said)],
        says: "a host and the path of a socket are two servers: leave out one of them",
    },
    Rule {
        when: &[("cache", Said), ("cluster", Said)],
        says: "cache is not for clusters: leave it out, or connect to a single server",
    },
    Rule {
        when: &[("cache", Said), ("protocol", OneOf(&["2"]))],
        says: "cache needs RESP3, by which the server says what changed: leave out protocol=2 or \
               cache",
    },
    Rule {
        when: &[("db", Said), ("cluster", Said)],
        says: "a cluster has the database 0 alone: leave the number of the database out",
    },
    Rule {
        when: &[("replica_reads", Said), ("cluster", Unsaid)],
        says: "replica_reads is for clusters: add cluster=1, or with Sentinels reads=replica",
    },
    Rule { when: &[("sentinel_username", Said), ("master", Unsaid)], says: OF_SENTINELS },
    Rule { when: &[("sentinel_password", Said), ("master", Unsaid)], says: OF_SENTINELS },
    Rule { when: &[("reads", Said), ("master", Unsaid)], says: OF_SENTINELS },
    Rule {
        when: &[("master", Said), ("cluster", Said)],
        says: "Sentinels know no clusters: leave cluster out, or name nodes of the cluster in a \
               redis:// URL",
    },
    Rule {
        when: &[("master", Said), ("path", Said)],
        says: "Sentinels are reached by TCP, by a name or an address",
    },
    Rule {
        when: &[("path", Said), ("sslmode", OneOf(&["require", "verify-ca", "verify-full"]))],
        says: "a Unix socket has no TLS: leave sslmode and its like out",
    },
    Rule {
        when: &[("rediss", Said), ("sslmode", OneOf(OFF))],
        says: "rediss:// asks for TLS, and sslmode=disable for none: leave sslmode out, or begin the \
               URL with redis://",
    },
    Rule { when: &[("sslmode", OneOf(OFF)), ("sslrootcert", Said)], says: NO_TLS },
    Rule { when: &[("sslmode", OneOf(OFF)), ("sslcert", Said)], says: NO_TLS },
    Rule { when: &[("sslmode", OneOf(OFF)), ("sslkey", Said)], says: NO_TLS },
];

/// Which rule the settings break that are in force: its words.
pub fn broken<T: AsRef<str>>(said: impl Fn(&str) -> Option<T>) -> Option<&'static str> {
    rules::broken(RULES, &said).or_else(|| rules::broken(rules::TLS, &said))
}
