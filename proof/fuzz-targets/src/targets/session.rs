//! A host whose steps the input chooses, with a connection to the model server. The input may also
//! make the server break the protocol.
//!
//! These must hold: each accepted request ends once, no output for it follows its end, and an
//! honest server accepts and answers everything that the client wrote.

mod host;
mod requests;

use crate::input::Input;
use host::Host;

/// Two bytes of limits, then one or more bytes for each step of the host.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut host = Host::new(&mut input);
    // More steps than this show nothing new.
    for _ in 0..400 {
        if input.is_empty() {
            break;
        }
        step(&mut host, &mut input);
        host.take_outputs();
    }
    host.end();
}

fn step(host: &mut Host, input: &mut Input<'_>) {
    match input.u8() % 24 {
        0..=4 => host.submit(input),
        5 | 6 => host.write(input.u8().into()),
        7 | 8 => host.read(input.u8().into()),
        9 => host.settle(),
        10 => host.open_group(),
        11..=14 => host.submit_to_group(input),
        15 => host.close_group(),
        16 => host.flush_group(),
        17 => host.consume(input.u8().into()),
        18 => host.cancel(input.u8()),
        19 => host.pass_time(input.u16()),
        20 => host.disturb(input.u8()),
        21 => host.lie(input.piece()),
        22 => host.corrupt(input.u8(), input.u8()),
        _ if input.below(8) == 0 => host.terminate(),
        _ => host.stop_counting(),
    }
}
