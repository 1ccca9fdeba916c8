//! Sessions of PostgreSQL.

use onetrip_profile::Side;
use rand_xoshiro::Xoshiro256PlusPlus as Random;

use super::flight::{Request, Session};
use crate::speaker::message;

/// A session of a login and some units.
pub(super) fn session(random: Random) -> Session {
    let mut it = Session::new(random);
    if it.chance(20) {
        return cancel(it);
    }
    it.counts.units = 1;
    if !log_in(&mut it) {
        return it;
    }
    it.unasked = vec![
        message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0"),
        message(b'A', b"\0\0\0\x07channel\0payload\0"),
        message(b'S', b"application_name\0x\0"),
    ];
    for _ in 0..1 + it.below(5) {
        unit(&mut it);
    }
    if it.chance(2) {
        it.say(Side::Client, &message(b'X', b""));
    }
    it
}

fn cancel(mut it: Session) -> Session {
    it.counts.connections = 0;
    if it.chance(2) {
        it.say(Side::Client, &first(&[0x04, 0xd2, 0x16, 0x2f]));
        it.say(Side::Server, b"N");
    }
    it.say(Side::Client, &first(&[0x04, 0xd2, 0x16, 0x2e, 0, 0, 0, 7, 0, 0, 0, 9]));
    it
}

fn first(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// False if the server refused it.
fn log_in(it: &mut Session) -> bool {
    if it.chance(4) {
        it.step(&first(&[0x04, 0xd2, 0x16, 0x30]), b"N");
    }
    if it.chance(3) {
        it.step(&first(&[0x04, 0xd2, 0x16, 0x2f]), b"N");
    }
    let minor = if it.chance(4) { 2 } else { 0 };
    let startup = first(&[&[0, 3, 0, minor], &b"user\0canary\0database\0d\0\0"[..]].concat());
    let negotiate = match minor {
        0 => Vec::new(),
        _ => message(b'v', &[0, 0, 0, 0, 0, 0, 0, 0]),
    };
    let ready = [
        message(b'R', &[0, 0, 0, 0]),
        message(b'S', b"server_version\x0017.2\0"),
        message(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]),
        message(b'Z', b"I"),
    ]
    .concat();
    let password = message(b'p', b"canary-password\0");
    let ask = |code: u8, more: &[u8]| message(b'R', &[&[0, 0, 0, code], more].concat());
    let refuse = message(b'E', b"SFATAL\0VFATAL\0C28P01\0Mpassword of canary\0\0");
    match it.below(6) {
        0 => it.step(&startup, &[negotiate, ready].concat()),
        1 => {
            // Nothing has to be asked, and the client knows.
            let text = message(b'Q', b"select a from t\0");
            let request = |up: Vec<u8>, down: Vec<u8>| Request {
                up,
                down,
                begins: true,
                flushes: true,
                ..Request::default()
            };
            let answer = [message(b'C', b"SELECT 0\0"), message(b'Z', b"I")].concat();
            let before = it.counts.trips;
            it.fly(&[request(startup, [negotiate, ready].concat()), request(text, answer)]);
            // Work behind an answer to the login is a unit of its own.
            it.counts.units += it.counts.trips - before - 1;
        }
        2 => {
            it.step(&startup, &[negotiate, ask(3, b"")].concat());
            if it.chance(4) {
                it.step(&password, &refuse);
                return false;
            }
            it.step(&password, &ready);
        }
        3 => {
            it.step(&startup, &[negotiate, ask(5, b"salt")].concat());
            it.step(&password, &ready);
        }
        _ => {
            it.step(&startup, &[negotiate, ask(10, b"SCRAM-SHA-256\0\0")].concat());
            let initial = message(b'p', b"SCRAM-SHA-256\0\0\0\0\x08n,,n=,r=");
            it.step(&initial, &ask(11, b"r=x,s=eA==,i=4096"));
            let last = message(b'p', b"c=biws,r=x,p=canary");
            it.step(&last, &[ask(12, b"v=y"), ready].concat());
        }
    }
    true
}

