//! The latency proxy with real loopback sockets. No test here asserts a time: the self-check
//! measures the precision. Every wait is a socket wait with a limit.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use onetrip_lab::proxy::{
    Direction, Fault, Link, Proxy, ProxyConfig, Scope, SelfCheckConfig, Stats, Tap, Upstream,
    self_check,
};
use rustix::net::sockopt::set_socket_linger;

/// A test that receives nothing for this long has failed.
const PATIENCE: Duration = Duration::from_secs(600);

const MS: Duration = Duration::from_millis(1);

/// Serves each accepted connection on the returned thread, one after another, `count` of them.
fn serve<T: Send + 'static>(
    count: usize,
    mut handler: impl FnMut(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, JoinHandle<Vec<T>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        (0..count).map(|_| handler(prepared(listener.accept().unwrap().0))).collect()
    });
    (addr, thread)
}

fn echo_server() -> SocketAddr {
    serve(64, |stream| {
        std::thread::spawn(move || echo(stream));
    })
    .0
}

/// Sends back what comes until the end of stream, which it passes on.
fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer)? {
            0 => return stream.shutdown(Shutdown::Write),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

fn prepared(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn connect(proxy: &Proxy) -> TcpStream {
    prepared(TcpStream::connect(proxy.addr()).unwrap())
}

fn proxy_to(addr: SocketAddr) -> Proxy {
    Proxy::start(ProxyConfig::new(addr)).unwrap()
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Sends `bytes` from a thread while reading everything up to the end of stream.
fn send_and_read_all(mut stream: TcpStream, bytes: Vec<u8>) -> Vec<u8> {
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        writer.write_all(&bytes).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    received
}

/// One request of `size` bytes, echoed.
fn round_trip(stream: &mut TcpStream, size: usize) {
    stream.write_all(&vec![1; size]).unwrap();
    stream.read_exact(&mut vec![0; size]).unwrap();
}

/// Reads until the stream ends; the bytes, and the error if it did not end in order.
fn read_to_any_end(stream: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let error = stream.read_to_end(&mut bytes).err().map(|error| error.kind());
    (bytes, error)
}

/// Reads the counts until they meet the condition. Each reading makes the proxy work; the number of
/// readings is bounded.
fn wait_for(proxy: &Proxy, wish: impl Fn(&Stats) -> bool) -> Stats {
    for _ in 0..1_000_000 {
        let stats = proxy.stats();
        if wish(&stats) {
            return stats;
        }
    }
    panic!("the counts never became as wished: {:?}", proxy.stats());
}

#[test]
fn bytes_arrive_in_order_and_intact() {
    let links = [
        Link::default(),
        Link::delayed(3 * MS),
        Link { delay: 3 * MS, jitter: 3 * MS, bandwidth: None },
        Link { delay: MS, jitter: MS, bandwidth: Some(50_000_000) },
        Link { delay: Duration::ZERO, jitter: Duration::ZERO, bandwidth: Some(20_000_000) },
    ];
    for link in links {
        let proxy =
            Proxy::start(ProxyConfig { up: link, down: link, ..ProxyConfig::new(echo_server()) })
                .unwrap();
        let sent = pattern(3_000_000);
        let received = send_and_read_all(connect(&proxy), sent.clone());
        assert!(received == sent, "{link:?}: {} of {} bytes", received.len(), sent.len());
        let stats = wait_for(&proxy, |stats| stats.open.is_empty());
        assert_eq!((stats.bytes_up, stats.bytes_down), (3_000_000, 3_000_000));
    }
}

#[test]
fn a_small_buffer_holds_the_sender_back_and_loses_nothing() {
    let config = ProxyConfig { buffer_max: Some(1_000), ..ProxyConfig::new(echo_server()) };
    let proxy = Proxy::start(config.with_rtt(MS / 10)).unwrap();
    let sent = pattern(300_000);
    assert!(send_and_read_all(connect(&proxy), sent.clone()) == sent);
}

#[test]
fn thousands_of_small_writes_are_not_lost() {
    let proxy = Proxy::start(ProxyConfig::new(echo_server()).with_rtt(2 * MS)).unwrap();
    let mut stream = connect(&proxy);
    let sent = pattern(20_000);
    let mut writer = stream.try_clone().unwrap();
    let bytes = sent.clone();
    let sender = std::thread::spawn(move || {
        for byte in bytes {
            writer.write_all(&[byte]).unwrap();
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert!(received == sent);
}

#[test]
fn many_connections_at_once_keep_their_bytes_apart() {
    let proxy = Proxy::start(ProxyConfig::new(echo_server()).with_rtt(2 * MS)).unwrap();
    let mut streams: Vec<TcpStream> = (0..32).map(|_| connect(&proxy)).collect();
    for round in 0..10_u8 {
        for (i, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&[i as u8, round]).unwrap();
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            let mut reply = [0; 2];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(reply, [i as u8, round]);
        }
    }
    let stats = proxy.stats();
    assert_eq!((stats.connections, stats.open.len()), (32, 32));
    assert_eq!((stats.trips, stats.bytes_up, stats.bytes_down), (320, 640, 640));
}

#[test]
fn a_unix_socket_can_be_the_upstream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("echo.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = stream.try_clone().unwrap();
        io::copy(&mut reader, &mut stream).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    });
    let proxy = Proxy::start(ProxyConfig::new(Upstream::Unix(path)).with_rtt(MS)).unwrap();
    let sent = pattern(100_000);
    assert!(send_and_read_all(connect(&proxy), sent.clone()) == sent);
}

#[test]
fn a_half_close_is_passed_on_and_the_other_half_stays_open() {
    let (addr, server) = serve(1, |mut stream| {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        stream.write_all(b"answer after the end").unwrap();
        received
    });
    let proxy = Proxy::start(ProxyConfig::new(addr).with_rtt(2 * MS)).unwrap();
    let mut stream = connect(&proxy);
    stream.write_all(b"question").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let (answer, error) = read_to_any_end(&mut stream);
    assert_eq!((answer.as_slice(), error), (b"answer after the end".as_slice(), None));
    assert_eq!(server.join().unwrap(), [b"question"]);
}

#[test]
fn an_end_of_stream_before_the_dial_is_done_is_passed_on() {
    let (addr, server) = serve(1, |mut stream| read_to_any_end(&mut stream));
    let proxy = proxy_to(addr);
    drop(connect(&proxy));
    assert_eq!(server.join().unwrap(), [(vec![], None)]);
}

#[test]
fn a_reset_by_the_server_reaches_the_client_after_its_bytes() {
    let (addr, server) = serve(1, |mut stream| {
        let mut question = [0; 4];
        stream.read_exact(&mut question).unwrap();
        stream.write_all(b"last words").unwrap();
        // Once the client has answered, its bytes were delivered, so the reset can't outrun them.
        stream.read_exact(&mut question).unwrap();
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    let proxy = Proxy::start(ProxyConfig::new(addr).with_rtt(2 * MS)).unwrap();
    let mut stream = connect(&proxy);
    stream.write_all(b"ping").unwrap();
    let mut words = [0; 10];
    stream.read_exact(&mut words).unwrap();
    stream.write_all(b"pong").unwrap();
    let (rest, error) = read_to_any_end(&mut stream);
    assert_eq!((rest.len(), error), (0, Some(ErrorKind::ConnectionReset)));
    assert_eq!(&words, b"last words");
    server.join().unwrap();
    assert!(wait_for(&proxy, |stats| stats.open.is_empty()).open.is_empty());
}

#[test]
fn a_reset_by_the_client_reaches_the_server() {
    let (addr, server) = serve(1, |mut stream| read_to_any_end(&mut stream));
    let proxy = Proxy::start(ProxyConfig::new(addr).with_rtt(2 * MS)).unwrap();
    let mut stream = connect(&proxy);
    stream.write_all(b"hello").unwrap();
    wait_for(&proxy, |stats| stats.bytes_up == 5);
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    let ends = server.join().unwrap();
    assert_eq!(ends, [(b"hello".to_vec(), Some(ErrorKind::ConnectionReset))]);
}

#[test]
fn a_reset_behind_an_end_of_stream_reaches_the_server() {
    let (addr, server) = serve(1, |mut stream| {
        let (bytes, end) = read_to_any_end(&mut stream);
        assert_eq!((bytes.len(), end), (0, None));
        // The client is gone: writes go on until one fails.
        let failed = (0..1_000_000).find_map(|_| stream.write_all(&[1; 4096]).err());
        failed.map(|error| error.kind())
    });
    let proxy = proxy_to(addr);
    let stream = connect(&proxy);
    stream.shutdown(Shutdown::Write).unwrap();
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
    let kind = server.join().unwrap()[0].unwrap();
    assert!(matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{kind:?}");
    wait_for(&proxy, |stats| stats.open.is_empty());
}

#[test]
fn a_cut_down_delivers_exactly_its_bytes_and_ends_in_order() {
    for (bytes, byte_at_a_time) in [(0, false), (1, false), (12_345, false), (777, true)] {
        let proxy = Proxy::start(ProxyConfig::new(echo_server()).with_rtt(MS)).unwrap();
        let direction = Direction::Down;
        let mut stream = connect(&proxy);
        round_trip(&mut stream, 100);
        proxy.fault(Fault::ByteAtATime { direction, on: byte_at_a_time }, Scope::Present);
        proxy.fault(Fault::CutAfter { direction, bytes }, Scope::Present);
        let sent = pattern(50_000);
        // The cut may come while the client is still writing.
        let _ = stream.write_all(&sent);
        let (received, error) = read_to_any_end(&mut stream);
        assert_eq!((received.len() as u64, error), (bytes, None));
        assert!(sent.starts_with(&received));
    }
}

#[test]
fn a_cut_up_delivers_exactly_its_bytes_and_ends_both_sides_in_order() {
    let (addr, server) = serve(1, |mut stream| read_to_any_end(&mut stream));
    let proxy = Proxy::start(ProxyConfig::new(addr).with_rtt(MS)).unwrap();
    let fault = Fault::CutAfter { direction: Direction::Up, bytes: 5 };
    proxy.fault(fault, Scope::Future);
    let mut stream = connect(&proxy);
    stream.write_all(b"0123456789").unwrap();
    assert_eq!(read_to_any_end(&mut stream), (vec![], None));
    assert_eq!(server.join().unwrap(), [(b"01234".to_vec(), None)]);
}

#[test]
fn a_reset_on_command_resets_both_sides_and_delivers_no_more() {
    let (addr, server) = serve(1, |mut stream| {
        let mut question = [0; 4];
        stream.read_exact(&mut question).unwrap();
        let _ = stream.write_all(&pattern(10_000));
        read_to_any_end(&mut stream).1
    });
    let proxy = proxy_to(addr);
    let mut stream = connect(&proxy);
    wait_for(&proxy, |stats| stats.connections == 1);
    let fault = Fault::ResetAfter { direction: Direction::Down, bytes: 100 };
    proxy.fault(fault, Scope::Connection(0));
    stream.write_all(b"ping").unwrap();
    let (received, error) = read_to_any_end(&mut stream);
    assert!(received.len() <= 100 && pattern(10_000).starts_with(&received));
    assert_eq!(error, Some(ErrorKind::ConnectionReset));
    assert_eq!(server.join().unwrap(), [Some(ErrorKind::ConnectionReset)]);
}

#[test]
fn a_stalled_direction_delivers_nothing_until_resumed() {
    let proxy = proxy_to(echo_server());
    let mut stream = connect(&proxy);
    round_trip(&mut stream, 10);
    for direction in [Direction::Up, Direction::Down] {
        proxy.fault(Fault::Stall { direction }, Scope::All);
        proxy.reset_stats();
        stream.write_all(b"held back").unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut reply = [0; 9];
        // Many turns of the proxy, and with the down direction stalled also the echo's own time.
        let wish = |stats: &Stats| direction == Direction::Up || stats.bytes_up == 9;
        wait_for(&proxy, wish);
        for _ in 0..1000 {
            assert_eq!(proxy.stats().bytes_down, 0);
        }
        assert_eq!(stream.peek(&mut reply).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(proxy.stats().bytes_up, if direction == Direction::Up { 0 } else { 9 });
        stream.set_nonblocking(false).unwrap();
        proxy.fault(Fault::Resume { direction }, Scope::All);
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"held back");
    }
}

#[test]
fn clearing_the_faults_resumes_and_frees_future_connections() {
    let proxy = proxy_to(echo_server());
    proxy.fault(Fault::Stall { direction: Direction::Down }, Scope::All);
    proxy.fault(Fault::CutAfter { direction: Direction::Up, bytes: 100 }, Scope::All);
    let mut stream = connect(&proxy);
    stream.write_all(&[1; 50]).unwrap();
    wait_for(&proxy, |stats| stats.bytes_up == 50);
    proxy.clear_faults();
    stream.read_exact(&mut [0; 50]).unwrap();
    round_trip(&mut stream, 1000);
    round_trip(&mut connect(&proxy), 1000);
}

#[test]
fn one_byte_at_a_time_is_intact() {
    let proxy = Proxy::start(ProxyConfig::new(echo_server()).with_rtt(MS)).unwrap();
    for direction in [Direction::Up, Direction::Down] {
        proxy.fault(Fault::ByteAtATime { direction, on: true }, Scope::Future);
    }
    let sent = pattern(20_000);
    assert!(send_and_read_all(connect(&proxy), sent.clone()) == sent);
}

#[test]
fn trips_of_sequential_and_pipelined_conversations_are_counted() {
    for rtt in [Duration::ZERO, 2 * MS] {
        let proxy = Proxy::start(ProxyConfig::new(echo_server()).with_rtt(rtt)).unwrap();
        let mut stream = connect(&proxy);
        for _ in 0..20 {
            round_trip(&mut stream, 10);
        }
        assert_eq!(proxy.stats().trips, 20);
        proxy.reset_stats();
        assert_eq!(proxy.stats(), Stats { open: proxy.stats().open, ..Stats::default() });
        // Pipelined: twenty requests in twenty writes whose replies are held until all were
        // written.
        proxy.fault(Fault::Stall { direction: Direction::Down }, Scope::Present);
        for _ in 0..20 {
            stream.write_all(&[2; 10]).unwrap();
        }
        wait_for(&proxy, |stats| stats.bytes_up == 200);
        proxy.fault(Fault::Resume { direction: Direction::Down }, Scope::Present);
        stream.read_exact(&mut [0; 200]).unwrap();
        assert_eq!(proxy.stats().trips, 1);
        round_trip(&mut stream, 10);
        let stats = proxy.stats();
        assert_eq!((stats.trips, stats.open[0].trips), (2, 2));
        drop(stream);
        assert_eq!(wait_for(&proxy, |stats| stats.open.is_empty()).trips, 2);
    }
}

#[test]
fn a_recording_has_what_left_and_when_it_arrived() {
    let proxy = Proxy::start(ProxyConfig::new(echo_server()).with_rtt(4 * MS)).unwrap();
    let mut stream = connect(&proxy);
    round_trip(&mut stream, 5);
    proxy.record();
    for bytes in [10, 20] {
        round_trip(&mut stream, bytes);
    }
    let passages = proxy.recorded();
    let ways: Vec<(Direction, usize)> =
        passages.iter().map(|it| (it.direction, it.bytes)).collect();
    let (up, down) = (Direction::Up, Direction::Down);
    assert_eq!(ways, [(up, 10), (down, 10), (up, 20), (down, 20)]);
    for passage in &passages {
        assert!(passage.arrived >= passage.left + 2 * MS, "{passage:?}");
        assert_eq!(passage.head.len(), passage.bytes);
    }
    // Nothing leaves before what it answers has arrived.
    assert!(passages.windows(2).all(|pair| pair[0].arrived <= pair[1].left), "{passages:?}");
    round_trip(&mut stream, 5);
    assert_eq!(proxy.recorded(), []);
}

#[test]
fn trips_on_several_connections_at_once_are_told_from_those_that_were_waited_for() {
    let proxy = proxy_to(echo_server());
    let (mut one, mut other) = (connect(&proxy), connect(&proxy));
    let counts = || (proxy.stats().trips, proxy.stats().side_by_side);
    for _ in 0..3 {
        round_trip(&mut one, 2);
        round_trip(&mut other, 2);
    }
    assert_eq!(counts(), (6, 0));
    proxy.fault(Fault::Stall { direction: Direction::Down }, Scope::All);
    for client in [&mut one, &mut other] {
        client.write_all(b"at once").unwrap();
        // Asking for the counts lets the proxy read what was written.
        proxy.stats();
    }
    assert_eq!(counts(), (8, 2));
    proxy.clear_faults();
    for client in [&mut one, &mut other] {
        client.read_exact(&mut [0; 7]).unwrap();
    }
    round_trip(&mut one, 2);
    assert_eq!(counts(), (9, 2));
    proxy.reset_stats();
    assert_eq!(counts(), (0, 0));
}

#[test]
fn a_trip_that_begins_while_bytes_of_its_connection_are_on_the_line_is_side_by_side() {
    let (addr, server) = serve(1, |stream| stream);
    let proxy = proxy_to(addr);
    let mut client = connect(&proxy);
    client.write_all(b"1").unwrap();
    let mut server = server.join().unwrap().remove(0);
    server.read_exact(&mut [0]).unwrap();
    server.write_all(b"1").unwrap();
    client.read_exact(&mut [0]).unwrap();
    proxy.set_links(Link::delayed(Duration::from_secs(60)), Link::default()).unwrap();
    client.write_all(b"2").unwrap();
    assert_eq!((proxy.stats().trips, proxy.stats().side_by_side), (2, 0));
    // An unsolicited message ends the trip, whose bytes are still on their way.
    server.write_all(b"!").unwrap();
    client.read_exact(&mut [0]).unwrap();
    client.write_all(b"3").unwrap();
    assert_eq!((proxy.stats().trips, proxy.stats().side_by_side), (3, 1));
}

#[test]
fn bytes_written_before_a_mark_do_not_open_a_trip_after_it() {
    let proxy = Proxy::start(ProxyConfig::new(echo_server()).with_rtt(MS)).unwrap();
    let mut stream = connect(&proxy);
    for _ in 0..50 {
        stream.write_all(b"before").unwrap();
        proxy.reset_stats();
        stream.read_exact(&mut [0; 6]).unwrap();
        assert_eq!(proxy.stats().trips, 0);
    }
    round_trip(&mut stream, 10);
    assert_eq!(proxy.stats().trips, 1);
}

#[test]
fn links_can_be_replaced_while_bytes_are_on_the_line() {
    let proxy = Proxy::start(ProxyConfig::new(echo_server()).with_rtt(20 * MS)).unwrap();
    let mut stream = connect(&proxy);
    stream.write_all(b"slow ").unwrap();
    proxy.set_links(Link::default(), Link::default()).unwrap();
    stream.write_all(b"fast").unwrap();
    let mut reply = [0; 9];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"slow fast");
    let jittery = Link { jitter: MS, ..Link::default() };
    assert_eq!(proxy.set_links(jittery, jittery).unwrap_err().kind(), ErrorKind::InvalidInput);
    round_trip(&mut stream, 10);
}

#[test]
fn an_unreachable_upstream_resets_the_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    for upstream in [Upstream::Tcp(addr), Upstream::Unix(folder.path().join("nobody"))] {
        let proxy = Proxy::start(ProxyConfig::new(upstream)).unwrap();
        let mut stream = connect(&proxy);
        let (bytes, error) = read_to_any_end(&mut stream);
        assert_eq!((bytes.len(), error), (0, Some(ErrorKind::ConnectionReset)));
        let stats = wait_for(&proxy, |stats| stats.open.is_empty());
        assert_eq!(stats.connections, 1);
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let good = ProxyConfig::new(SocketAddr::from(([127, 0, 0, 1], 1)));
    let link = Link { jitter: 2 * MS, ..Link::delayed(MS) };
    let cases = [
        (ProxyConfig { listen: "0.0.0.0:0".parse().unwrap(), ..good.clone() }, "loopback"),
        (ProxyConfig { listen: "192.0.2.1:0".parse().unwrap(), ..good.clone() }, "loopback"),
        (ProxyConfig { listen: "[::]:0".parse().unwrap(), ..good.clone() }, "loopback"),
        (ProxyConfig { up: link, ..good.clone() }, "jitter"),
        (ProxyConfig { down: Link { bandwidth: Some(0), ..link }, ..good.clone() }, "down link"),
        (ProxyConfig { up: Link::delayed(61_000 * MS), ..good.clone() }, "limit"),
        (ProxyConfig { buffer_max: Some(0), ..good }, "buffer_max"),
    ];
    for (config, word) in cases {
        let error = Proxy::start(config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(word), "{error}");
    }
}

/// What a tap was shown: the bytes of both directions, their stamps, and what else happened.
#[derive(Debug, Default)]
struct Seen {
    up: Vec<u8>,
    down: Vec<u8>,
    stamps: Vec<u64>,
    events: Vec<&'static str>,
}

#[derive(Debug, Default)]
struct Watching(Mutex<Seen>);

impl Tap for Watching {
    fn opened(&self, _: u64, _: Duration) {
        self.0.lock().unwrap().events.push("opened");
    }

    fn passed(&self, _: u64, direction: Direction, at_ns: u64, bytes: &[u8]) {
        let mut seen = self.0.lock().unwrap();
        seen.stamps.push(at_ns);
        match direction {
            Direction::Up => seen.up.extend(bytes),
            Direction::Down => seen.down.extend(bytes),
        }
        assert!(seen.down.len() <= seen.up.len(), "an echo was shown before its request");
    }

    fn closed(&self, _: u64) {
        self.0.lock().unwrap().events.push("closed");
    }
}

#[test]
fn a_tap_is_shown_every_byte_in_order() {
    for link in [Link::default(), Link { bandwidth: Some(200_000_000), ..Link::delayed(MS) }] {
        let tap = Arc::new(Watching::default());
        let config = ProxyConfig { up: link, down: link, ..ProxyConfig::new(echo_server()) };
        let proxy = Proxy::start(ProxyConfig { tap: Some(tap.clone()), ..config }).unwrap();
        let sent = pattern(3_000_000);
        let received = send_and_read_all(connect(&proxy), sent.clone());
        wait_for(&proxy, |stats| stats.open.is_empty());
        let seen = tap.0.lock().unwrap();
        assert!(received == sent && seen.up == sent && seen.down == sent);
        assert!(seen.stamps.is_sorted());
        assert_eq!(seen.events, ["opened", "closed"]);
    }
}

#[test]
fn other_machines_can_connect_only_where_that_is_said() {
    let config =
        ProxyConfig { listen: "0.0.0.0:0".parse().unwrap(), ..ProxyConfig::new(echo_server()) };
    let proxy = Proxy::start(ProxyConfig { beyond_loopback: true, ..config }).unwrap();
    let here = SocketAddr::from(([127, 0, 0, 1], proxy.addr().port()));
    round_trip(&mut prepared(TcpStream::connect(here).unwrap()), 10);
}

#[test]
fn dropping_the_proxy_ends_its_connections() {
    let proxy = proxy_to(echo_server());
    let mut stream = connect(&proxy);
    round_trip(&mut stream, 10);
    drop(proxy);
    assert!(read_to_any_end(&mut stream).0.is_empty());
}

#[test]
fn the_self_check_measures_and_prints_every_figure() {
    let config = SelfCheckConfig { rtt: MS, samples: 10, bulk_bytes: 4 << 20, bulk_runs: 1 };
    let check = self_check(&config).unwrap();
    assert!(check.delayed >= MS && check.base > Duration::ZERO && check.bulk_delayed > 0.0);
    let text = check.to_string();
    assert!(text.contains("ms configured") && text.contains("MB/s"), "{text}");
}
