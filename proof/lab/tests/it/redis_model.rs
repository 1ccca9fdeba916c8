//! The model of a Redis server: that it answers as a real one does, and what it does on demand.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_lab::redis::model::{
    Effect, Log, Model, ModelConfig, REFUSALS, Rng, SHAPES, message, script_hash, shape,
};
use onetrip_lab::redis::shared;
use onetrip_redis::Command;
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};

/// What is waited for at most.
const PATIENCE: Duration = Duration::from_secs(600);

fn model(config: ModelConfig) -> Model {
    Model::new(config, Log::default())
}

fn encoded(command: &Command) -> BytesMut {
    let mut out = BytesMut::new();
    command.encode(&mut out);
    out
}

fn answer(model: &mut Model, command: &Command) -> Vec<u8> {
    model.handle_bytes(&encoded(command));
    let answer = model.transmit().to_vec();
    model.handle_written(answer.len());
    answer
}

/// A connection that speaks RESP3 and has logged in.
fn real() -> Option<UnixStream> {
    let server = shared()?;
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let hello = Command::new("HELLO 3 AUTH default").arg(server.password());
    stream.write_all(&encoded(&hello)).unwrap();
    stream.write_all(&encoded(&Command::new("PING"))).unwrap();
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(b"+PONG\r\n") {
        stream.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    Some(stream)
}

#[test]
fn the_model_answers_as_a_real_server_does() {
    let Some(mut real) = real() else { return };
    let mut model = model(ModelConfig::default());
    let commands = [
        Command::new("ECHO").arg(b"\r\n$1\r\n\0"),
        Command::new("GET").arg("model:absent"),
        Command::new("SET").arg("model:1").arg("value"),
        Command::new("GET").arg("model:1"),
        Command::new("INCRBY").arg("model:2").arg(-17),
        Command::new("MULTI"),
        Command::new("INCRBY").arg("model:2").arg(3),
        Command::new("GET").arg("model:1"),
        Command::new("EXEC"),
        Command::new("SUBSCRIBE").arg("model:a").arg("model:b"),
        Command::new("PUBLISH").arg("model:a").arg("heard"),
        Command::new("PUBLISH").arg("model:c").arg("unheard"),
        Command::new("PSUBSCRIBE").arg("model:p*"),
        Command::new("SSUBSCRIBE").arg("model:s"),
        Command::new("UNSUBSCRIBE").arg("model:b").arg("model:never"),
        Command::new("PUNSUBSCRIBE").arg("model:p*"),
        Command::new("SUNSUBSCRIBE").arg("model:s"),
        Command::new("ECHO").arg("the end"),
    ];
    for command in commands {
        let expected = answer(&mut model, &command);
        real.write_all(&encoded(&command)).unwrap();
        let mut came = vec![0; expected.len()];
        real.read_exact(&mut came).unwrap();
        assert_eq!(came.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
    assert_eq!(model.log().violations(), [""; 0]);
}

#[test]
fn each_shape_is_one_reply() {
    for kind in 0..SHAPES {
        for text in ["x", "some text of some length"] {
            let reply = shape(kind, text.as_bytes());
            let scan = Scanner::new(ScanLimits::default()).scan(&reply).unwrap();
            assert!(
                matches!(scan, Scan::Whole { len, .. } if len == reply.len()),
                "{kind}: {scan:?}"
            );
        }
    }
}

#[test]
fn a_script_that_is_lost_does_not_begin() {
    let mut model = model(ModelConfig::default());
    let text = "return 1";
    let call =
        Command::new("EVALSHA").arg(script_hash(text.as_bytes())).arg(1).arg("op:5").arg("x");
    let load = Command::new("SCRIPT LOAD").arg(text);
    assert!(answer(&mut model, &call).starts_with(b"-NOSCRIPT "));
    assert_eq!(model.log().entry(5).executed, 0);
    answer(&mut model, &load);
    assert!(answer(&mut model, &call).starts_with(b"*3\r\n"));
    assert_eq!(model.log().entry(5).effect, Effect::Committed);
    model.lose_scripts();
    assert!(answer(&mut model, &call).starts_with(b"-NOSCRIPT "));
    assert_eq!((model.log().entry(5).received, model.log().entry(5).executed), (3, 1));
}

#[test]
fn what_is_refused_leaves_nothing_and_discards_its_transaction() {
    let refusals = Some((Rng::new(1), 1));
    let mut model = model(ModelConfig { refusals, ..ModelConfig::default() });
    let refused = answer(&mut model, &Command::new("INCRBY").arg("op:1").arg(1));
    let text = String::from_utf8(refused).unwrap();
    assert!(REFUSALS.iter().any(|code| text.starts_with(&format!("-{code} op:1 "))), "{text}");
    assert_eq!(model.log().entry(1).effect, Effect::None);
    answer(&mut model, &Command::new("MULTI"));
    answer(&mut model, &Command::new("INCRBY").arg("op:2").arg(1));
    assert!(answer(&mut model, &Command::new("EXEC")).starts_with(b"-EXECABORT "));
    assert_eq!(model.log().entry(2).executed, 0);
}

#[test]
fn what_fails_says_what_it_left() {
    let mut model = model(ModelConfig::default());
    for (code, start, effect) in [
        ("WRONGTYPE", "-WRONGTYPE op:3 ", Effect::RolledBack),
        ("!ERR", "!", Effect::RolledBack),
        ("IOERR", "-IOERR op:3 ", Effect::Partial),
    ] {
        let answer = answer(&mut model, &Command::new("FAIL").arg(code).arg("op:3"));
        assert!(answer.starts_with(start.as_bytes()), "{}", answer.escape_ascii());
        assert_eq!(model.log().entry(3).effect, effect);
    }
}

#[test]
fn pushes_stand_between_replies_and_are_kept() {
    let mut model = model(ModelConfig { resp2: true, ..ModelConfig::default() });
    model.push_message(b"first");
    let confirmed = answer(&mut model, &Command::new("SUBSCRIBE").arg("a"));
    let push = message(true, b"elsewhere", b"first");
    assert_eq!(confirmed, [&push[..], b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"].concat());
    assert_eq!(model.pushes(), [push]);
}

#[test]
fn what_is_no_command_ends_the_session() {
    for bytes in [&b"PING\r\n"[..], b"*1\r\n+PING\r\n", b"*1\r\n$4\r\nPINGxx", b"*0\r\n"] {
        let mut model = model(ModelConfig::default());
        model.handle_bytes(bytes);
        assert!(model.is_closed() && model.transmit().starts_with(b"-ERR Protocol error: "));
        assert_eq!(model.log().violations().len(), 1);
    }
    // A command that is not whole is waited for, byte by byte.
    let mut model = model(ModelConfig::default());
    for byte in encoded(&Command::new("ECHO").arg("x")) {
        assert!(model.transmit().is_empty());
        model.handle_bytes(&[byte]);
    }
    assert_eq!(model.transmit(), b"$1\r\nx\r\n");
}
