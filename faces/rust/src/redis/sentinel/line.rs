//! One connection to a Sentinel.

use std::sync::Arc;

use bytes::Bytes;
use onetrip_redis::client::sentinel::LineId;
use onetrip_redis::redirect::Address;

use super::Discovery;
use crate::redis::config::Server;
use crate::redis::connect::dial;
use crate::socket::Stream;

/// Connects, sends the questions, and reports what comes until the end.
pub(super) async fn run(this: Arc<Discovery>, line: LineId, address: Address, send: Bytes) {
    let why = match connect(&this, &address, &send).await {
        Ok(stream) => read(&this, line, stream).await,
        Err(why) => why,
    };
    this.with(|policy, now| policy.handle_closed(now, line, &why));
}

async fn connect(this: &Discovery, address: &Address, send: &[u8]) -> Result<Stream, String> {
    let server = Server::Tcp { host: address.host.to_string(), port: address.port };
    let mut stream = dial(&this.config, &server).await.map_err(|error| error.to_string())?;
    match stream.write_all(send).await {
        Ok(()) => Ok(stream),
        Err(error) => Err(format!("its connection was lost ({error})")),
    }
}

async fn read(this: &Arc<Discovery>, line: LineId, mut stream: Stream) -> String {
    loop {
        let end = stream.read().await.end;
        let bytes = stream.input.split();
        if !bytes.is_empty() {
            this.with(|policy, now| policy.handle_input(now, line, &bytes));
        }
        if let Some(end) = end {
            return format!("its connection was lost ({end})");
        }
    }
}
