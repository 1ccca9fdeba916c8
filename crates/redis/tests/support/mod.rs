//! A Redis of the test's own, on a Unix socket, and as much of its protocol as asking it takes.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use onetrip_redis::Command;

/// What the server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Line(String),
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nothing,
    List(Vec<Said>),
}

impl Said {
    pub fn list(self) -> Vec<Said> {
        match self {
            Said::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }

    pub fn bytes(self) -> Vec<u8> {
        match self {
            Said::Bytes(bytes) => bytes,
            Said::Line(line) => line.into_bytes(),
            other => panic!("not a string: {other:?}"),
        }
    }

    pub fn text(self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }
}

/// It ends with this.
pub struct Server {
    process: Child,
    directory: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Server {
    /// `None`, and a line that says so, where there is no redis-server.
    pub fn start(name: &str, options: &[&str]) -> Option<Server> {
        let directory =
            std::env::temp_dir().join(format!("onetrip-redis-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let socket = directory.join("s");
        let process = Process::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(&directory)
            .args(options)
            .stdout(Stdio::null())
            .spawn();
        let Ok(process) = process else {
            println!("skipped: {name}: there is no redis-server");
            return None;
        };
        let stream = connect(&socket);
        Some(Server { process, directory, stream })
    }

    pub fn ask(&mut self, command: Command) -> Said {
        let mut out = BytesMut::new();
        command.encode(&mut out);
        self.stream.get_mut().write_all(&out).unwrap();
        self.read()
    }

    fn read(&mut self) -> Said {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "+" => Said::Line(rest.to_owned()),
            "-" => Said::Error(rest.to_owned()),
            ":" => Said::Number(rest.parse().unwrap()),
            "$" if rest == "-1" => Said::Nothing,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Said::Bytes(bytes)
            }
            "*" if rest == "-1" => Said::Nothing,
            "*" => Said::List((0..rest.parse().unwrap()).map(|_| self.read()).collect()),
            other => panic!("unknown type {other:?}"),
        }
    }
}

fn connect(socket: &PathBuf) -> BufReader<UnixStream> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return BufReader::new(stream),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::yield_now();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
