//! Captures of sessions: files of packets, with all that befalls packets.

use onetrip_profile::{Nanos, Side};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus as Random;

use super::flight::Act;

/// How a capture is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) is_ng: bool,
    pub(crate) is_big_endian: bool,
    pub(crate) is_nanos: bool,
    pub(crate) link: Link,
    pub(crate) is_v6: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    Raw,
    Sll,
    Sll2,
}

impl Form {
    pub(crate) fn random(random: &mut Random) -> Form {
        let bits = random.next_u64();
        let link = [Link::Ethernet, Link::Raw, Link::Sll, Link::Sll2][(bits >> 8) as usize % 4];
        Form {
            is_ng: bits & 1 > 0,
            is_big_endian: bits & 2 > 0,
            is_nanos: bits & 4 > 0,
            link,
            is_v6: bits & 8 > 0,
        }
    }

    fn u32(self, number: u32) -> [u8; 4] {
        if self.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn u16(self, number: u16) -> [u8; 2] {
        if self.is_big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    /// A file of packets in the order of their times.
    pub(crate) fn file(self, packets: &[(Nanos, Vec<u8>)]) -> Vec<u8> {
        let link = match self.link {
            Link::Ethernet => 1_u16,
            Link::Raw => 101,
            Link::Sll => 113,
            Link::Sll2 => 276,
        };
        let mut file = if self.is_ng { self.ng_head(link) } else { self.head(link) };
        for (at, packet) in packets {
            file.extend(if self.is_ng {
                self.ng_block(*at, packet)
            } else {
                self.record(*at, packet)
            });
        }
        file
    }

    fn head(self, link: u16) -> Vec<u8> {
        let magic = if self.is_nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let versions = [self.u16(2), self.u16(4)].concat();
        let rest = [0, 0, 262_144, u32::from(link)].map(|it| self.u32(it)).concat();
        [&self.u32(magic)[..], &versions, &rest].concat()
    }

    fn record(self, at: Nanos, packet: &[u8]) -> Vec<u8> {
        let part = at % 1_000_000_000 / if self.is_nanos { 1 } else { 1000 };
        let len = packet.len() as u32;
        let head = [(at / 1_000_000_000) as u32, part as u32, len, len].map(|it| self.u32(it));
        [&head.concat()[..], packet].concat()
    }

    fn ng(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padding = vec![0; (4 - body.len() % 4) % 4];
        let len = self.u32((12 + body.len() + padding.len()) as u32);
        [&self.u32(kind)[..], &len, body, &padding, &len].concat()
    }

    fn ng_head(self, link: u16) -> Vec<u8> {
        let section = [&self.u32(0x1a2b_3c4d)[..], &self.u16(1), &self.u16(0), &[0xff; 8]].concat();
        // The option if_tsresol: nanoseconds.
        let resolution = match self.is_nanos {
            true => [&self.u16(9)[..], &self.u16(1), &[9, 0, 0, 0], &[0; 4]].concat(),
            false => Vec::new(),
        };
        let interface = [&self.u16(link)[..], &[0, 0], &self.u32(262_144), &resolution].concat();
        [self.ng(0x0a0d_0d0a, &section), self.ng(1, &interface)].concat()
    }

    fn ng_block(self, at: Nanos, packet: &[u8]) -> Vec<u8> {
        let ticks = at / if self.is_nanos { 1 } else { 1000 };
        let len = packet.len() as u32;
        let head = [0, (ticks >> 32) as u32, ticks as u32, len, len].map(|it| self.u32(it));
        self.ng(6, &[&head.concat()[..], packet].concat())
    }
}

/// Flags of TCP.
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A connection as packets.
pub(crate) struct Wire {
    form: Form,
    random: Random,
    client_port: u16,
    server_port: u16,
    /// The next numbers of client and server.
    next: [u32; 2],
    at: Nanos,
    pub(crate) packets: Vec<(Nanos, Vec<u8>)>,
}

impl Wire {
    pub(crate) fn new(form: Form, mut random: Random, client_port: u16, at: Nanos) -> Wire {
        // Numbers of some wrap soon.
        let first = |bits: u64| {
            if bits & 1 > 0 { u32::MAX - (bits >> 40) as u32 % 500 } else { bits as u32 }
        };
        let next = [first(random.next_u64()), first(random.next_u64())];
        Wire { form, random, client_port, server_port: 5432, next, at, packets: Vec::new() }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// A whole connection; none of what befalls it makes a difference.
    pub(crate) fn connection(&mut self, acts: &[Act]) {
        self.handshake();
        for act in acts {
            self.at += act.after;
            self.act(act.from, &act.bytes);
        }
        match self.below(4) {
            0 => self.put(Side::Client, self.next[0], RST | ACK, &[]),
            1 => {}
            _ => {
                self.put(Side::Client, self.next[0], FIN | ACK, &[]);
                self.next[0] = self.next[0].wrapping_add(1);
                self.put(Side::Server, self.next[1], FIN | ACK, &[]);
                self.next[1] = self.next[1].wrapping_add(1);
                self.put(Side::Client, self.next[0], ACK, &[]);
            }
        }
    }

    fn handshake(&mut self) {
        let [client, server] = self.next;
        if self.below(5) == 0 {
            self.put(Side::Client, client, SYN, &[]);
        }
        self.put(Side::Client, client, SYN, &[]);
        self.next[0] = client.wrapping_add(1);
        self.put(Side::Server, server, SYN | ACK, &[]);
        self.next[1] = server.wrapping_add(1);
        self.put(Side::Client, self.next[0], ACK, &[]);
    }

    fn act(&mut self, from: Side, bytes: &[u8]) {
        let own = if from == Side::Client { 0 } else { 1 };
        let start = self.next[own];
        let mut cuts = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let len_max = [3, 40, 1460][self.below(3) as usize];
            let end = (at + 1 + self.below(len_max) as usize).min(bytes.len());
            cuts.push((at, end));
            at = end;
        }
        // Some come out of order, some twice, some overlap what came before.
        let mut order = cuts.clone();
        for at in 1..order.len() {
            if self.below(5) == 0 {
                order.swap(at - 1, at);
            }
        }
        for (begin, end) in order {
            let begin = if self.below(8) == 0 { begin.saturating_sub(7) } else { begin };
            let sequence = start.wrapping_add(begin as u32);
            for _ in 0..1 + u64::from(self.below(8) == 0) {
                self.put(from, sequence, ACK, &bytes[begin..end]);
            }
        }
        self.next[own] = start.wrapping_add(bytes.len() as u32);
        let to = if from == Side::Client { Side::Server } else { Side::Client };
        if self.below(2) == 0 {
            self.put(to, self.next[1 - own], ACK, &[]);
        }
        // A keep-alive, which repeats the last byte or none.
        if self.below(8) == 0 {
            let last = self.next[own].wrapping_sub(1);
            let len = self.below(2) as usize;
            self.put(from, last, ACK, &bytes[bytes.len() - len..]);
        }
        // All of it again, later.
        if self.below(20) == 0 {
            self.put(from, start, ACK, &bytes[..bytes.len().min(1460)]);
        }
    }

    fn put(&mut self, from: Side, sequence: u32, flags: u8, payload: &[u8]) {
        self.at += 1000;
        let own = if from == Side::Client { 0 } else { 1 };
        let acknowledged = if flags & ACK > 0 { self.next[1 - own] } else { 0 };
        let ports = [self.client_port, self.server_port];
        let window: u16 = if self.below(10) == 0 { 0 } else { 500 };
        let tcp = [
            &ports[own].to_be_bytes()[..],
            &ports[1 - own].to_be_bytes(),
            &sequence.to_be_bytes(),
            &acknowledged.to_be_bytes(),
            &[0x50, flags],
            &window.to_be_bytes(),
            &[0; 4],
            payload,
        ]
        .concat();
        let packet = self.form.packet(own as u8, &tcp);
        self.packets.push((self.at, packet));
    }
}

impl Form {
    fn packet(self, own: u8, tcp: &[u8]) -> Vec<u8> {
        let (from, to) = (10 + own, 11 - own);
        let ip = if self.is_v6 {
            let address = |last: u8| [&[0xfd; 15][..], &[last]].concat();
            let len = (tcp.len() as u16).to_be_bytes();
            [&[0x60, 0, 0, 0][..], &len, &[6, 64], &address(from), &address(to), tcp].concat()
        } else {
            let len = (tcp.len() as u16 + 20).to_be_bytes();
            let head =
                [0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to];
            [&head[..], tcp].concat()
        };
        let kind: [u8; 2] = if self.is_v6 { [0x86, 0xdd] } else { [8, 0] };
        match self.link {
            Link::Raw => ip,
            Link::Ethernet => {
                let mut frame = [&[2; 12][..], &kind, &ip].concat();
                // Short frames are padded.
                frame.resize(frame.len().max(60), 0);
                frame
            }
            Link::Sll => [&[0; 14][..], &kind, &ip].concat(),
            Link::Sll2 => [&kind[..], &[0; 18], &ip].concat(),
        }
    }
}
