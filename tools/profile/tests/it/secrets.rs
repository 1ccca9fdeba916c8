//! Nothing of a login, no value and no literal is in what is written.

use onetrip_profile::{Piece, Profiler, Side};

use crate::speaker::{Speaker, message};

/// Each has this in it, and a number of its own.
const CANARY: &str = "xcanaryx";

/// Texts with literals of all kinds; `@` is the secret.
const TEXTS: &[&str] = &[
    "select * from t where a = '@' and b = E'it\\'s @' and c = $$@$$ and d = $tag$ @ $tag$",
    "select U&'@', B'01', X'ff', N'@', '@'::text, cast('@' as text), interval '@'",
    "select 1 -- @",
    "select 1 /* @ /* @ */ @ */",
    "insert into t values ('@', 7), ('@', 8)",
    "prepare p as select '@'",
    "execute p('@', 17)",
    "do $$ begin perform '@'; end $$",
    "do 'begin perform ''@''; end'",
    "create user alice password '@'",
    "alter user alice with encrypted password '@' valid until '@'",
    "alter system set primary_conninfo = 'password=@'",
    "alter system set cluster_name to @",
    "set application_name = @",
    "set role @",
    "set session authorization '@'",
    "notify channel, '@'",
    "copy t from program '@'",
    "comment on table t is '@'",
    "select '@",
    "select $a$ @",
    "/* @ ",
    "select * from t where a like '%@%' escape '@'",
    "/*application='@',traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/ select 2",
    "/* route='/a?token=@' */ select 3",
];

/// Commands of Redis.
const COMMANDS: &[&str] = &[
    "AUTH alice @",
    "AUTH @",
    "HELLO 3 AUTH alice @ SETNAME @",
    "SET @ @",
    "SET user:@ @",
    "SET @:17 v",
    "GET session:17:@",
    "MSET a @ b @",
    "EVAL @ 1 @ @",
    "CONFIG SET requirepass @",
    "CLIENT SETNAME @",
    "CLIENT @",
    "ACL SETUSER alice on >@ ~*",
    "PUBLISH @ @",
    "SUBSCRIBE @",
    "XADD stream:@ * field @",
    "MIGRATE host 6379 key 0 5000 AUTH @",
    "@ @",
];

fn secret(number: &mut u32) -> String {
    *number += 1;
    format!("{CANARY}{}", (b'a' + (*number % 26) as u8) as char)
}

fn filled(text: &str, number: &mut u32) -> String {
    text.split('@')
        .map(str::to_owned)
        .reduce(|all, part| all + &secret(number) + &part)
        .unwrap_or_default()
}

/// What is written of a run with all of it, and what the debugger sees in between.
fn written(shows_values: bool) -> (String, String) {
    let (mut profiler, mut number) = (Profiler::new(), 0);
    profiler.show_values(shows_values);
    let mut seen = String::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    for round in 0..3 {
        for text in TEXTS {
            it.simple(&mut profiler, &filled(text, &mut number), &vec![vec![secret(&mut number)]]);
            it.run(&mut profiler, &filled(text, &mut number), &[secret(&mut number)], &Vec::new());
        }
        it.rest(200_000_000 * round);
    }
    let say = |profiler: &mut Profiler, connection, from, bytes: &[u8]| {
        profiler.piece(Piece { at: 9_000_000_000, connection, from, bytes });
    };
    // Errors, notices, notifications, data of COPY, and names of statements.
    let fields = format!("SERROR\0VERROR\0C23505\0M{CANARY}a\0DKey (x)=({CANARY}b) exists.\0\0");
    let channel = format!("\0\0\0\x07channel\0{CANARY}\0");
    say(&mut profiler, 1, Side::Client, &message(b'Q', b"copy t from stdin\0"));
    say(&mut profiler, 1, Side::Server, &message(b'G', &[0, 0, 0]));
    say(&mut profiler, 1, Side::Client, &message(b'd', CANARY.as_bytes()));
    say(&mut profiler, 1, Side::Server, &message(b'N', fields.as_bytes()));
    say(&mut profiler, 1, Side::Server, &message(b'E', fields.as_bytes()));
    say(&mut profiler, 1, Side::Server, &message(b'Z', b"I"));
    say(&mut profiler, 1, Side::Server, &message(b'A', channel.as_bytes()));
    let parse = format!("{CANARY}name\0select 7\0\0\0");
    say(&mut profiler, 1, Side::Client, &message(b'P', parse.as_bytes()));
    // A login, message by message, the last of which is not whole.
    let startup = format!("\0\x03\0\0user\0{CANARY}\0database\0{CANARY}\0\0");
    let first = [&(startup.len() as u32 + 4).to_be_bytes(), startup.as_bytes()].concat();
    say(&mut profiler, 2, Side::Client, &first);
    for (ask, answer) in [
        (&[0, 0, 0, 3][..], format!("{CANARY}\0")),
        (&[0, 0, 0, 5, 1, 2, 3, 4], format!("md5{CANARY}\0")),
        (b"\0\0\0\x0aSCRAM-SHA-256\0\0", format!("SCRAM-SHA-256\0\0\0\0\x10n,,n=,r={CANARY}")),
        (b"\0\0\0\x0br=a,s=b,i=4096", format!("c=biws,r=a,p={CANARY}")),
    ] {
        say(&mut profiler, 2, Side::Server, &message(b'R', ask));
        let answer = message(b'p', answer.as_bytes());
        say(&mut profiler, 2, Side::Client, &answer[..answer.len() - 1]);
        seen += &format!("{profiler:?}");
        say(&mut profiler, 2, Side::Client, &answer[answer.len() - 1..]);
    }
    for command in COMMANDS {
        let words = filled(command, &mut number);
        let count = words.split(' ').count();
        let mut bytes = format!("*{count}\r\n");
        words.split(' ').for_each(|it| bytes += &format!("${}\r\n{it}\r\n", it.len()));
        say(&mut profiler, 3, Side::Client, bytes.as_bytes());
        let answer = format!("-ERR unknown {CANARY}\r\n");
        say(&mut profiler, 3, Side::Server, answer.as_bytes());
        if !command.starts_with('@') {
            say(&mut profiler, 4, Side::Client, format!("{words}\r\n").as_bytes());
            say(
                &mut profiler,
                4,
                Side::Server,
                format!("${}\r\n{CANARY}\r\n", CANARY.len()).as_bytes(),
            );
        }
    }
    say(&mut profiler, 3, Side::Client, format!("*2\r\n$3\r\nGET\r\n$9\r\n{CANARY}").as_bytes());
    seen += &format!("{profiler:?}");
    let profile = profiler.finish();
    assert!(profile.exchanges > 150, "{}", profile.exchanges);
    (seen, serde_json::to_string(&profile).expect("it is JSON") + &format!("{profile:?}"))
}

fn context(text: &str) -> String {
    let at = text.find(CANARY).unwrap_or(0);
    let from = (0..=at.saturating_sub(80)).rev().find(|it| text.is_char_boundary(*it));
    text[from.unwrap_or(0)..].chars().take(200).collect()
}

#[test]
fn no_secret_is_in_what_is_written() {
    let (seen, written) = written(false);
    assert!(!written.contains(CANARY), "{}", context(&written));
    assert!(!seen.contains(CANARY), "{}", context(&seen));
    // Nor as the bytes of an array.
    let bytes = format!("{:?}", CANARY.as_bytes());
    assert!(!seen.contains(bytes.trim_matches(['[', ']'])));
}

#[test]
fn values_are_shown_if_that_is_wished() {
    assert!(written(true).1.contains(CANARY));
}
