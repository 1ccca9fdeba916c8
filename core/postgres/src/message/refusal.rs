//! Which refused logins are worth another attempt.

/// Whether a refusal with this SQLSTATE and message, by a server or by a pooler in front of it, may
/// pass with time. If not, no caller should wait for another attempt.
///
/// These may pass: a connection that a pooler lacks (08), a conflict (40), a lack of resources
/// (53), a lock (55P03), a server that starts or stops (57), a system error (58, except 58P01: a
/// file named in a setting does not exist), or an internal error (XX). A refusal without a code may
/// pass, too.
#[must_use]
pub fn may_mend(code: &[u8], message: &[u8]) -> bool {
    match code {
        b"08P01" => POOLER_FOR_NOW.iter().any(|words| holds(message, words.as_bytes())),
        b"58P01" => false,
        b"55P03" | b"" => true,
        _ => FOR_NOW.iter().any(|class| code.starts_with(class)),
    }
}

fn holds(text: &[u8], words: &[u8]) -> bool {
    text.windows(words.len()).any(|part| part == words)
}

/// Classes of SQLSTATEs that may pass.
const FOR_NOW: [&[u8]; 6] = [b"08", b"40", b"53", b"57", b"58", b"XX"];

/// PgBouncer uses the code of a protocol violation for most refusals, and does not translate its
/// messages (disconnect_client and kill_pool_logins in its sources). Refusals with these words may
/// pass; those about its configuration, databases and settings do not.
const POOLER_FOR_NOW: [&str; 9] = [
    "connections allowed",
    "connections exceeded",
    "server login",
    "server conn",
    "connect failed",
    "cannot connect",
    "timeout",
    "lookup failed",
    "shut",
];
