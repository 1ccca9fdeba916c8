//! Captures of traffic, pcap and pcapng, as a source.
//!
//! pcap-parser reads the files and etherparse the packets; both are maintained, under MIT or
//! Apache-2.0, and copy nothing. Streams of TCP are put together in `tcp`.

mod tcp;

use std::fmt;
use std::io::Read;

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};

use crate::Profiler;
use crate::piece::Nanos;
use tcp::{Address, Segment, Streams};

/// What was read of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Packets of all kinds.
    pub packets: u64,
    /// Packets with data of TCP, and their bytes.
    pub segments: u64,
    /// See `segments`.
    pub bytes: u64,
    /// Packets that are not of TCP over IP, or fragments, or make no sense.
    pub other: u64,
    /// Packets of links that are not known.
    pub unknown_links: u64,
    /// Connections of TCP.
    pub connections: u64,
    /// Packets with data of connections beyond those that are followed at once.
    pub ignored: u64,
    /// Packets that were cut when they were captured, so that their ends are missing.
    pub cut: u64,
    /// Holes in streams: what was sent there was not captured.
    pub holes: u64,
    /// The capture ended within a packet.
    pub is_cut: bool,
}

impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Captured { packets, segments, bytes, connections, .. } = self;
        write!(
            f,
            "{packets} packets, {segments} of them with {bytes} bytes of {connections} connections"
        )?;
        let mut and = |count: u64, what: &str| match count {
            0 => Ok(()),
            count => write!(f, "; {count} {what}"),
        };
        and(self.other, "other packets")?;
        and(self.unknown_links, "packets of links that are not read")?;
        and(self.cut, "packets were cut short by the capture (tcpdump -s 0 keeps them whole)")?;
        and(self.holes, "holes where packets were not captured")?;
        and(self.ignored, "packets of connections beyond the 100,000 that are followed at once")?;
        if self.is_cut { write!(f, "; the capture ends within a packet") } else { Ok(()) }
    }
}

/// Why a capture can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureError {
    /// It is empty, or ends within its header.
    Empty,
    /// It is compressed.
    Compressed,
    /// It is neither pcap nor pcapng.
    NoCapture,
    /// Its packets are of a link that is not known, by its number in the registry of tcpdump.
    Link(i32),
    /// It could not be read.
    Io,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaptureError::Empty => f.write_str("the capture is empty, or ends within its header"),
            CaptureError::Compressed => f.write_str(
                "the capture is compressed: unpack it on the way, as in \
                 `gunzip -c FILE | onetrip profile --pcap -` (zstd -dc for zstd)",
            ),
            CaptureError::NoCapture => f.write_str(
                "this is no capture: pcap and pcapng are read, as tcpdump -w writes them",
            ),
            CaptureError::Link(number) => write!(
                f,
                "the capture is of a link of type {number}, which is not read: capture on an \
                 Ethernet interface, on lo or on any"
            ),
            CaptureError::Io => f.write_str("the capture could not be read"),
        }
    }
}

impl std::error::Error for CaptureError {}

/// Bytes of the buffer, and those that it grows to: the longest block that can be read.
const BUFFER: usize = 64 << 10;
const BUFFER_MAX: usize = 1 << 20;

/// Reads a capture to its end. `ports` are those of servers whose connections began before it did;
/// of others the handshake tells.
///
/// # Errors
/// It is no capture, or all of it is of unknown links. A capture that ends within a packet is read up to there.
pub fn read(
    mut source: impl Read + Send,
    ports: &[u16],
    profiler: &mut Profiler,
) -> Result<Captured, CaptureError> {
    let mut magic = Vec::new();
    source.by_ref().take(4).read_to_end(&mut magic).map_err(|_| CaptureError::Io)?;
    if magic.starts_with(&[0x1f, 0x8b]) || magic == [0x28, 0xb5, 0x2f, 0xfd] {
        return Err(CaptureError::Compressed);
    }
    let source = Joined { magic: std::io::Cursor::new(magic), source };
    let mut size = BUFFER;
    let mut reader = create_reader(BUFFER, source).map_err(|error| match error {
        PcapError::Eof | PcapError::Incomplete(_) => CaptureError::Empty,
        PcapError::ReadError => CaptureError::Io,
        _ => CaptureError::NoCapture,
    })?;
    let mut of = Reading {
        captured: Captured::default(),
        streams: Streams::new(ports),
        links: Vec::new(),
        unknown_link: None,
    };
    loop {
        let used = match reader.next() {
            Ok((used, block)) => {
                of.block(&block, profiler);
                used
            }
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_)) => {
                match reader.refill() {
                    Ok(()) => {}
                    Err(PcapError::BufferTooSmall) if size < BUFFER_MAX => {
                        size *= 4;
                        reader.grow(size);
                    }
                    Err(PcapError::ReadError) => return Err(CaptureError::Io),
                    Err(_) => {
                        of.captured.is_cut = true;
                        break;
                    }
                }
                continue;
            }
            Err(PcapError::UnexpectedEof) => {
                of.captured.is_cut = true;
                break;
            }
            Err(PcapError::ReadError) => return Err(CaptureError::Io),
            // What follows a block that makes no sense can't be found.
            Err(_) => {
                of.captured.is_cut = true;
                break;
            }
        };
        reader.consume(used);
    }
    let Streams { numbers, holes, ignored, .. } = of.streams;
    let captured = Captured { connections: numbers, holes, ignored, ..of.captured };
    match of.unknown_link {
        Some(link) if captured.unknown_links == captured.packets => Err(CaptureError::Link(link)),
        _ => Ok(captured),
    }
}

