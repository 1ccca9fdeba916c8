//! The profiler of round trips, on captures and on bytes of two directions.

use onetrip_profile::{Piece, Profiler, Side, capture};

use crate::input::{Input, cut, show_debug};

/// Whether it is a capture, then that; or how pieces are cut, and pieces of the two sides in turn.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut profiler = Profiler::new();
    if input.flag() {
        if let Ok(captured) = capture::read(input.rest(), &[5432, 6379], &mut profiler) {
            assert!(!captured.to_string().is_empty());
        }
    } else {
        let plan = input.u8();
        let mut at = 0;
        while !input.is_empty() {
            let from = if at % 2 == 0 { Side::Client } else { Side::Server };
            for bytes in cut(plan, input.long_piece()) {
                profiler.piece(Piece { at, connection: 1, from, bytes });
            }
            at += 1;
        }
    }
    show_debug(&profiler);
    show_debug(profiler.finish());
}
