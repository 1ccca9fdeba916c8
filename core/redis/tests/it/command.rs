//! Commands as they are sent.

use bytes::BytesMut;
use onetrip_redis::Command;

#[test]
fn arguments_of_any_length_are_written_and_read_back() {
    for len in (0..300).chain([999, 1_000, 65_536]) {
        let argument = vec![b'x'; len];
        let command = Command::new("SET").arg("k").arg(&*argument).arg(len);
        let mut out = BytesMut::new();
        command.encode(&mut out);
        let digits = len.to_string();
        let text = String::from_utf8(argument.clone()).unwrap();
        let wanted = format!(
            "*4\r\n$3\r\nSET\r\n$1\r\nk\r\n${len}\r\n{text}\r\n${}\r\n{digits}\r\n",
            digits.len()
        );
        assert_eq!(out, wanted.as_bytes(), "{len}");
        let read: Vec<&[u8]> = command.iter().collect();
        assert_eq!(read, [b"SET", &b"k"[..], &argument, digits.as_bytes()], "{len}");
    }
}
