//! A relay that keeps what passes: the bytes that a client sends, and those that it is answered.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

/// Listens until its process ends; a connection lasts as long as its client's.
pub struct Recorder {
    addr: SocketAddr,
    tape: Arc<Mutex<Tape>>,
}

/// What passed since the last cut.
#[derive(Default)]
pub struct Tape {
    pub sent: Vec<u8>,
    pub answered: Vec<u8>,
    /// Connections so far.
    connections: usize,
}

impl Recorder {
    pub fn start(upstream: SocketAddr) -> Result<Recorder> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot record")?;
        let addr = listener.local_addr()?;
        let tape = Arc::new(Mutex::new(Tape::default()));
        let kept = tape.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A server that can't be reached is a connection that ends at once.
                let _ = relay(client, upstream, &kept);
            }
        });
        Ok(Recorder { addr, tape })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Takes what passed so far. A client whose requests were all answered has nothing under way.
    pub fn cut(&self) -> Result<Tape> {
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        // Of several the order is not known.
        if tape.connections != 1 {
            bail!("{} connections were recorded instead of one", tape.connections);
        }
        Ok(std::mem::replace(&mut tape, Tape { connections: 1, ..Tape::default() }))
    }
}

fn relay(client: TcpStream, upstream: SocketAddr, tape: &Arc<Mutex<Tape>>) -> Result<()> {
    let server = TcpStream::connect(upstream)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tape.lock().unwrap_or_else(PoisonError::into_inner).connections += 1;
    pass(client.try_clone()?, server.try_clone()?, tape.clone(), |tape| &mut tape.sent);
    pass(server, client, tape.clone(), |tape| &mut tape.answered);
    Ok(())
}

/// One direction, until either end is closed.
fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    tape: Arc<Mutex<Tape>>,
    track: fn(&mut Tape) -> &mut Vec<u8>,
) {
    thread::spawn(move || {
        let mut buffer = vec![0; READ];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let mut kept = tape.lock().unwrap_or_else(PoisonError::into_inner);
            track(&mut kept).extend_from_slice(&buffer[..length]);
            drop(kept);
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

const READ: usize = 64 << 10;