fn unit(it: &mut Session) {
    if it.chance(5) {
        let which = it.below(3) as usize;
        it.say(Side::Server, &it.unasked[which].clone());
    }
    it.rest();
    match it.below(10) {
        0 => transaction(it),
        1 => copy_in(it),
        2 => copy_in_extended(it),
        3 => copy_out(it),
        4 => {
            let body = [0, 0, 4, 210, 0, 0, 0, 0, 0, 0];
            let answer = message(b'V', &[0xff; 4]);
            it.step(&message(b'F', &body), &[answer, message(b'Z', b"I")].concat());
        }
        5 => {
            for _ in 0..1 + it.below(3) {
                let all: Vec<_> = (0..1 + it.below(4)).map(|_| simple(it, b'I')).collect();
                it.fly(&all);
            }
        }
        _ => {
            for _ in 0..1 + it.below(3) {
                let all = pipeline(it, b'I');
                it.fly(&all);
            }
        }
    }
}

fn transaction(it: &mut Session) {
    it.step(&query("begin"), &[message(b'C', b"BEGIN\0"), message(b'Z', b"T")].concat());
    for _ in 0..1 + it.below(3) {
        let all = if it.chance(2) { pipeline(it, b'T') } else { vec![simple(it, b'T')] };
        it.fly(&all);
    }
    it.step(&query("commit"), &[message(b'C', b"COMMIT\0"), message(b'Z', b"I")].concat());
}

fn query(sql: &str) -> Vec<u8> {
    message(b'Q', format!("{sql}\0").as_bytes())
}

fn rows(it: &mut Session) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..it.below(4) {
        let value = it.below(1 << 40).to_string();
        let len = (value.len() as u32).to_be_bytes();
        all.extend(message(b'D', &[&[0, 2][..], &len, value.as_bytes(), &[0xff; 4]].concat()));
    }
    all
}

fn row_description() -> Vec<u8> {
    let field = |name: &[u8]| {
        [name, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 8, 255, 255, 255, 255, 0, 0]].concat()
    };
    message(b'T', &[&[0, 2][..], &field(b"a\0"), &field(b"b\0")].concat())
}

fn error() -> Vec<u8> {
    message(b'E', b"SERROR\0VERROR\0C23505\0Mduplicate\0DKey (a)=(canary) exists.\0\0")
}

/// A text of one or more statements.
fn simple(it: &mut Session, status: u8) -> Request {
    let sql = format!("select a, b from t{} where id = {}", it.below(9), it.below(99));
    let mut down = Vec::new();
    for _ in 0..it.below(3) {
        down.extend(row_description());
        down.extend(rows(it));
        down.extend(message(b'C', b"SELECT 1\0"));
    }
    match it.below(5) {
        0 => down.extend(error()),
        1 => down = message(b'I', b""),
        _ => down.extend(message(b'C', b"UPDATE 2\0")),
    }
    down.extend(message(b'Z', &[status]));
    let request = Request { up: query(&sql), down, begins: true, ..Request::default() };
    Request { flushes: true, ..request }
}

/// Statements of the extended protocol, with a Sync at the end and maybe between.
fn pipeline(it: &mut Session, status: u8) -> Vec<Request> {
    let mut all = Vec::new();
    let sync = || Request {
        up: message(b'S', b""),
        down: message(b'Z', &[status]),
        syncs: true,
        ..Request::default()
    };
    for _ in 0..1 + it.below(5) {
        let request = statement(it);
        let fails = request.fails;
        all.push(request);
        if !fails && it.chance(4) {
            let up = message(b'H', b"");
            all.push(Request { up, flushes: true, ..Request::default() });
        }
        if it.chance(3) {
            all.push(sync());
        }
        if it.chance(8) {
            all.push(sync());
        }
    }
    all.push(sync());
    all
}

