//! The policy of a cluster, over simulated nodes.

use bytes::BytesMut;
use onetrip_abi::Cluster;
use onetrip_abi::completion::{Completion, cluster_why, kind, outcome};
use onetrip_abi::export_cluster::*;
use onetrip_redis::Command;

/// A completion of a cluster, with a copy of its block.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    kind: u32,
    token: u32,
    a: u32,
    b: u32,
    block: Vec<u8>,
}

struct Host {
    cluster: *mut Cluster,
    now: f64,
}

/// Two masters, each with half of the slots.
const SLOTS: &str = "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$1\r\na\r\n:1\r\n\
                     *3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nb\r\n:2\r\n";

fn wire(commands: &[&str]) -> Vec<u8> {
    let mut out = BytesMut::new();
    commands.iter().for_each(|text| Command::new("").args(text.split(' ')).encode(&mut out));
    out.to_vec()
}

impl Host {
    /// A cluster whose nodes are known: 1 and 2.
    fn new() -> Host {
        let mut host = Host { cluster: onetrip_cluster(), now: 1.0 };
        host.time(0.0);
        assert_eq!(host.said()[0].kind, kind::CLUSTER_ASK);
        assert!(host.topology(SLOTS));
        let opened = host.said();
        assert_eq!(opened.iter().map(|it| (it.a, it.b)).collect::<Vec<_>>(), [(1, 1), (2, 2)]);
        host
    }

    fn said(&mut self) -> Vec<Said> {
        // SAFETY: the cluster lives; completions are valid until the next take.
        let records: Vec<Completion> = unsafe {
            let count = onetrip_cluster_take(self.cluster);
            (0..count).map(|at| *onetrip_cluster_completions(self.cluster).add(at)).collect()
        };
        let copy = |it: Completion| Said {
            kind: it.kind,
            token: it.token,
            a: it.a,
            b: it.b,
            block: match it.len {
                0 => Vec::new(),
                // SAFETY: as above.
                len => unsafe { std::slice::from_raw_parts(it.block, len) }.to_vec(),
            },
        };
        records.into_iter().map(copy).collect()
    }

    fn time(&mut self, passes: f64) {
        self.now += passes;
        // SAFETY: the cluster lives.
        unsafe { onetrip_cluster_time(self.cluster, self.now) }
    }

    fn topology(&mut self, reply: &str) -> bool {
        // SAFETY: the cluster lives, and so do the texts.
        unsafe {
            let (start, len) = (reply.as_ptr(), reply.len());
            onetrip_cluster_topology(self.cluster, self.now, start, len, b"h".as_ptr(), 1, 1)
        }
    }

    fn submit(&mut self, token: u32, flags: u32, commands: &[u8], timeout: f64) {
        let (start, len) = (commands.as_ptr(), commands.len());
        // SAFETY: the cluster lives, and so do the commands.
        unsafe {
            onetrip_cluster_submit(self.cluster, self.now, token, flags, start, len, timeout);
        }
    }

    fn replied(&mut self, flight: u32, reply: &str, is_list: bool) -> bool {
        let (start, len) = (reply.as_ptr(), reply.len());
        // SAFETY: the cluster lives, and so does the reply.
        unsafe { onetrip_cluster_replied(self.cluster, self.now, flight, start, len, is_list) }
    }

    fn unanswered(&mut self, flight: u32, why: u32, outcome: u32) {
        // SAFETY: the cluster lives.
        unsafe { onetrip_cluster_unanswered(self.cluster, self.now, flight, why, outcome) }
    }

    fn command(&mut self, flight: u32) -> Vec<u8> {
        // SAFETY: the cluster lives, and the buffer is as long as it asks for.
        unsafe {
            let len = onetrip_cluster_write(self.cluster, flight, std::ptr::null_mut());
            let mut room = vec![0; len];
            assert_eq!(onetrip_cluster_write(self.cluster, flight, room.as_mut_ptr()), len);
            room
        }
    }
}

fn onetrip_cluster() -> *mut Cluster {
    // SAFETY: it takes no pointer.
    unsafe { onetrip_cluster_new(5, 100, 1_000.0, 7.0) }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { onetrip_cluster_free(self.cluster) }
    }
}

// "a" is in slot 15495, "b" in 3300.
#[test]
fn a_command_goes_where_its_keys_are_and_on_from_there() {
    let mut host = Host::new();
    host.submit(7, 0, &wire(&["GET a"]), 0.0);
    let [sent] = &host.said()[..] else { panic!("one is sent") };
    assert_eq!((sent.kind, sent.token, sent.b), (kind::CLUSTER_SEND, 7, 2));
    let flight = sent.a;
    assert_eq!(host.command(flight), wire(&["GET a"]));
    assert!(!host.replied(flight, "-ASK 15495 a:1\r\n", false));
    let [sent] = &host.said()[..] else { panic!("it goes on") };
    assert_eq!((sent.kind, sent.token, sent.b), (kind::CLUSTER_SEND_ASKING, 7, 1));
    let flight = sent.a;
    assert!(host.replied(flight, "$1\r\nx\r\n", false), "it is the answer where it lies");
    assert!(!host.replied(flight, "$1\r\nx\r\n", false), "it has ended");
    assert!(host.said().is_empty());
}

