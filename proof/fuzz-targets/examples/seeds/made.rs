//! Inputs that no server has sent: cases that went wrong in clients before, and texts.

use std::io;

use super::Corpus;

/// The bytes of a message: its type, the length that it claims, and its body.
fn message(tag: u8, claimed: u32, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &claimed.to_be_bytes(), body].concat()
}

fn numbers(parts: &[i32]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.to_be_bytes()).collect()
}

pub(super) fn write(corpus: &mut Corpus) -> io::Result<()> {
    streams(corpus)?;
    bodies(corpus)?;
    startups(corpus)?;
    frontend(corpus)?;
    values(corpus)?;
    texts(corpus)?;
    configs(corpus)?;
    sessions(corpus)?;
    early(corpus)?;
    pools(corpus)
}

/// Wrong lengths, for the targets that cut a stream and those that wait for a reply.
fn streams(corpus: &mut Corpus) -> io::Result<()> {
    let ready = message(b'Z', 5, b"I");
    let cases = [
        ("row_of_a_gigabyte", message(b'D', 0x3fff_fffe, b"\0\x01")),
        ("row_of_two_gigabytes", message(b'D', 0x7fff_ffff, b"\0\x01")),
        ("row_of_four_gigabytes", message(b'D', u32::MAX, b"\0\x01")),
        ("length_below_itself", message(b'D', 3, b"")),
        ("length_zero", message(b'C', 0, b"")),
        ("ready_with_nothing", message(b'Z', 4, b"")),
        ("ready_with_too_much", message(b'Z', 6, b"II")),
        ("tag_without_end", message(b'C', 10, b"SELECT")),
        ("no_type", message(0, 4, b"")),
        ("http", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("old_error", b"EFATAL: no memory\n\0".to_vec()),
        ("tls_alert", vec![0x15, 3, 1, 0, 2, 2, 70]),
        ("ready_twice", [ready.clone(), ready].concat()),
    ];
    for (name, stream) in &cases {
        corpus.add("frames", name, &[&[1], stream])?;
        corpus.add("replies", name, &[&[1, 2, 1, 0], stream])?;
        corpus.add("startup", name, &[&[1, 0, 1], stream])?;
    }
    Ok(())
}

/// Wrong counts, in every message that has one.
fn bodies(corpus: &mut Corpus) -> io::Result<()> {
    let cases: [(&str, u8, &[u8]); 24] = [
        ("row_of_65535_values", b'D', &[0xff, 0xff]),
        ("row_with_a_negative_length", b'D', &[0, 1, 0xff, 0xff, 0xff, 0xfe]),
        ("row_with_a_long_value", b'D', &[0, 1, 0x7f, 0xff, 0xff, 0xff, 1]),
        ("row_with_bytes_behind", b'D', &[0, 1, 0xff, 0xff, 0xff, 0xff, 0]),
        ("columns_65535", b'T', &[0xff, 0xff]),
        ("column_without_end", b'T', &[0, 1, b'a', 0]),
        ("column_of_format_2", b'T', b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\0\0\0\0\0\x02"),
        ("column_not_utf8", b'T', b"\0\x01\xff\0\0\0\0\0\0\0\0\0\0\x17\0\x04\0\0\0\0\0\0"),
        ("parameters_65535", b't', &[0xff, 0xff]),
        ("parameter", b't', &[0, 1, 0, 0, 0, 23]),
        ("negotiate_4_billion", b'v', &[0, 3, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        ("negotiate", b'v', b"\0\x03\0\0\0\0\0\x01_pq_.x\0"),
        ("copy_65535", b'G', &[0, 0xff, 0xff]),
        ("copy_in", b'G', &[0, 0, 2, 0, 0, 0, 1]),
        ("copy_both", b'W', &[1, 0, 0]),
        ("copy_data", b'd', b"1\ta\n"),
        ("call", b'V', &[0, 0, 0, 1, 7]),
        ("call_of_2_gigabytes", b'V', &[0x7f, 0xff, 0xff, 0xff]),
        ("notification", b'A', b"\0\0\0\x07channel\0payload\0"),
        ("key_of_300", b'K', &[0; 304]),
        ("key_of_1", b'K', &[0, 0, 0, 1, 2]),
        ("sasl_without_end", b'R', b"\0\0\0\x0aSCRAM-SHA-256"),
        ("gssapi", b'R', &[0, 0, 0, 7]),
        ("status_with_one_text", b'S', b"name\0"),
    ];
    for (name, tag, body) in cases {
        corpus.add("backend", name, &[&[tag], body])?;
        let claimed = body.len() as u32 + 4;
        corpus.add("frames", name, &[&[1], &message(tag, claimed, body)])?;
    }
    let errors: [(&str, &[u8]); 6] = [
        ("no_field", b"\0"),
        ("no_end", b"SERROR\0"),
        ("not_utf8", b"SERROR\0M\xff\xfe\0C42601\0\0"),
        ("position_too_large", b"P99999999999999999999\0L-1\0p+7\0\0"),
        ("the_same_again", b"SA\0VB\0SC\0MA\0MB\0\0"),
        ("unknown_letters", &b"x\0y1\0".repeat(100)),
    ];
    for (name, body) in errors {
        let end: &[u8] = if name == "unknown_letters" { &[0] } else { &[] };
        corpus.add("server_error", name, &[body, end])?;
    }
    Ok(())
}

fn startups(corpus: &mut Corpus) -> io::Result<()> {
    let auth = |code: u8, rest: &[u8]| {
        message(b'R', 8 + rest.len() as u32, &[&[0, 0, 0, code][..], rest].concat())
    };
    let status = message(b'S', 10, b"a\0b\xc3\xa4\0");
    let many = [auth(0, &[]), status.repeat(300)].concat();
    let first = b"r=CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJx,s=AAAA,i=2147483647";
    let notices = |count| message(b'N', 11, b"Ma\0Cb\0\0").repeat(count);
    let cases: [(&str, [u8; 2], Vec<u8>); 10] = [
        ("asks_for_the_password", [1, 0], auth(3, &[])),
        ("gets_the_password", [5, 0], [auth(3, &[]), auth(0, &[])].concat()),
        ("asks_for_md5", [9, 0], [auth(5, &[1, 2, 3, 4]), auth(0, &[])].concat()),
        ("asks_nothing", [0, 0], [auth(0, &[]), message(b'Z', 5, b"I")].concat()),
        ("many_settings", [0, 0], many),
        ("notices", [1, 0], notices(40)),
        ("notices_without_end", [0xe1, 0], notices(100)),
        ("iterations", [1, 0], [auth(10, b"SCRAM-SHA-256\0\0"), auth(11, first)].concat()),
        ("plus_without_tls", [1, 0], auth(10, b"SCRAM-SHA-256-PLUS\0\0")),
        ("ok_too_early", [1, 0], [auth(10, b"SCRAM-SHA-256\0\0"), auth(0, &[])].concat()),
    ];
    for (name, config, stream) in &cases {
        corpus.add("startup", name, &[config, &[1], stream])?;
    }
    let nonce = "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJ";
    for (name, first, last) in [
        ("no_salt", format!("r={nonce}x,i=4096"), "v=AAAA"),
        ("no_iterations", format!("r={nonce}x,s=AAAA,i=0"), "v=AAAA"),
        ("many_iterations", format!("r={nonce}x,s=AAAA,i=4294967296"), "v=AAAA"),
        ("their_nonce", "r=x,s=AAAA,i=1".to_owned(), "v=AAAA"),
        ("our_nonce", format!("r={nonce},s=AAAA,i=1"), "v=AAAA"),
        ("extension", format!("m=x,r={nonce}x,s=AAAA,i=1"), "e=other-error"),
        ("short", format!("r={nonce}x,s=AAAA,i=1"), "v=AAAA"),
    ] {
        corpus.add("scram", name, &[&[2, first.len() as u8], first.as_bytes(), last.as_bytes()])?;
    }
    let (first, last) = ("n,,n=,r=x", "c=biws,r=xAgICAgICAgICAgICAgICAgICAgIC,p=AAAA");
    corpus.add("scram", "server", &[&[6, first.len() as u8], first.as_bytes(), last.as_bytes()])?;
    Ok(())
}

fn frontend(corpus: &mut Corpus) -> io::Result<()> {
    let cases: [(&str, u8, &[u8]); 14] = [
        ("bind", b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\x01\0\x01"),
        ("bind_65535", b'B', b"\0\0\0\0\xff\xff"),
        ("parse", b'P', b"s\0select $1\0\0\x01\0\0\0\x17"),
        ("parse_65535", b'P', b"s\0select 1\0\xff\xff"),
        ("describe", b'D', b"Ss\0"),
        ("close", b'C', b"Pp\0"),
        ("execute", b'E', b"p\0\xff\xff\xff\xff"),
        ("query", b'Q', b"select 1\0"),
        ("copy_fail", b'f', b"no\0"),
        ("sync", b'S', b""),
        ("startup", 0, b"\0\0\0\x23\0\x03\0\0user\0lab\0_pq_.x\0\x31\0options\0\0\0"),
        ("cancel", 0, b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02"),
        ("pieces", 1, b"\x04name\0\x08select 1\x02\x14\x17"),
        ("pieces_nul", 1, b"\x03a\0b\0\x08select 1\0"),
    ];
    for (name, tag, body) in cases {
        corpus.add("frontend", name, &[&[tag], body])?;
    }
    Ok(())
}

/// Values that claim to be more than they are.
fn values(corpus: &mut Corpus) -> io::Result<()> {
    let types = onetrip_fuzz_targets::row_types();
    let max = i32::MAX;
    let cases: [(&str, &str, Vec<u8>); 14] = [
        ("_text", "millions", numbers(&[1, 0, 25, max, 1])),
        ("_int4", "negative", numbers(&[1, 0, 23, -1, 1])),
        (
            "_int4",
            "seven_dimensions",
            numbers(&[7, 0, 23, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        ),
        ("_int4", "product", numbers(&[4, 0, 23, 65_536, 1, 65_536, 1, 65_536, 1, 65_536, 1])),
        ("_int4", "element_of_3", [numbers(&[1, 0, 23, 1, 1, 3]), vec![1, 2, 3]].concat()),
        ("_int4", "lower_bound", numbers(&[1, 0, 23, 2, max, 4, 1, 4, 2])),
        ("path", "millions", [&[0][..], &numbers(&[max])].concat()),
        (
            "hstore",
            "pairs",
            [
                &numbers(&[2, 1])[..],
                b"a",
                &numbers(&[1]),
                b"b",
                &numbers(&[1]),
                b"c",
                &numbers(&[-1]),
            ]
            .concat(),
        ),
        ("hstore", "millions", numbers(&[max])),
        ("int4multirange", "millions", numbers(&[max])),
        ("words", "millions", numbers(&[1, 1009, 20, 1, 0, 25, max, 1])),
        ("numeric", "digits_65535", vec![0xff, 0xff, 0, 0, 0, 0, 0, 0]),
        ("numeric", "digit_10000", vec![0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10]),
        ("varbit", "bits", numbers(&[max])),
    ];
    for (type_, name, value) in cases {
        let at = types.iter().position(|known| known.name() == type_).expect("a known type");
        let len = (value.len() as i32).to_be_bytes();
        let name = format!("{type_}_{name}");
        corpus.add("rows", &name, &[&[1, at as u8, 0, 0, 1], &len, &value])?;
    }
    Ok(())
}

fn texts(corpus: &mut Corpus) -> io::Result<()> {
    let statements: [(&str, &str); 16] = [
        ("select", "select * from a where b = $1"),
        ("commit", "/* begin */ commit and chain"),
        ("dollar", "select $a$ commit; $a$, $$x$$"),
        ("escape", r"select E'\'; commit', U&'\0041', x'00', B'1'"),
        ("identifier", "select \"a\"\"b\" from \"select\""),
        ("nested", "select /* /* */ ; /* */ */ 1"),
        ("several", "insert into a values (1); update a set b = 2;"),
        ("unended", "select 'abc"),
        ("unended_comment", "select 1 /* /* */"),
        ("atomic", "create function f() returns int begin atomic select 1; end"),
        ("copy", "copy a from stdin with (format binary)"),
        ("set", "set local transaction isolation level serializable"),
        ("with", "with a as (delete from b returning *) select * from a for update"),
        ("vacuum", "vacuum (analyze) a"),
        ("call", "call p(); -- end"),
        ("unicode", "select 'ä\u{1f600}', ä\u{a0}from ｓelect"),
    ];
    for (name, sql) in statements {
        corpus.add("sql", name, &[sql.as_bytes()])?;
    }
    let values: [(&str, u8, &str); 18] = [
        ("numeric", 0, "-12_345.678e-10"),
        ("numeric_long", 0, "1e131071"),
        ("numeric_short", 0, "0.00000000000000000000000000001"),
        ("numeric_infinity", 0, "-Infinity"),
        ("numeric_exponent", 0, "1e99999999999999999999"),
        ("interval", 1, "1 year 2 mons -3 days 04:05:06.789"),
        ("interval_iso", 1, "P1Y2M3DT4H5M6.789S"),
        ("interval_ago", 1, "@ 1 year ago"),
        ("interval_large", 1, "2147483647 months 9223372036854775807 microseconds"),
        ("timetz", 2, "24:00:00-15:59:59"),
        ("range", 3, "[1,5)"),
        ("range_open", 3, "(,)"),
        ("range_numeric", 4, "(1.50,NaN]"),
        ("range_text", 5, r#"["a\"b","c""d")"#),
        ("range_backslash", 5, r"[\,,a]"),
        ("multirange", 6, "{[1,2),[4,7]}"),
        ("multirange_empty", 6, "{}"),
        ("multirange_text", 7, r#"{("a,b","{}"],empty}"#),
    ];
    for (name, kind, text) in values {
        corpus.add("values", name, &[&[kind], text.as_bytes()])?;
    }
    Ok(())
}

fn configs(corpus: &mut Corpus) -> io::Result<()> {
    let cases: [(&str, u8, &str, &str); 14] = [
        ("url", 0, "postgres://me:pw@db1,[::1]:6432/shop?connect_timeout=5&sslmode=require", ""),
        ("pairs", 0, r"host=a,b port=1,2 password='it\'s' dbname = x", ""),
        ("percent", 0, "postgresql://%2Ftmp/%zz?application_name=%00", ""),
        ("user", 1, "", "localhost/db"),
        ("user_at", 1, "@a:b@", "localhost/db?x"),
        ("key", 2, "host=a", " port=b"),
        ("key_quoted", 2, "user='a b'", "' x=y"),
        ("key_in_quotes", 2, "options='", "=1"),
        ("query", 3, "host/db", "&sslmode=no"),
        ("query_cut", 3, "u:p@host", "&a=b@c"),
        ("port", 4, "host", "/db"),
        ("address", 4, "[::1]", ",b:2"),
        ("variables", 5, "host=a", ""),
        ("variables_none", 5, "\u{1}\u{7f}", "1"),
    ];
    for (name, kind, before, behind) in cases {
        let len = [before.len() as u8];
        let len: &[u8] = if kind == 0 { &[] } else { &len };
        corpus.add("config", name, &[&[kind], len, before.as_bytes(), behind.as_bytes()])?;
    }
    Ok(())
}

/// Steps of the host in the target `session`, by their numbers there.
fn sessions(corpus: &mut Corpus) -> io::Result<()> {
    let cases: [(&str, &[u8]); 9] = [
        ("plain", &[0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 9]),
        ("prepared", &[0, 0, 0, 2, 0, 9, 0, 2, 0, 20, 1, 0, 2, 0, 9, 20, 9, 0, 2, 0]),
        ("narrow", &[1, 2, 0, 1, 64, 0, 1, 64, 0, 1, 64, 0, 1, 64, 5, 3, 7, 2, 9]),
        ("group", &[0, 0, 10, 11, 1, 64, 11, 1, 0, 16, 9, 17, 9, 11, 1, 24, 15, 0, 0, 0, 9]),
        ("groups", &[2, 3, 10, 10, 0, 1, 64, 10, 11, 1, 0, 11, 2, 0, 15, 9, 11, 0, 0, 15, 15]),
        ("deadlines", &[1, 0, 0, 5, 0, 0, 21, 0, 0, 37, 0, 19, 0xff, 0xff, 18, 0, 18, 1, 9]),
        ("shut_down", &[0, 0, 0, 1, 64, 5, 200, 20, 0, 7, 5, 9]),
        ("lie", &[0, 0, 0, 1, 64, 21, 7, b'D', 0x7f, 0xff, 0xff, 0xff, 0, 1, 9]),
        ("corrupt", &[0, 0, 0, 0, 64, 0, 1, 64, 5, 255, 22, 4, 1, 9, 23, 0]),
    ];
    for (name, steps) in cases {
        corpus.add("session", name, &[steps])?;
    }
    Ok(())
}

/// Whether the program says it, or the server; and what.
type Said = (bool, Vec<u8>);

/// What a program and a server say in turn.
fn early(corpus: &mut Corpus) -> io::Result<()> {
    let query = |sql: &str| message(b'Q', sql.len() as u32 + 5, &[sql.as_bytes(), b"\0"].concat());
    let tag = |tag: &str| message(b'C', tag.len() as u32 + 5, &[tag.as_bytes(), b"\0"].concat());
    let ready = |status: &[u8]| message(b'Z', 5, status);
    let empty = |tag: u8| message(tag, 4, b"");
    let parse = |text: &[u8]| message(b'P', text.len() as u32 + 4, text);
    let begun = [empty(b'1'), empty(b'2'), tag("BEGIN"), empty(b'3')].concat();
    let refused = message(b'E', 4 + 24, b"SERROR\0C25006\0Mread only\0\0");
    let run = [
        message(b'B', 4 + 9, b"\0a\0\0\0\0\0\0\0"),
        message(b'E', 9, &[0; 5]),
        message(b'S', 4, b""),
    ];
    let sync = message(b'S', 4, b"");
    let failed = [tag("BEGIN"), refused.clone(), ready(b"E")].concat();
    let fetched = [message(b'T', 6, &[0, 0]), tag("FETCH 1"), ready(b"T")];
    let begin = (true, query("begin"));
    let cases: [(&str, Vec<Said>); 8] = [
        (
            "begun",
            vec![
                begin.clone(),
                (true, query("insert")),
                (false, [begun.clone(), tag("INSERT 0 1"), ready(b"T")].concat()),
                (true, query("savepoint a")),
                (true, query("release a")),
                (true, query("commit")),
            ],
        ),
        (
            "refused",
            vec![
                begin.clone(),
                (true, query("insert")),
                (false, refused.clone()),
                (false, ready(b"I")),
                (false, failed),
                (true, query("rollback")),
                (false, [tag("ROLLBACK"), ready(b"I")].concat()),
            ],
        ),
        (
            "prepared",
            vec![
                (true, [parse(b"a\0select\0\0\0"), sync.clone()].concat()),
                (true, run.concat()),
                (false, [refused.clone(), ready(b"I")].concat()),
                (true, run.concat()),
                (false, [empty(b'1'), empty(b'2'), tag("SELECT 0"), ready(b"I")].concat()),
                (true, query("deallocate a")),
            ],
        ),
        (
            "cursor",
            vec![
                begin.clone(),
                (true, query("declare c cursor for select 1")),
                (false, [begun, tag("DECLARE CURSOR"), ready(b"T")].concat()),
                (true, query("fetch 2 from c")),
                (false, fetched.concat()),
                (true, query("fetch 2 from c")),
                (true, query("close c")),
            ],
        ),
        (
            "copy",
            vec![
                (true, run.concat()),
                (false, [empty(b'2'), message(b'G', 7, &[0; 3])].concat()),
                (true, [message(b'd', 5, b"x"), empty(b'c'), sync].concat()),
                (false, [tag("COPY 1"), ready(b"I")].concat()),
            ],
        ),
        ("pings", vec![(true, query("")), (true, query("select 1")), (true, empty(b'X'))]),
        ("no_program", vec![begin.clone(), (true, b"GET / HTTP/1.1\r\n\r\n".to_vec())]),
        ("no_server", vec![begin, (true, query("insert")), (false, b"HTTP/1.1 400".to_vec())]),
    ];
    for (name, pieces) in &cases {
        let framed = |(is_program, bytes): &Said| {
            [&[u8::from(*is_program)][..], &(bytes.len() as u16).to_be_bytes(), bytes].concat()
        };
        let pieces: Vec<u8> = pieces.iter().flat_map(framed).collect();
        corpus.add("early", name, &[&[0, 0], &pieces])?;
        corpus.add("early", &format!("{name}_unseen"), &[&[1, 2], &pieces])?;
    }
    Ok(())
}

fn pools(corpus: &mut Corpus) -> io::Result<()> {
    for seed in 1..=6_u8 {
        let choices: Vec<u8> =
            (0..200_u16).map(|at| (at * 37 + u16::from(seed) * 11) as u8).collect();
        let choices = &choices[..usize::from(seed) * 30];
        corpus.add("pool", &format!("seed_{seed}"), &[&[0, 0, 0, 0, 0, 0, 0, seed], choices])?;
    }
    Ok(())
}
