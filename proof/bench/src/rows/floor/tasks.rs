//! The floor with a future for each request, as any client for tokio has it: tasks that each await
//! an answer, and one that writes and reads for all of them. Nothing is encoded or decoded, and
//! nothing can fail, end early or get lost.

use std::collections::VecDeque;
use std::io::ErrorKind::WouldBlock;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use anyhow::{Result, ensure};
use tokio::net::TcpStream;

use super::line::READ;
use super::recording::Recording;

/// A connection, with what is sent on it.
pub struct Crowd {
    socket: Arc<TcpStream>,
    shared: Arc<Shared>,
}

struct Shared {
    recording: Recording,
    desk: Mutex<Desk>,
}

/// Where the tasks and their driver meet.
#[derive(Default)]
struct Desk {
    unwritten: Vec<u8>,
    asked: usize,
    answered: usize,
    /// A place for each that was asked and not answered.
    waiting: VecDeque<Option<Waker>>,
    driver: Option<Waker>,
}

impl Crowd {
    pub fn new(socket: std::net::TcpStream, recording: Recording) -> Result<Crowd> {
        socket.set_nonblocking(true)?;
        let shared = Arc::new(Shared { recording, desk: Mutex::default() });
        Ok(Crowd { socket: Arc::new(TcpStream::from_std(socket)?), shared })
    }

    /// As many tasks send a share of the requests each, one after the other.
    pub async fn round(&self, tasks: usize) -> Result<u64> {
        let Recording { ends, answers, checksum, .. } = &self.shared.recording;
        *self.shared.desk() = Desk::default();
        let each = ends.len() / tasks;
        ensure!(each * tasks == ends.len(), "{} requests for {tasks} tasks", ends.len());
        let driver = Driver {
            socket: self.socket.clone(),
            shared: self.shared.clone(),
            unwritten: Vec::new(),
            buffer: vec![0; READ],
            kept: 0,
            bytes: 0,
        };
        let bytes = tokio::spawn(driver.run());
        let tasks: Vec<_> = (0..tasks)
            .map(|task| tokio::spawn(ask(self.shared.clone(), task * each..(task + 1) * each)))
            .collect();
        for task in tasks {
            task.await?;
        }
        ensure!(bytes.await?? == *answers, "the floor was answered something else");
        Ok(*checksum)
    }
}

async fn ask(shared: Arc<Shared>, requests: Range<usize>) {
    for request in requests {
        let ticket = shared.submit(request);
        std::future::poll_fn(|cx| shared.poll_answered(ticket, cx)).await;
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, request: usize) -> usize {
        let mut desk = self.desk();
        if desk.unwritten.is_empty()
            && let Some(driver) = &desk.driver
        {
            driver.wake_by_ref();
        }
        desk.unwritten.extend_from_slice(self.recording.requests(request..request + 1));
        desk.waiting.push_back(None);
        desk.asked += 1;
        desk.asked - 1
    }

    fn poll_answered(&self, ticket: usize, cx: &Context<'_>) -> Poll<()> {
        let mut desk = self.desk();
        let Some(place) = ticket.checked_sub(desk.answered) else { return Poll::Ready(()) };
        desk.waiting[place] = Some(cx.waker().clone());
        Poll::Pending
    }
}

struct Driver {
    socket: Arc<TcpStream>,
    shared: Arc<Shared>,
    unwritten: Vec<u8>,
    buffer: Vec<u8>,
    /// Bytes of the buffer in front of the next read.
    kept: usize,
    /// Of all answers.
    bytes: usize,
}

impl Driver {
    async fn run(mut self) -> Result<usize> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        self.shared.desk().driver.get_or_insert_with(|| cx.waker().clone());
        loop {
            if self.poll_write(cx)?.is_ready() && self.is_done() {
                return Poll::Ready(Ok(self.bytes));
            }
            ready!(self.socket.poll_read_ready(cx))?;
            match self.socket.try_read(&mut self.buffer[self.kept..]) {
                Ok(read) => self.heard(read)?,
                Err(error) if error.kind() == WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    fn is_done(&self) -> bool {
        self.shared.desk().answered == self.shared.recording.ends.len()
    }

    /// Ready when all is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.unwritten.is_empty() {
            std::mem::swap(&mut self.unwritten, &mut self.shared.desk().unwritten);
        }
        while !self.unwritten.is_empty() {
            ready!(self.socket.poll_write_ready(cx))?;
            match self.socket.try_write(&self.unwritten) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(error) if error.kind() == WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn heard(&mut self, read: usize) -> Result<()> {
        ensure!(read > 0, "the server has closed the floor's connection");
        let end = self.kept + read;
        let (whole, answers) = self.shared.recording.protocol.answers(&self.buffer[..end])?;
        self.buffer.copy_within(whole..end, 0);
        self.kept = end - whole;
        self.bytes += read;
        let mut desk = self.shared.desk();
        ensure!(answers <= desk.waiting.len(), "the floor was answered more than it asked for");
        desk.answered += answers;
        let woken: Vec<Waker> = desk.waiting.drain(..answers).flatten().collect();
        drop(desk);
        woken.into_iter().for_each(Waker::wake);
        Ok(())
    }
}