#[test]
fn what_is_split_is_sent_in_parts_and_put_together() {
    let mut host = Host::new();
    host.submit(1, 0, &wire(&["MGET a b a"]), 0.0);
    let sent = host.said();
    assert_eq!(sent.iter().map(|it| it.b).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(host.command(sent[0].a), wire(&["MGET a a"]));
    assert_eq!(host.command(sent[1].a), wire(&["MGET b"]));
    assert!(!host.replied(sent[1].a, "*1\r\n:2\r\n", false));
    assert!(!host.replied(sent[0].a, "*2\r\n:1\r\n:3\r\n", false));
    let [ended] = &host.said()[..] else { panic!("it has ended") };
    assert_eq!(
        (ended.kind, &ended.block[..]),
        (kind::CLUSTER_REPLY, &b"*3\r\n:1\r\n:2\r\n:3\r\n"[..])
    );
}

#[test]
fn what_runs_as_a_whole_is_the_hosts_and_goes_where_all_its_keys_are() {
    let mut host = Host::new();
    host.submit(1, flag::WHOLE, &wire(&["MULTI", "SET {b}1 x", "INCR {b}2", "EXEC"]), 0.0);
    let [sent] = &host.said()[..] else { panic!("it is sent") };
    assert_eq!(sent.b, 1);
    let moved = "+OK\r\n-MOVED 3300 b:2\r\n+QUEUED\r\n-EXECABORT no\r\n";
    assert!(!host.replied(sent.a, moved, true));
    let sent = host.said().into_iter().find(|it| it.kind == kind::CLUSTER_SEND).unwrap();
    assert_eq!((sent.token, sent.b), (1, 2));
    assert!(host.replied(sent.a, "+OK\r\n+OK\r\n+OK\r\n+OK\r\n", true));
    host.submit(2, flag::WHOLE, &wire(&["MULTI", "SET a x", "INCR b", "EXEC"]), 0.0);
    let [refused] = &host.said()[..] else { panic!("it is refused") };
    let numbers = (refused.kind, refused.token, refused.a, refused.b);
    let cross = (kind::CLUSTER_FAILED, 2, cluster_why::CROSS_SLOT, outcome::NOT_SENT);
    assert_eq!(numbers, cross);
}

#[test]
fn what_has_no_reply_ends_by_what_its_host_says() {
    let mut host = Host::new();
    for (why, ends) in [
        (unanswered::LOST, cluster_why::LOST),
        (unanswered::EXPIRED, cluster_why::DEADLINE),
        (unanswered::TAKEN_BACK, cluster_why::GIVEN_UP),
    ] {
        host.submit(1, 0, &wire(&["INCR a"]), 0.0);
        let sent = host.said();
        host.unanswered(sent.last().unwrap().a, why, outcome::UNKNOWN);
        let ended = host.said().into_iter().find(|it| it.kind == kind::CLUSTER_FAILED).unwrap();
        assert_eq!((ended.token, ended.a), (1, ends));
    }
    host.submit(1, flag::OWN, &wire(&["BLPOP a 0"]), 0.0);
    let [sent] = &host.said()[..] else { panic!("it is sent") };
    let flight = sent.a;
    // SAFETY: the cluster lives.
    unsafe { onetrip_cluster_give_up(host.cluster, host.now, 1) };
    let [ended] = &host.said()[..] else { panic!("it has ended") };
    assert_eq!((ended.a, ended.b), (cluster_why::GIVEN_UP, outcome::UNKNOWN));
    host.unanswered(flight, unanswered::LOST, outcome::UNKNOWN);
    // SAFETY: the cluster lives.
    unsafe { onetrip_cluster_close(host.cluster) };
    host.submit(2, 0, &wire(&["PUBLISH c m"]), 0.0);
}

#[test]
fn what_is_no_topology_is_none() {
    let mut host = Host { cluster: onetrip_cluster(), now: 1.0 };
    host.submit(1, 0, &wire(&["GET a"]), 100.0);
    assert_eq!(host.said()[0].kind, kind::CLUSTER_ASK);
    assert!(!host.topology("$2\r\nno\r\n"));
    let [ended] = &host.said()[..] else { panic!("nobody waits for another") };
    assert_eq!((ended.a, ended.b), (cluster_why::UNSERVED, outcome::NOT_SENT));
    // SAFETY: the cluster lives.
    unsafe {
        assert_eq!(onetrip_cluster_node_at(host.cluster, 7), 0);
        assert!(onetrip_cluster_deadline(host.cluster) < f64::INFINITY);
    }
}

#[test]
fn numbers_and_bytes_that_are_none_change_nothing() {
    let mut host = Host::new();
    for number in [0, 1, 77, u32::MAX] {
        assert!(!host.replied(number, "+OK\r\n", false) && !host.replied(number, "", true));
        host.unanswered(number, number, number);
        assert!(host.command(number).is_empty());
    }
    for (token, bytes) in ["", "*", "*1\r\n$9\r\nGET", "*2\r\n$-1\r\n"].into_iter().enumerate() {
        host.submit(token as u32, u32::MAX, bytes.as_bytes(), f64::NAN);
        host.submit(token as u32, 0, bytes.as_bytes(), -1.0);
    }
    for said in host.said() {
        if said.kind == kind::CLUSTER_SEND {
            host.replied(said.a, "*9\r\n-", true);
        }
    }
}

/// What nodes send, and what they never should send.
const REPLIES: [&str; 14] = [
    "+OK\r\n",
    ":1\r\n",
    "*2\r\n:1\r\n:2\r\n",
    "-MOVED 15495 a:1\r\n",
    "-MOVED 3300 b:2\r\n",
    "-ASK 15495 a:1\r\n",
    "-MOVED 3300 elsewhere:9\r\n",
    "-TRYAGAIN later\r\n",
    "-CLUSTERDOWN no\r\n",
    "-UNBLOCKED force\r\n",
    "-NOSCRIPT No matching script\r\n",
    "!5\r\n",
    "*99999999999\r\n",
    "",
];

const TOPOLOGIES: [&str; 4] = [
    SLOTS,
    "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:1\r\n",
    "*1\r\n*3\r\n:0\r\n:100\r\n*2\r\n$1\r\nc\r\n:3\r\n",
    "*1\r\n*1\r\n:7\r\n",
];

const COMMANDS: [(&str, u32); 8] = [
    ("GET a", 0),
    ("INCR b", flag::REPEATABLE),
    ("MGET a b", flag::FROM_REPLICA),
    ("DBSIZE", 0),
    ("PUBLISH c m", 0),
    ("BLPOP a 0", flag::OWN),
    ("EVAL  1 a", flag::WHOLE),
    ("KEYS *", 0),
];

struct Random(u64);

impl Random {
    fn of<T: Copy>(&mut self, some: &[T]) -> T {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        some[(self.0 >> 33) as usize % some.len()]
    }
}

#[test]
fn each_command_ends_once_whatever_nodes_and_callers_do() {
    for seed in 0..100 {
        let (mut host, mut random) = (Host::new(), Random(seed));
        let (mut flights, mut open, mut asked) = (Vec::new(), Vec::new(), false);
        for step in 1..400 {
            match random.of(&[0, 0, 0, 1, 1, 1, 1, 2, 3, 4, 5]) {
                0 => {
                    let (text, flags) = random.of(&COMMANDS);
                    let timeout = random.of(&[0.0, 50.0]);
                    host.submit(step, flags, &wire(&[text]), timeout);
                    open.push(step);
                }
                1 if !flights.is_empty() => {
                    let (flight, token) = flights.remove(random.of(&[0, flights.len() - 1]));
                    let reply = random.of(&REPLIES);
                    if host.replied(flight, reply, random.of(&[false, false, true])) {
                        assert!(open.contains(&token), "{seed}: {token} ended twice");
                        open.retain(|it| *it != token);
                    }
                }
                2 if !flights.is_empty() => {
                    let (flight, _) = flights.remove(0);
                    host.unanswered(flight, random.of(&[0, 1, 2]), random.of(&[1, 2, 4]));
                }
                3 if asked => {
                    asked = false;
                    host.topology(random.of(&TOPOLOGIES));
                }
                // SAFETY: the cluster lives.
                4 => unsafe {
                    onetrip_cluster_give_up(
                        host.cluster,
                        host.now,
                        random.of(&[step - 1, step / 2]),
                    );
                },
                _ => host.time(random.of(&[1.0, 20.0, 400.0])),
            }
            listen(&mut host, &mut flights, &mut open, &mut asked);
        }
        // SAFETY: the cluster lives.
        unsafe { onetrip_cluster_close(host.cluster) };
        listen(&mut host, &mut flights, &mut open, &mut asked);
        while let Some((flight, _)) = flights.pop() {
            host.unanswered(flight, unanswered::LOST, outcome::NOT_SENT);
            listen(&mut host, &mut flights, &mut open, &mut asked);
        }
        assert_eq!(open, [], "{seed}: some did not end");
    }
}

fn listen(host: &mut Host, flights: &mut Vec<(u32, u32)>, open: &mut Vec<u32>, asked: &mut bool) {
    for said in host.said() {
        match said.kind {
            kind::CLUSTER_SEND | kind::CLUSTER_SEND_ASKING => flights.push((said.a, said.token)),
            kind::CLUSTER_ASK => *asked = true,
            kind::CLUSTER_REPLY | kind::CLUSTER_ERROR | kind::CLUSTER_FAILED => {
                assert!(open.contains(&said.token), "{} ended twice", said.token);
                open.retain(|it| *it != said.token);
            }
            _ => {}
        }
    }
}
