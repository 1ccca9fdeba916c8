//! The model on a real socket: one thread that accepts, and one for each connection.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::{Config, Log, Server};

/// A fault of a connection. Bytes are counted from the end of the startup, unless the fault was
/// planned with [`Model::plan_startup`]. If a connection has several faults, each happens once.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Closes the connection when this many bytes were written to the client.
    CloseAfter(usize),
    /// Inserts these bytes when so many bytes were written, and goes on.
    Hostile {
        /// How many bytes of the server come before.
        after: usize,
        /// The bytes to insert.
        bytes: Vec<u8>,
    },
    /// Goes on working but writes nothing more once this many bytes were written.
    Silence(usize),
    /// Reads nothing more once this many bytes were read. The bytes already read are processed.
    Deaf(usize),
}

/// A model server that listens. It ends, with all its connections, when this is dropped.
///
/// ```
/// use std::net::TcpListener;
/// use onetrip_lab::model::{Config, Fault, serve};
///
/// let model = serve(TcpListener::bind("127.0.0.1:0")?, Config::default())?;
/// model.plan(Fault::CloseAfter(100)); // of the connection that comes next
/// println!("connect to {}", model.addr());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Model {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// Serves every connection that `listener` accepts.
///
/// # Errors
/// The listener has no address, or no thread can be started.
pub fn serve(listener: TcpListener, config: Config) -> io::Result<Model> {
    let addr = listener.local_addr()?;
    let shared = Arc::new(Shared::default());
    let acceptor = {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("model".to_owned())
            .spawn(move || accept(&listener, &config, &shared))?
    };
    Ok(Model { addr, shared, acceptor: Some(acceptor) })
}

impl Model {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What became of every statement, on all connections.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// How many connections were accepted.
    pub fn accepted(&self) -> usize {
        self.shared.lock().accepted
    }

    /// Plans a fault for the connection that comes next; several add up.
    pub fn plan(&self, fault: Fault) {
        self.shared.lock().planned.push((false, fault));
    }

    /// Plans a fault for the connection that comes next, counted from its first byte.
    pub fn plan_startup(&self, fault: Fault) {
        self.shared.lock().planned.push((true, fault));
    }

    /// Ends the list of faults of the connection that comes next: what is planned from now on is
    /// for the one behind it.
    pub fn plan_next(&self) {
        let mut state = self.shared.lock();
        let faults = std::mem::take(&mut state.planned);
        state.ready.push_back(faults);
    }

    /// Writes these bytes to every open connection, behind the replies so far: a notice, a FATAL
    /// ([`super::fatal`]), or anything else.
    pub fn send(&self, bytes: &[u8]) {
        for connection in self.shared.live() {
            let _writing = connection.writing.lock().unwrap_or_else(PoisonError::into_inner);
            // It may have gone already.
            let _ = (&connection.stream).write_all(bytes);
        }
    }

    /// Closes every open connection, at once.
    pub fn close_all(&self) {
        for connection in self.shared.live() {
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.close_all();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.addr);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    log: Log,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    accepted: usize,
    /// Faults for the next connections, with whether they count from the first byte.
    ready: VecDeque<Vec<(bool, Fault)>>,
    planned: Vec<(bool, Fault)>,
    live: Vec<Arc<Open>>,
}

#[derive(Debug)]
struct Open {
    stream: TcpStream,
    writing: Mutex<()>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> Vec<Arc<Open>> {
        self.lock().live.clone()
    }

    fn remove(&self, open: &Arc<Open>) {
        self.lock().live.retain(|other| !Arc::ptr_eq(other, open));
        self.changed.notify_all();
    }