fn statement(it: &mut Session) -> Request {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let parts = it.below(5);
    let (parses, binds) = (parts < 4, parts != 0);
    if parses {
        let sql = format!("\0select a, b from u{} where id = $1\0\0\0", it.below(9));
        up.extend(message(b'P', sql.as_bytes()));
        down.extend(message(b'1', b""));
    }
    if parts == 0 {
        // A statement that is described, and closed.
        up.extend(message(b'D', b"S\0"));
        down.extend(message(b't', &[0, 1, 0, 0, 0, 23]));
        down.extend(row_description());
        up.extend(message(b'C', b"Sold\0"));
        down.extend(message(b'3', b""));
        // It has no Execute, so a Flush ends the exchange.
        up.extend(message(b'H', b""));
    }
    if binds {
        up.extend(message(b'B', b"\0\0\0\0\0\x01\0\0\0\x02\x31\x37\0\0"));
        down.extend(message(b'2', b""));
        if it.chance(2) {
            up.extend(message(b'D', b"P\0"));
            down.extend(if it.chance(2) { row_description() } else { message(b'n', b"") });
        }
        let limit = if it.chance(4) { 2 } else { 0 };
        up.extend(message(b'E', &[0, 0, 0, 0, limit]));
        down.extend(rows(it));
        down.extend(match (limit, it.below(8)) {
            (2, _) => message(b's', b""),
            (_, 0) => message(b'I', b""),
            _ => message(b'C', b"SELECT 1\0"),
        });
    }
    let request = Request { up, down, begins: true, flushes: !binds, ..Request::default() };
    if it.chance(6) {
        // It fails at any of its messages.
        let ok = if parses && it.chance(2) { message(b'1', b"") } else { Vec::new() };
        return Request { down: [ok, error()].concat(), fails: true, ..request };
    }
    request
}

const COPY_IN: &[u8] = &[0, 0, 1, 0, 0];

fn data(it: &mut Session) -> Vec<u8> {
    (0..it.below(4)).flat_map(|_| message(b'd', b"canary\t17\n")).collect()
}

fn copy_in(it: &mut Session) {
    let (asked, done) = (query("copy t from stdin"), [message(b'C', b"COPY 2\0")].concat());
    let ready = message(b'Z', b"I");
    let end = if it.chance(3) { message(b'f', b"stop\0") } else { message(b'c', b"") };
    let answer = if end[0] == b'f' { error() } else { done };
    it.counts.exchanges += 1;
    it.counts.trips += 1;
    it.say(Side::Client, &asked);
    if it.chance(5) {
        // It was refused, and the client had sent its data.
        let data = data(it);
        it.say(Side::Client, &[data, end].concat());
        it.say(Side::Server, &[error(), ready].concat());
        return;
    }
    let is_ahead = it.chance(4);
    if is_ahead {
        let data = data(it);
        it.say(Side::Client, &[data, end.clone()].concat());
    }
    it.say(Side::Server, &message(b'G', COPY_IN));
    if !is_ahead {
        it.counts.trips += 1;
        let first = [message(b'd', b"canary\t17\n"), data(it)].concat();
        it.say(Side::Client, &first);
        if it.chance(4) {
            // It fails amid the data, of which more was on the way.
            it.say(Side::Server, &[error(), ready].concat());
            let more = data(it);
            it.say(Side::Client, &[more, end].concat());
            return;
        }
        it.say(Side::Client, &end);
    }
    it.say(Side::Server, &[answer, ready].concat());
}

fn copy_in_extended(it: &mut Session) {
    let parse = message(b'P', b"\0copy t from stdin\0\0\0");
    let bind = message(b'B', &[0; 8]);
    let execute = message(b'E', &[0; 5]);
    let sync = message(b'S', b"");
    it.counts.exchanges += 1;
    it.counts.trips += 2;
    // libpq sends a Sync behind Execute, which the server skips.
    let skipped = if it.chance(2) { sync.clone() } else { message(b'H', b"") };
    it.say(Side::Client, &[parse, bind, execute, skipped].concat());
    it.say(Side::Server, &[message(b'1', b""), message(b'2', b"")].concat());
    it.say(Side::Server, &message(b'G', COPY_IN));
    let first = [message(b'd', b"canary\t17\n"), data(it)].concat();
    it.say(Side::Client, &first);
    if it.chance(3) {
        it.say(Side::Server, &error());
        // What is left of the data is skipped, and the Sync is a request of its own.
        let more = data(it);
        it.say(Side::Client, &[more, message(b'c', b"")].concat());
        it.counts.exchanges += 1;
        it.counts.trips += 1;
        it.say(Side::Client, &sync);
        it.say(Side::Server, &message(b'Z', b"I"));
        return;
    }
    it.say(Side::Client, &[message(b'c', b""), sync].concat());
    it.say(Side::Server, &[message(b'C', b"COPY 1\0"), message(b'Z', b"I")].concat());
}

fn copy_out(it: &mut Session) {
    let data = data(it);
    let down = [
        message(b'H', COPY_IN),
        data,
        message(b'c', b""),
        message(b'C', b"COPY 2\0"),
        message(b'Z', b"I"),
    ];
    it.step(&query("copy t to stdout"), &down.concat());
}
