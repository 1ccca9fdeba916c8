//! Sessions of Redis.

use onetrip_profile::Side;
use rand_xoshiro::Xoshiro256PlusPlus as Random;

use super::flight::{Request, Session};

/// A session of some units.
pub(super) fn session(random: Random) -> Session {
    let mut it = Session::new(random);
    let is_new = it.chance(2);
    it.rest();
    if is_new {
        it.step(&words(&["HELLO", "3"]), b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n+proto\r\n:3\r\n");
        let invalidate = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n";
        it.unasked = vec![invalidate.to_vec()];
    } else {
        it.step(b"PING\r\n", b"+PONG\r\n");
    }
    for _ in 0..1 + it.below(5) {
        let before = it.counts.trips;
        it.rest();
        match it.below(8) {
            0 => transaction(&mut it),
            1 => subscriptions(&mut it, is_new),
            2 => silence(&mut it),
            3 => {
                it.step(&words(&["BLPOP", "queue", "0"]), b"*2\r\n$5\r\nqueue\r\n$1\r\nx\r\n");
            }
            _ => {
                for _ in 0..1 + it.below(3) {
                    let all: Vec<_> = (0..1 + it.below(6)).map(|_| command(&mut it)).collect();
                    it.fly(&all);
                }
            }
        }
        // What is not answered is no work.
        it.counts.units -= u64::from(it.counts.trips == before);
    }
    match it.below(4) {
        0 => monitor(&mut it),
        1 => {
            it.rest();
            it.step(&words(&["QUIT"]), b"+OK\r\n");
        }
        _ => {}
    }
    it
}

fn words(all: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", all.len()).into_bytes();
    for word in all {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

fn request(up: Vec<u8>, down: &[u8]) -> Request {
    Request { up, down: down.to_vec(), begins: true, flushes: true, ..Request::default() }
}

fn command(it: &mut Session) -> Request {
    let key = format!("user:{}", it.below(1000));
    match it.below(12) {
        0 => request(words(&["SET", &key, "canary"]), b"+OK\r\n"),
        1 => request(format!("GET {key}\r\n").into_bytes(), b"$-1\r\n"),
        2 => request(words(&["INCR", &key]), b":17\r\n"),
        3 => request(words(&["LPUSH", &key, "a"]), b"-WRONGTYPE of canary\r\n"),
        4 => request(words(&["LRANGE", &key, "0", "-1"]), b"*3\r\n$1\r\na\r\n$-1\r\n*0\r\n"),
        5 => request(words(&["HGETALL", &key]), b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n"),
        6 => request(words(&["SMEMBERS", &key]), b"~2\r\n:1\r\n#t\r\n"),
        7 => request(words(&["GET", &key]), b"|1\r\n+ttl\r\n:9\r\n$2\r\nab\r\n"),
        8 => request(words(&["GET", &key]), b"$?\r\n;2\r\nab\r\n;1\r\nc\r\n;0\r\n"),
        9 => request(words(&["MGET", &key, "x"]), b"*?\r\n,1.5\r\n_\r\n(123\r\n.\r\n"),
        // Neither an empty line nor a command without words is answered.
        10 => Request {
            up: if it.chance(2) { b"\r\n".to_vec() } else { b"*0\r\n".to_vec() },
            ..Request::default()
        },
        _ => request(words(&["GET", &key]), b"=7\r\ntxt:abc\r\n"),
    }
}

fn transaction(it: &mut Session) {
    let count = 1 + it.below(3);
    let mut all = vec![request(words(&["MULTI"]), b"+OK\r\n")];
    for at in 0..count {
        all.push(request(words(&["INCR", &format!("n:{at}")]), b"+QUEUED\r\n"));
    }
    let answers = ":1\r\n".repeat(count as usize);
    let exec = match it.below(4) {
        0 => "*-1\r\n".to_owned(),
        1 => "-EXECABORT canary\r\n".to_owned(),
        _ => format!("*{count}\r\n{answers}"),
    };
    all.push(request(words(&["EXEC"]), exec.as_bytes()));
    if it.chance(2) {
        it.fly(&all);
    } else {
        all.chunks(1).for_each(|one| it.fly(one));
    }
}

/// The confirmation of a subscription, or of its end.
fn confirmation(is_new: bool, what: &str, channel: &str, total: usize) -> String {
    let kind = if is_new { '>' } else { '*' };
    let len = what.len();
    format!("{kind}3\r\n${len}\r\n{what}\r\n${}\r\n{channel}\r\n:{total}\r\n", channel.len())
}

fn subscriptions(it: &mut Session, is_new: bool) {
    let count = 1 + it.below(3) as usize;
    let names: Vec<String> = (0..count).map(|at| format!("news{at}")).collect();
    let mut up = vec!["SUBSCRIBE"];
    up.extend(names.iter().map(String::as_str));
    let confirm = |what: &str, at: usize, total| confirmation(is_new, what, &names[at], total);
    let down: String = (0..count).map(|at| confirm("subscribe", at, at + 1)).collect();
    let mut all = vec![request(words(&up), down.as_bytes())];
    if is_new {
        // In RESP3 anything may be asked meanwhile.
        all.push(request(words(&["GET", "user:1"]), b"$1\r\nx\r\n"));
    } else {
        // In the same piece, since a PING that begins a trip begins a unit, as those of pools do.
        all[0].up.extend(words(&["PING"]));
        all[0].down.extend(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n");
        it.counts.exchanges += 1;
    }
    let pattern = confirmation(is_new, "psubscribe", "ev*", count + 1);
    all.push(request(words(&["PSUBSCRIBE", "ev*"]), pattern.as_bytes()));
    it.fly(&all);
    let kind = if is_new { '>' } else { '*' };
    for _ in 0..it.below(3) {
        let message = format!("{kind}3\r\n$7\r\nmessage\r\n$5\r\nnews0\r\n$6\r\ncanary\r\n");
        it.say(Side::Server, message.as_bytes());
    }
    let down: String = (0..count).map(|at| confirm("unsubscribe", at, count - at)).collect();
    let rest = confirmation(is_new, "punsubscribe", "ev*", 0);
    let all = [
        request(words(&["UNSUBSCRIBE"]), down.as_bytes()),
        request(words(&["PUNSUBSCRIBE", "ev*"]), rest.as_bytes()),
        request(
            words(&["UNSUBSCRIBE"]),
            format!("{kind}3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n").as_bytes(),
        ),
        request(words(&["GET", "user:1"]), b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n"),
    ];
    it.fly(&all);
}

/// CLIENT REPLY.
fn silence(it: &mut Session) {
    let silent = |up: Vec<u8>| Request { up, ..Request::default() };
    if it.chance(2) {
        it.fly(&[
            silent(words(&["CLIENT", "REPLY", "SKIP"])),
            silent(words(&["SET", "a:1", "canary"])),
            request(words(&["GET", "a:1"]), b"$1\r\nx\r\n"),
        ]);
        return;
    }
    it.fly(&[
        request(words(&["GET", "a:1"]), b"$1\r\nx\r\n"),
        silent(words(&["client", "reply", "off"])),
        silent(words(&["SET", "a:1", "canary"])),
        silent(words(&["CLIENT", "REPLY", "SKIP"])),
        silent(words(&["GET", "a:1"])),
        request(words(&["CLIENT", "REPLY", "ON"]), b"+OK\r\n"),
        request(words(&["GET", "a:1"]), b"$1\r\nx\r\n"),
    ]);
}

fn monitor(it: &mut Session) {
    it.rest();
    it.step(&words(&["MONITOR"]), b"+OK\r\n");
    for _ in 0..it.below(4) {
        it.say(Side::Server, b"+1700000000.123456 [0 127.0.0.1:1] \"get\" \"canary\"\r\n");
    }
}
