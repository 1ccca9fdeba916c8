//! Patroni's REST API, as far as it is needed: one request on a connection.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A node that answers later than this counts as down.
const PATIENCE: Duration = Duration::from_secs(5);

/// An answer: its status and its body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

pub(super) fn get(port: u16, path: &str) -> io::Result<Answer> {
    ask(port, &format!("GET {path} HTTP/1.0\r\n\r\n"), PATIENCE)
}

/// Sends JSON, and waits up to `patience` for the answer.
pub(super) fn post(port: u16, path: &str, json: &str, patience: Duration) -> io::Result<Answer> {
    let head = format!("POST {path} HTTP/1.0\r\nContent-Type: application/json");
    ask(port, &format!("{head}\r\nContent-Length: {}\r\n\r\n{json}", json.len()), patience)
}

fn ask(port: u16, request: &str, patience: Duration) -> io::Result<Answer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    read(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no answer in HTTP"))
}

fn read(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_status_and_a_body() {
        let answer = read("HTTP/1.0 503 Service Unavailable\r\nA: b\r\n\r\n{\"x\": 1}");
        let parts = answer.map(|answer| (answer.status, answer.body));
        assert_eq!(parts, Some((503, "{\"x\": 1}".to_owned())));
        assert!(read("HTTP/1.0 200 OK\r\n").is_none());
    }
}
