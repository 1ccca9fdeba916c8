//! Profiles of programs that do what reports show.

use std::sync::OnceLock;

use onetrip_profile::{Legs, Piece, Profile, Profiler, Side};

use crate::speaker::{RTT, Rows, Speaker};

/// No text, name or value may break out of where it stands.
pub(super) const HOSTILE: [&str; 4] = [
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "]]>--><svg onload=alert(1)>&amp;\u{202e}",
    "a;b;c 1\nd;e\r\t2",
];

/// A shop: an order with its lines, a visit that is counted, and a cache in Redis.
pub(super) fn shop() -> &'static Profile {
    static SHOP: OnceLock<Profile> = OnceLock::new();
    SHOP.get_or_init(|| {
        let mut profiler = Profiler::new();
        profiler.zero_is(1_700_000_000_000_000_000);
        for connection in 0..4 {
            requests(&mut profiler, connection);
        }
        for connection in 4..6 {
            cache(&mut profiler, connection);
        }
        profiler.finish()
    })
}

fn row(value: u64) -> Rows {
    vec![vec![value.to_string()]]
}

fn requests(profiler: &mut Profiler, connection: u64) {
    let mut it = Speaker::new(profiler, connection, connection * 7_000_000);
    for n in 0..25 {
        let id = 1_000_003 * (n + 1) + connection;
        it.rtt = RTT + 100_000 + (id % 5) * 90_000;
        match n % 3 {
            0 | 1 => order(profiler, &mut it, id),
            _ => visit(profiler, &mut it, id),
        }
        it.rest(20_000_000 + id % 7 * 3_000_000);
    }
}

fn order(profiler: &mut Profiler, it: &mut Speaker, id: u64) {
    let of = [id.to_string()];
    it.simple(profiler, "begin", &Rows::new());
    it.run(profiler, "select id, customer from orders where id = $1", &of, &row(id));
    let lines: Rows =
        (0..2 + id % 5).map(|line| vec![(id * 1000 + line * 37).to_string()]).collect();
    it.run(profiler, "select product from line where order_id = $1 order by n", &of, &lines);
    for (n, line) in lines.iter().enumerate() {
        let name = if n % 2 == 0 { row(7) } else { Rows::new() };
        it.run(profiler, "select name, price from product where id = $1", line, &name);
    }
    let notes = if id.is_multiple_of(2) { row(id) } else { Rows::new() };
    it.run(profiler, "select text from note where order_id = $1", &of, &notes);
    it.run(profiler, "update orders set seen = seen + 1 where id = $1", &of, &Rows::new());
    it.simple(profiler, "commit", &Rows::new());
}

fn visit(profiler: &mut Profiler, it: &mut Speaker, id: u64) {
    let of = [id.to_string()];
    let is_there = id.is_multiple_of(2);
    let found = if is_there { row(1) } else { Rows::new() };
    it.run(profiler, "select 1 from visit where page = $1", &of, &found);
    if !is_there {
        it.run(profiler, "insert into visit (page, n) values ($1, 1)", &of, &Rows::new());
    }
}

/// Some keys, one after another.
fn cache(profiler: &mut Profiler, connection: u64) {
    profiler.rtt(connection, Legs { client: None, server: Some(RTT) });
    let mut at = connection * 1_000_000;
    for round in 0..12_u64 {
        for key in 0..5 {
            let key = format!("item:{}", round * 100 + key);
            let asked = format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len());
            let piece = |at, from, bytes| Piece { at, connection, from, bytes };
            profiler.piece(piece(at, Side::Client, asked.as_bytes()));
            at += RTT + 60_000;
            profiler.piece(piece(at, Side::Server, b"$5\r\nvalue\r\n"));
            at += 90_000;
        }
        at += 50_000_000;
    }
}

/// Texts, endpoints and values that would like to be markup, and a connection that can't be read.
pub(super) fn hostile() -> Profile {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    for n in 0..30_u64 {
        for text in HOSTILE {
            let text = text.replace('\n', " ");
            let sql =
                format!("select \"{text}\" from \"{text}\" where a = $1 /* controller='{text}' */");
            it.run(&mut profiler, &sql, &[n.to_string()], &row(n * 1_000_003));
        }
        it.rest(100_000_000);
    }
    let unread =
        Piece { at: 5, connection: 2, from: Side::Client, bytes: b"GET / HTTP/1.1\r\n\r\n" };
    profiler.piece(unread);
    profiler.missing(3);
    let mut profile = profiler.finish();
    profile.incomplete = Some(HOSTILE[0].to_owned());
    profile.notes.iter_mut().for_each(|it| it.text += HOSTILE[1]);
    for (finding, text) in profile.findings.iter_mut().zip(HOSTILE.iter().cycle()) {
        (finding.title, finding.evidence) = ((*text).to_owned(), (*text).to_owned());
        (finding.kind, finding.note) = ((*text).to_owned(), (*text).to_owned());
    }
    for shape in &mut profile.shapes {
        shape.boundaries.push((HOSTILE[2].to_owned(), 1));
        shape.example.iter_mut().for_each(|it| it.label = HOSTILE[0].to_owned());
    }
    profile
}