    /// Waits until the model stops.
    fn wait_for_stop(&self) {
        let mut state = self.lock();
        while !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn accept(listener: &TcpListener, config: &Config, shared: &Arc<Shared>) {
    let mut threads = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        let open = Arc::new(Open { stream, writing: Mutex::new(()) });
        let mut state = shared.lock();
        if state.stopped {
            break;
        }
        state.accepted += 1;
        let planned = state.ready.pop_front();
        let faults = planned.unwrap_or_else(|| std::mem::take(&mut state.planned));
        state.live.push(Arc::clone(&open));
        drop(state);
        let _ = open.stream.set_nodelay(true);
        let (shared, config) = (Arc::clone(shared), config.clone());
        threads.push(std::thread::spawn(move || {
            let server = Server::new(config, shared.log.clone());
            let (open, shared) = (&open, &*shared);
            let (read, written, startup) = (0, 0, None);
            Session { server, open, shared, faults, read, written, startup }.serve();
            let _ = open.stream.shutdown(Shutdown::Both);
            shared.remove(open);
        }));
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// A connection that is served.
struct Session<'a> {
    server: Server,
    open: &'a Arc<Open>,
    shared: &'a Shared,
    faults: Vec<(bool, Fault)>,
    /// Bytes so far.
    read: usize,
    written: usize,
    /// Where the startup ended, in both directions.
    startup: Option<(usize, usize)>,
}

/// The client has gone, or a fault ends the connection.
struct Over;

impl Session<'_> {
    fn serve(&mut self) {
        // However the connection ends, the open transaction is rolled back.
        let _ = self.serve_on();
        self.server.handle_closed();
        self.drop_output();
    }

    fn serve_on(&mut self) -> Result<(), Over> {
        let mut buffer = vec![0; 8192];
        while !self.server.is_closed() {
            let len = self.read(&mut buffer)?;
            self.read += len;
            self.server.handle_bytes(&buffer[..len]);
            self.write()?;
            if self.server.is_started() {
                self.startup.get_or_insert((self.read, self.written));
            }
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Over> {
        let mut len = buffer.len();
        for (from_start, fault) in &self.faults {
            if let Fault::Deaf(after) = fault
                && let Some((start, _)) = self.start(*from_start)
            {
                len = len.min((start + after).saturating_sub(self.read));
            }
        }
        if len == 0 {
            self.shared.wait_for_stop();
            return Err(Over);
        }
        match (&self.open.stream).read(&mut buffer[..len]) {
            Ok(0) | Err(_) => Err(Over),
            Ok(len) => Ok(len),
        }
    }

    /// Writes the server's output, with the faults in between.
    fn write(&mut self) -> Result<(), Over> {
        while let Some((at, position)) = self.due() {
            while self.written < position && !self.server.transmit().is_empty() {
                self.put(position - self.written)?;
            }
            if self.written < position {
                return Ok(());
            }
            match &self.faults[at].1 {
                Fault::CloseAfter(_) => return Err(Over),
                Fault::Hostile { bytes, .. } => self.send(bytes)?,
                Fault::Silence(_) => {
                    self.drop_output();
                    return Ok(());
                }
                Fault::Deaf(_) => {}
            }
            self.faults.remove(at);
        }
        while !self.server.transmit().is_empty() {
            self.put(usize::MAX)?;
        }
        Ok(())
    }

    /// The next fault on what is written, and where.
    fn due(&self) -> Option<(usize, usize)> {
        let faults = self.faults.iter().enumerate();
        let due = faults.filter_map(|(at, (from_start, fault))| {
            let after = match fault {
                Fault::CloseAfter(after) | Fault::Silence(after) => after,
                Fault::Hostile { after, .. } => after,
                Fault::Deaf(_) => return None,
            };
            self.start(*from_start).map(|(_, start)| (at, start + after))
        });
        due.min_by_key(|(_, position)| *position)
    }

    /// From where a fault counts, in both directions.
    fn start(&self, from_start: bool) -> Option<(usize, usize)> {
        if from_start { Some((0, 0)) } else { self.startup }
    }

    fn put(&mut self, len_max: usize) -> Result<(), Over> {
        let len = self.server.transmit().len().min(len_max);
        self.send(&self.server.transmit()[..len])?;
        self.written += len;
        self.server.handle_written(len);
        Ok(())
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Over> {
        let _writing = self.open.writing.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.open.stream).write_all(bytes).map_err(|_| Over)
    }

    /// Discards the server's output.
    fn drop_output(&mut self) {
        while !self.server.transmit().is_empty() {
            self.server.handle_written(self.server.transmit().len());
        }
    }
}
