//! How bytes cross the interface, without a server.

use onetrip_abi::Connection;
use onetrip_abi::completion::{end, kind};
use onetrip_abi::export::*;

/// An echo, freed at the end.
struct Echo(*mut Connection);

impl Echo {
    fn new() -> Echo {
        Echo(onetrip_echo_new())
    }

    fn submit(&self, token: u32, bytes: &[u8]) -> bool {
        // SAFETY: the connection lives, and there is room for the bytes.
        unsafe {
            let room = onetrip_request(self.0, bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len());
            onetrip_echo_submit(self.0, token, bytes.len())
        }
    }

    fn receive(&self, bytes: &[u8]) {
        // SAFETY: the connection lives, and there is room for the bytes.
        unsafe {
            let room = onetrip_input(self.0, bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len());
            onetrip_received(self.0, 0.0, bytes.len());
        }
    }

    fn to_send(&self) -> Vec<u8> {
        // SAFETY: the connection lives.
        unsafe {
            let len = onetrip_transmit_len(self.0);
            std::slice::from_raw_parts(onetrip_transmit(self.0), len).to_vec()
        }
    }

    fn take(&self) -> Vec<(u32, u32, u32, Vec<u8>)> {
        // SAFETY: the connection lives; completions and blocks are valid until the next take.
        unsafe {
            let count = onetrip_take(self.0);
            let records = match count {
                0 => &[][..],
                _ => std::slice::from_raw_parts(onetrip_completions(self.0), count),
            };
            let block = |start: *const u8, len| match start.is_null() {
                true => Vec::new(),
                false => std::slice::from_raw_parts(start, len).to_vec(),
            };
            records.iter().map(|it| (it.kind, it.token, it.b, block(it.block, it.len))).collect()
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // SAFETY: nobody uses it after this.
        unsafe { onetrip_connection_free(self.0) }
    }
}

#[test]
fn a_request_is_to_be_sent_and_ends_with_its_own_bytes() {
    let echo = Echo::new();
    for (token, len) in [(1, 0), (2, 1), (3, 100_000)] {
        let request: Vec<u8> = (0..len).map(|at| at as u8).collect();
        assert!(echo.submit(token, &request));
        assert_eq!(echo.take(), [(kind::END, token, end::COMPLETE, request.clone())]);
        assert_eq!(echo.to_send(), request);
        // SAFETY: the connection lives.
        unsafe { onetrip_written(echo.0, 0.0, request.len()) };
        assert_eq!(echo.to_send(), b"");
    }
}

#[test]
fn what_arrives_comes_out_as_it_came() {
    let echo = Echo::new();
    for chunk in [&b"one"[..], b"two", &[0; 70_000]] {
        echo.receive(chunk);
        assert_eq!(echo.take(), [(kind::DATA, 0, 0, chunk.to_vec())]);
    }
    assert_eq!(echo.take(), []);
}

#[test]
fn a_block_stays_where_it_is_while_the_host_walks_and_more_happens() {
    let echo = Echo::new();
    assert!(echo.submit(1, b"first"));
    // SAFETY: the connection lives, and the completion is valid until the next take.
    let (start, len) = unsafe {
        assert_eq!(onetrip_take(echo.0), 1);
        let record = &*onetrip_completions(echo.0);
        (record.block, record.len)
    };
    for token in 2..1_000 {
        assert!(echo.submit(token, &[b'x'; 500]));
        echo.receive(&[b'y'; 500]);
    }
    // SAFETY: nothing was taken since then.
    assert_eq!(unsafe { std::slice::from_raw_parts(start, len) }, b"first");
    assert_eq!(echo.take().len(), 2 * 998);
}

#[test]
fn lengths_beyond_what_there_is_are_refused_or_cut() {
    let echo = Echo::new();
    assert!(echo.submit(1, b"four"));
    // SAFETY: the connection lives; the test is about the lengths.
    unsafe {
        assert!(!onetrip_echo_submit(echo.0, 2, 5_000));
        onetrip_input(echo.0, 3);
        std::ptr::copy_nonoverlapping(b"abc".as_ptr(), onetrip_input(echo.0, 3), 3);
        onetrip_received(echo.0, 0.0, 1_000);
        onetrip_received(echo.0, 0.0, 1_000);
    }
    let came: Vec<u8> = echo.take().into_iter().skip(1).flat_map(|it| it.3).collect();
    assert_eq!(came, b"abc");
}

#[test]
fn memory_is_zeroed_and_given_back() {
    let start = onetrip_alloc(1_000);
    // SAFETY: the memory has this length, and is freed once.
    unsafe {
        assert_eq!(std::slice::from_raw_parts(start, 1_000), [0; 1_000]);
        onetrip_free(start, 1_000);
        assert!(onetrip_alloc(0).is_null());
        onetrip_free(onetrip_alloc(0), 0);
    }
}