/// The first bytes of a source, and those behind them.
struct Joined<R> {
    magic: std::io::Cursor<Vec<u8>>,
    source: R,
}

impl<R: Read> Read for Joined<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        // The reader wants a whole header at its first read.
        let len = self.magic.read(buffer)?;
        Ok(len + self.source.read(&mut buffer[len..])?)
    }
}

struct Reading {
    captured: Captured,
    streams: Streams,
    /// Of the interfaces of the section: the link, and ticks of a second with their offset.
    links: Vec<(Linktype, u64, i64)>,
    unknown_link: Option<i32>,
}

impl Reading {
    fn block(&mut self, block: &PcapBlockOwned<'_>, profiler: &mut Profiler) {
        use pcap_parser::Block;
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let ticks =
                    if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                self.links = vec![(header.network, ticks, 0)];
            }
            PcapBlockOwned::Legacy(packet) => {
                let Some(&(link, ticks, _)) = self.links.first() else { return };
                let at = u64::from(packet.ts_sec) * 1_000_000_000
                    + u64::from(packet.ts_usec) * (1_000_000_000 / ticks);
                let is_cut = packet.caplen < packet.origlen;
                self.packet(link, at, packet.data, is_cut, profiler);
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.links.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(it)) => {
                let ticks = it.ts_resolution().unwrap_or(1_000_000);
                self.links.push((it.linktype, ticks, it.ts_offset()));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let link = self.links.get(packet.if_id as usize).copied();
                let Some((link, ticks, offset)) = link else { return };
                let count = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let seconds = (count / ticks.max(1)).saturating_add_signed(offset);
                let rest =
                    u128::from(count % ticks.max(1)) * 1_000_000_000 / u128::from(ticks.max(1));
                let at = seconds.saturating_mul(1_000_000_000).saturating_add(rest as u64);
                let data = packet.packet_data();
                let is_cut = packet.caplen < packet.origlen;
                self.packet(link, at, data, is_cut, profiler);
            }
            PcapBlockOwned::NG(_) => {}
        }
    }

    fn packet(
        &mut self,
        link: Linktype,
        at: Nanos,
        data: &[u8],
        is_cut: bool,
        profiler: &mut Profiler,
    ) {
        self.captured.packets += 1;
        self.captured.cut += u64::from(is_cut);
        let sliced = match link {
            Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => LaxSlicedPacket::from_ip(data).ok(),
            // Of `-i any`: the addresses of the link stand in front of the packet.
            Linktype::LINUX_SLL => data.get(16..).and_then(|it| LaxSlicedPacket::from_ip(it).ok()),
            LINUX_SLL2 => data.get(20..).and_then(|it| LaxSlicedPacket::from_ip(it).ok()),
            // Of lo on BSD.
            Linktype::NULL | Linktype::LOOP => {
                data.get(4..).and_then(|it| LaxSlicedPacket::from_ip(it).ok())
            }
            Linktype(number) => {
                self.unknown_link = Some(number);
                self.captured.unknown_links += 1;
                return;
            }
        };
        let tcp = sliced.as_ref().and_then(|it| match &it.transport {
            Some(TransportSlice::Tcp(tcp)) => Some((tcp, addresses(it.net.as_ref()?)?)),
            _ => None,
        });
        let Some((tcp, (from, to))) = tcp else {
            self.captured.other += 1;
            return;
        };
        let payload = tcp.payload();
        self.captured.segments += u64::from(!payload.is_empty());
        self.captured.bytes += payload.len() as u64;
        let segment = Segment {
            at,
            from: Address { host: from, port: tcp.source_port() },
            to: Address { host: to, port: tcp.destination_port() },
            sequence: tcp.sequence_number(),
            acknowledged: tcp.ack().then(|| tcp.acknowledgment_number()),
            syn: tcp.syn(),
            fin: tcp.fin(),
            rst: tcp.rst(),
            payload,
        };
        self.streams.segment(&segment, profiler);
    }
}

/// `LINKTYPE_LINUX_SLL2`, of `tcpdump -i any` since libpcap 1.10.
const LINUX_SLL2: Linktype = Linktype(276);

fn addresses(net: &LaxNetSlice<'_>) -> Option<([u8; 16], [u8; 16])> {
    match net {
        LaxNetSlice::Ipv4(it) => {
            let of = |four: [u8; 4]| {
                let mut host = [0; 16];
                host[..4].copy_from_slice(&four);
                host
            };
            Some((of(it.header().source()), of(it.header().destination())))
        }
        LaxNetSlice::Ipv6(it) => Some((it.header().source(), it.header().destination())),
        _ => None,
    }
}
