//! Between a program and a server, both of which may say anything.

use onetrip_postgres::client::early::{Early, Time, Words};

use crate::input::{Input, cut, show_debug};

/// Logged in, and idle.
const STARTUP: &[u8] = b"\0\0\0\x10\0\x03\0\0user\0u\0\0";
const READY: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// The most that is held for a connection.
const MEMORY_MAX: usize = 64 << 10;

/// One side: what it was given to say, and what the other side heard of it.
#[derive(Default)]
struct Passed {
    said: Vec<u8>,
    heard: Vec<u8>,
}

/// Which words, how pieces are cut, and then pieces: a byte says from which side.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (flags, plan) = (input.u8(), input.u8());
    let is_nothing = flags & 1 != 0;
    let word = if is_nothing { "nothing" } else { "ping" };
    let words = Words::default().with(word).and_then(|it| it.with("set")).unwrap();
    let mut early = Early::new(words);
    let (mut program, mut server) = (Passed::default(), Passed::default());
    if flags & 2 == 0 {
        say(&mut early, true, STARTUP, &mut program, &mut server);
        say(&mut early, false, READY, &mut program, &mut server);
    }
    while !input.is_empty() {
        let is_program = input.flag();
        for bytes in cut(plan, input.long_piece()) {
            say(&mut early, is_program, bytes, &mut program, &mut server);
        }
    }
    early.program_ended();
    // What is not looked at passes as it is.
    if is_nothing && flags & 2 == 0 && !early.is_over() {
        assert!(program.said.starts_with(&program.heard));
        assert!(server.said.starts_with(&server.heard));
    }
    show_debug(early.saved());
}

fn say(
    early: &mut Early,
    is_program: bool,
    bytes: &[u8],
    program: &mut Passed,
    server: &mut Passed,
) {
    for bytes in bytes.chunks(8 << 10) {
        // Whoever may say no more is not heard.
        match is_program {
            true if early.wants_program() => {
                early.from_program(Time::ZERO, bytes);
                program.said.extend_from_slice(bytes);
            }
            false if early.wants_server() => {
                early.from_server(Time::ZERO, bytes);
                server.said.extend_from_slice(bytes);
            }
            _ => {}
        }
        assert!(early.memory() <= MEMORY_MAX, "{} bytes", early.memory());
        program.heard.extend_from_slice(early.to_server());
        early.server_took(Time::ZERO, early.to_server().len());
        server.heard.extend_from_slice(early.to_program());
        early.program_took(Time::ZERO, early.to_program().len());
    }
}
