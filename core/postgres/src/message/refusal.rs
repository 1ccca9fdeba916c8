//! Which refusals of a login are worth another attempt.

/// Whether time may mend that a server, or a pooler before it, refuses a login with this SQLSTATE and
/// this message. Of others nobody is to wait for another attempt.
///
/// It may mend a connection that a pooler lacks (08), a conflict (40), too little of something (53), a
/// lock (55P03), a server that starts or stops (57), a failure of its system (58, but 58P01: a file
/// that a setting names is not there), or one of its own (XX). A server that sends no code says nothing
/// against it.
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

/// Classes of SQLSTATEs of what holds for now.
const FOR_NOW: [&[u8]; 6] = [b"08", b"40", b"53", b"57", b"58", b"XX"];

/// PgBouncer has the code of a protocol violation for most that it refuses, and no translations
/// (disconnect_client and kill_pool_logins in its sources). These refusals hold for now; what it says
/// of its configuration, of databases and of settings stays as it is.
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
