//! The little of the protocol that the lab needs: a command and its whole answer, over a blocking
//! socket. It speaks RESP2 and is no full client: an unexpected reply is an error.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_redis::Command;

/// The longest wait for a connection, and for each piece of an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// One answer of a server, in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Neither a string nor an array.
    Nil,
    /// A number.
    Number(i64),
    /// A string of either kind.
    Text(Vec<u8>),
    /// An error: its code and its message.
    Error(String),
    /// Several.
    Many(Vec<Answer>),
}

/// A plain connection.
pub struct Plain {
    reader: BufReader<Box<dyn Stream>>,
}

trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

impl Plain {
    /// Over the Unix socket at this path.
    ///
    /// # Errors
    /// As the system says.
    pub fn unix(path: &Path) -> io::Result<Plain> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Plain { reader: BufReader::new(Box::new(stream)) })
    }

    /// Over a port of 127.0.0.1.
    ///
    /// # Errors
    /// As the system says.
    pub fn tcp(port: u16) -> io::Result<Plain> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Plain { reader: BufReader::new(Box::new(stream)) })
    }

    /// Sends a command and waits for its answer, which may be an error of the server.
    ///
    /// # Errors
    /// When the connection fails, or what comes is no RESP2.
    pub fn ask(&mut self, command: &Command) -> io::Result<Answer> {
        let mut bytes = BytesMut::new();
        command.encode(&mut bytes);
        self.reader.get_mut().write_all(&bytes)?;
        self.answer()
    }

    /// As [`ask`](Self::ask), but returns an error of the server as `Err`.
    ///
    /// # Errors
    /// When the connection fails, and when the server answers with an error.
    pub fn tell(&mut self, command: &Command) -> io::Result<Answer> {
        match self.ask(command)? {
            Answer::Error(text) => Err(io::Error::other(format!("{command:?}: {text}"))),
            answer => Ok(answer),
        }
    }

    /// Waits for the answer to a command that was sent before.
    ///
    /// # Errors
    /// When the connection fails, or what comes is no RESP2.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| strange(&line))?;
        let number = || rest.parse::<i64>().map_err(|_| strange(&line));
        match kind {
            "+" => Ok(Answer::Text(rest.into())),
            "-" => Ok(Answer::Error(rest.into())),
            ":" => number().map(Answer::Number),
            "$" | "*" if number()? < 0 => Ok(Answer::Nil),
            "$" => self.string(number()?),
            "*" => {
                (0..number()?).map(|_| self.answer()).collect::<io::Result<_>>().map(Answer::Many)
            }
            _ => Err(strange(&line)),
        }
    }

    fn string(&mut self, len: i64) -> io::Result<Answer> {
        let mut bytes = Vec::new();
        let len = len.unsigned_abs();
        self.reader.by_ref().take(len + 2).read_to_end(&mut bytes)?;
        match bytes.ends_with(b"\r\n") && bytes.len() as u64 == len + 2 {
            true => bytes.truncate(bytes.len() - 2),
            false => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(Answer::Text(bytes))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Err(strange(&line)),
        }
    }
}

impl Answer {
    /// The text, if it is a string of valid UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Answer::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The items of an array; none if it is something else.
    #[must_use]
    pub fn items(&self) -> &[Answer] {
        match self {
            Answer::Many(items) => items,
            _ => &[],
        }
    }

    /// The value after `name:` in an answer to INFO or CLUSTER INFO.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.text()?.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}

fn strange(line: &str) -> io::Error {
    let line: String = line.chars().take(60).collect();
    io::Error::new(io::ErrorKind::InvalidData, format!("no RESP2: {}", line.escape_debug()))
}
