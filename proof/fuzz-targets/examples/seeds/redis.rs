//! Inputs recorded from a Redis server, in both protocols; and inputs that no server sends.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use bytes::BytesMut;
use onetrip_lab::redis::{Server, Settings};
use onetrip_redis::Command;
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};

use super::Corpus;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The types that `DEBUG PROTOCOL` knows.
const TYPES: [&str; 13] = [
    "string", "integer", "double", "bignum", "null", "array", "set", "map", "attrib", "push",
    "verbatim", "true", "false",
];

/// Commands whose replies become inputs, by the name of the input.
const COMMANDS: &[(&str, &[&str])] = &[
    ("strings", &["SET k v", "GET k", "GET none", "INCR n", "INCR k", "SET k v NX"]),
    ("hashes", &["HSET h a 1 b 2", "HGETALL h", "HMGET h a c", "HGETALL none"]),
    ("lists", &["RPUSH l a b c", "LRANGE l 0 -1", "LPOP l 2", "LPOP none 1", "GET l"]),
    ("sets", &["SADD s a b", "SMEMBERS s", "SISMEMBER s a"]),
    (
        "scores",
        &["ZADD z 1 a 2.5 b inf c", "ZRANGE z 0 -1 WITHSCORES", "ZSCORE z b", "ZPOPMIN z 2"],
    ),
    ("streams", &["XADD x 1-1 f v", "XADD x 1-2 f w", "XRANGE x - +", "XREAD STREAMS x 0"]),
    ("places", &["GEOADD g 13.4 52.5 b", "GEOPOS g b none"]),
    ("errors", &["NOSUCH secret", "GET", "EVALSHA 0000000000000000000000000000000000000000 0"]),
    ("atomic", &["MULTI", "SET k 1", "INCR l", "EXEC", "MULTI", "NOSUCH", "EXEC"]),
    (
        "subscribed",
        &["SUBSCRIBE a b", "PSUBSCRIBE c*", "UNSUBSCRIBE a", "UNSUBSCRIBE b", "PUNSUBSCRIBE"],
    ),
    ("scan", &["SCAN 0 COUNT 3", "TYPE k", "OBJECT ENCODING k", "EXISTS k none"]),
    ("text", &["CLIENT INFO", "COMMAND INFO GET", "ACL WHOAMI", "TIME"]),
];

pub(super) fn write(corpus: &mut Corpus) -> Result<()> {
    made(corpus)?;
    let settings = Settings { password: false, debug_command: true, ..Settings::default() };
    let server = Server::start(settings)?;
    for protocol in [2, 3] {
        for name in TYPES {
            let said = ask(&server, protocol, &[&format!("DEBUG PROTOCOL {name}")])?;
            corpus.add("resp_peer", &format!("{name}_{protocol}"), &[&[protocol - 2], &said])?;
            corpus.add("resp", &format!("{name}_{protocol}"), &[&[1, 2], &said])?;
        }
        for (name, commands) in COMMANDS {
            record(corpus, name, protocol, &ask(&server, protocol, commands)?)?;
        }
    }
    server.stop()?;
    Ok(())
}

/// Adds one stream of replies to every target that reads such streams.
fn record(corpus: &mut Corpus, name: &str, protocol: u8, said: &[u8]) -> io::Result<()> {
    let name = format!("{name}_{protocol}");
    let replies = replies(said);
    corpus.add("resp", &name, &[&[7, 2], said])?;
    let longest = replies.iter().max_by_key(|reply| reply.len()).copied().unwrap_or_default();
    corpus.add("resp_peer", &name, &[&[protocol - 2], longest])?;
    let kind = if name.starts_with("subscribed") { 0x11 } else { 4 };
    let requests = vec![kind; replies.len()];
    let subscriber = u8::from(protocol == 2 && kind == 0x11);
    corpus.add("redis", &name, &[&[7, subscriber, requests.len() as u8], &requests, said])
}

fn replies(mut said: &[u8]) -> Vec<&[u8]> {
    let mut scanner = Scanner::new(ScanLimits::default());
    let mut replies = Vec::new();
    while let Ok(Scan::Whole { len, .. }) = scanner.scan(said) {
        let (reply, rest) = said.split_at(len);
        replies.push(reply);
        said = rest;
    }
    replies
}

/// All that a server answers to these commands on a new connection.
fn ask(server: &Server, protocol: u8, commands: &[&str]) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port()))?;
    converse(&mut stream, &[&format!("HELLO {protocol}")])?;
    converse(&mut stream, commands)
}

/// Sends these commands and a last ECHO, and reads until the reply of that.
fn converse(stream: &mut TcpStream, commands: &[&str]) -> Result<Vec<u8>> {
    const END: &[u8] = b"the end of it";
    let mut out = BytesMut::new();
    commands.iter().for_each(|command| Command::new(command).encode(&mut out));
    Command::new("ECHO").arg(END).encode(&mut out);
    stream.write_all(&out)?;
    let end = [&b"$13\r\n"[..], END, b"\r\n"].concat();
    let mut said = Vec::new();
    while !said.ends_with(&end) {
        let mut bytes = [0; 8192];
        let len = stream.read(&mut bytes)?;
        if len == 0 {
            return Err("the server hung up".into());
        }
        said.extend_from_slice(&bytes[..len]);
    }
    said.truncate(said.len() - end.len());
    Ok(said)
}

/// Inputs that no server sends: forms that only the specification has, and wrong lengths.
fn made(corpus: &mut Corpus) -> io::Result<()> {
    let cases: [(&str, &str); 17] = [
        ("string_in_chunks", "$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n"),
        ("array_in_a_stream", "*?\r\n:1\r\n%?\r\n+a\r\n:1\r\n.\r\n~?\r\n.\r\n.\r\n"),
        ("attributes_inside", "*2\r\n|1\r\n+a\r\n:1\r\n:1\r\n|0\r\n|1\r\n_\r\n#t\r\n:2\r\n"),
        ("error_as_a_string", "!21\r\nSYNTAX invalid syntax\r\n"),
        ("numbers", ",inf\r\n,-inf\r\n,nan\r\n,1.5e-7\r\n(-349285029438502934850293458\r\n"),
        ("string_of_512_megabytes", "$536870912\r\nabc"),
        ("string_too_long", "$536870913\r\n"),
        ("string_beyond_64_bits", "$18446744073709551616\r\n"),
        ("string_longer_than_it_says", "$3\r\nfooo\r\n"),
        ("negative_lengths", "*2\r\n$-1\r\n*-1\r\n$-2\r\n"),
        ("array_of_four_billion", "*4294967296\r\n*4294967296\r\n:1\r\n"),
        ("map_beyond_64_bits", "%9223372036854775808\r\n"),
        ("end_of_nothing", ".\r\n"),
        ("half_an_entry", "%?\r\n+a\r\n.\r\n"),
        ("push_inside", "*1\r\n>1\r\n+x\r\n"),
        ("signs", "$+3\r\nfoo\r\n"),
        ("http", "HTTP/1.1 400 Bad Request\r\n\r\n"),
    ];
    let deep = format!("{}:1\r\n", "*1\r\n".repeat(130));
    for (name, stream) in cases.into_iter().chain([("nested_too_deep", deep.as_str())]) {
        let stream = stream.as_bytes();
        corpus.add("resp", name, &[&[1, 2], stream])?;
        corpus.add("resp_peer", name, &[&[1], stream])?;
        corpus.add("redis", name, &[&[1, 0, 3, 4, 0x20, 3], stream])?;
    }
    Ok(())
}
