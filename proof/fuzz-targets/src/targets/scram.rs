//! Both sides of SCRAM, each against any message of the other.

use onetrip_postgres::auth::{ChannelBinding, Password, ScramClient, ScramServer};

use crate::input::{Input, show, show_debug};

/// The nonce of the client in the corpus.
const NONCE: [u8; 18] = [9; 18];

/// More iterations than the corpus was recorded with, and few enough for many runs.
const ITERATIONS_MAX: u32 = 16;

/// A byte that chooses the binding, the first message as a piece, and the last message.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.u8();
    let binding = match kind & 3 {
        0 => ChannelBinding::TlsServerEndPoint(vec![3; 32]),
        1 => ChannelBinding::NotOffered,
        _ => ChannelBinding::Unsupported,
    };
    let (first, last) = (input.piece(), input.rest());
    match kind & 4 {
        0 => client(binding, first, last),
        _ => server(binding, first, last),
    }
}

fn client(binding: ChannelBinding, first: &[u8], last: &[u8]) {
    let client = ScramClient::new("", Password::from("secret"), &NONCE, binding);
    match client.handle_server_first(first, ITERATIONS_MAX) {
        Ok(proof) => proof.handle_server_final(last).unwrap_or_else(show),
        Err(error) => show(error),
    }
}

fn server(binding: ChannelBinding, first: &[u8], last: &[u8]) {
    let mut server = ScramServer::new(Password::from("secret"), &[1; 16], 1, &[2; 18], binding);
    show_debug(server.handle_client_first(first));
    show_debug(server.handle_client_final(last));
}
