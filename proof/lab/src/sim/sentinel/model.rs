//! Model Sentinels and servers: who is the master, who knows it, and who can be reached.

use std::fmt::Write;

use onetrip_redis::redirect::Address;

/// A model Sentinel.
pub(super) struct Sentinel {
    pub(super) address: Address,
    pub(super) id: String,
    /// The epoch of its configuration, and the master in it.
    pub(super) epoch: u64,
    pub(super) master: usize,
    /// Whether the client reaches it.
    pub(super) is_reached: bool,
    /// Whether the other Sentinels reach it.
    pub(super) is_joined: bool,
    /// Whether it lost its memory, and knows itself alone.
    pub(super) is_blank: bool,
}

/// A model server.
pub(super) struct Server {
    pub(super) address: Address,
    pub(super) is_master: bool,
    pub(super) is_up: bool,
    pub(super) is_reached: bool,
    /// The epoch in which it was last made the master.
    pub(super) epoch: u64,
}

pub(super) fn address(host: &str, at: usize) -> Address {
    Address { host: format!("{host}{at}").into(), port: 6000 + at as u16 }
}

impl Sentinel {
    pub(super) fn new(at: usize) -> Sentinel {
        Sentinel {
            address: address("sentinel-", at),
            id: format!("id-{at}"),
            epoch: 0,
            master: 0,
            is_reached: true,
            is_joined: true,
            is_blank: false,
        }
    }

    /// The replies to the questions of a client, in RESP2.
    pub(super) fn answers(&self, all: &[Sentinel], servers: &[Server]) -> String {
        let master = &servers[self.master].address;
        let others: Vec<&Sentinel> =
            all.iter().filter(|other| !self.is_blank && other.id != self.id).collect();
        let mut out = bulk(&self.id);
        let (epoch, known) = (self.epoch.to_string(), others.len().to_string());
        out += &list(&["name", "mymaster", "config-epoch", &epoch, "num-other-sentinels", &known]);
        out += &list(&[&master.host, &master.port.to_string()]);
        let _ = write!(out, "*{}\r\n", others.len());
        for other in others {
            out += &entry(&other.address, &other.id, "sentinel");
        }
        let replicas: Vec<&Server> = servers.iter().filter(|it| it.address != *master).collect();
        let _ = write!(out, "*{}\r\n", replicas.len());
        for replica in replicas {
            out +=
                &entry(&replica.address, "", if replica.is_up { "slave" } else { "s_down,slave" });
        }
        out + "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"
    }
}

impl Server {
    pub(super) fn new(at: usize) -> Server {
        Server {
            address: address("server-", at),
            is_master: at == 0,
            is_up: true,
            is_reached: true,
            epoch: 0,
        }
    }

    /// Whether the client can connect to it.
    pub(super) fn is_open(&self) -> bool {
        self.is_up && self.is_reached
    }

    /// Its reply to ROLE.
    pub(super) fn role(&self) -> String {
        match self.is_master {
            true => "*3\r\n$6\r\nmaster\r\n:1\r\n*0\r\n".to_owned(),
            false => "*5\r\n$5\r\nslave\r\n$1\r\nm\r\n:1\r\n$9\r\nconnected\r\n:1\r\n".to_owned(),
        }
    }
}

/// What a Sentinel announces when it learns of a switch.
pub(super) fn announcement(old: &Address, new: &Address) -> String {
    let text = format!("mymaster {} {} {} {}", old.host, old.port, new.host, new.port);
    list(&["message", "+switch-master", &text])
}

fn entry(address: &Address, id: &str, flags: &str) -> String {
    let port = address.port.to_string();
    list(&["ip", &address.host, "port", &port, "runid", id, "flags", flags])
}

fn list(items: &[&str]) -> String {
    let texts: String = items.iter().map(|item| bulk(item)).collect();
    format!("*{}\r\n{texts}", items.len())
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}
