//! The cache of a Redis client beside a model of a server that tracks keys, over many seeds: writes
//! by this client and by others, on several connections, with replies and pushes that come late,
//! losses, and callers that go away. Each answer is held against what its caller may expect; and
//! hosts that leave out a part of their duty are noticed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use onetrip_lab::redis::model::Rng;
use onetrip_redis::client::cache::{Cache, FetchId, Found, Writes};
use onetrip_redis::{Command, Reply, Spec};

const SEEDS: u64 = 500;
const STEPS: usize = 400;
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const BYTES_MAX: usize = 16 << 10;

/// What a host may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Push,
    WriteAtSubmit,
    WriteAtReply,
    Loss,
    /// What is sent on another connection is told to nobody.
    OtherWrites,
}

/// What the server runs for a connection.
enum Asked {
    /// A caller's command, and what it fetches.
    Read {
        caller: usize,
        keys: Vec<&'static str>,
        fetch: Option<FetchId>,
    },
    Write {
        write: usize,
    },
}

/// What the server has written to a connection.
enum Written {
    Reply {
        asked: Asked,
        versions: Vec<u64>,
    },
    Push {
        keys: Vec<&'static str>,
    },
    /// All keys.
    PushAll,
}

#[derive(Default)]
struct Connection {
    up: VecDeque<Asked>,
    down: VecDeque<Written>,
}

struct Caller {
    keys: Vec<&'static str>,
    /// The least version of each key that it may get.
    at_least: Vec<u64>,
    /// Writes submitted before on the shared connection, which run before it.
    behind: Vec<usize>,
    ended: bool,
    gone: bool,
}

struct Write {
    key: &'static str,
    version: Option<u64>,
    epoch: u64,
}

struct World {
    rng: Rng,
    fault: Option<Fault>,
    cache: Cache<usize>,
    /// The shared connection, which tracks, and one of a session.
    shared: Connection,
    other: Connection,
    /// Counts shared connections.
    epoch: u64,
    clock: u64,
    data: BTreeMap<&'static str, u64>,
    tracked: BTreeSet<&'static str>,
    pushes_first: bool,
    /// The version that a change announced, which was read, or a write of this client, whose reply
    /// was read.
    floor: BTreeMap<&'static str, u64>,
    announced: VecDeque<Vec<(&'static str, u64)>>,
    callers: Vec<Caller>,
    writes: Vec<Write>,
    wrong: Option<String>,
    seen: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64, fault: Option<Fault>) -> World {
        let mut rng = Rng::new(seed);
        let mut cache = Cache::new(BYTES_MAX);
        cache.opened(0);
        World {
            pushes_first: rng.one_in(3),
            rng,
            fault,
            cache,
            shared: Connection::default(),
            other: Connection::default(),
            epoch: 0,
            clock: 0,
            data: KEYS.iter().map(|key| (*key, 0)).collect(),
            tracked: BTreeSet::new(),
            floor: KEYS.iter().map(|key| (*key, 0)).collect(),
            announced: VecDeque::new(),
            callers: Vec::new(),
            writes: Vec::new(),
            wrong: None,
            seen: BTreeMap::new(),
        }
    }

    fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    // --- the client ---

    fn read(&mut self) {
        let mut keys = vec![self.rng.pick(&KEYS)];
        if self.rng.one_in(4) {
            keys.push(self.rng.pick(&KEYS));
        }
        let last = self.writes.iter().enumerate().rev();
        let behind = keys.iter().filter_map(|key| {
            let mut on_shared = last.clone().filter(|(_, write)| write.epoch == self.epoch);
            on_shared.find(|(_, write)| write.key == *key).map(|(at, _)| at)
        });
        let caller = Caller {
            at_least: keys.iter().map(|key| self.floor[key]).collect(),
            behind: behind.collect(),
            keys: keys.clone(),
            ended: false,
            gone: false,
        };
        self.callers.push(caller);
        self.ask(self.callers.len() - 1, keys);
    }

    fn ask(&mut self, caller: usize, keys: Vec<&'static str>) {
        let command = Command::new("MGET").args(&keys);
        let found = self.cache.look_up(&command, Spec::of(&command), || caller);
        let fetch = match found {
            Found::Hit(reply) => {
                self.note("hit");
                return self.answer(caller, &versions(&reply));
            }
            Found::Joined => return self.note("joined"),
            Found::Fetch(fetch) => Some(fetch),
            Found::Nothing => None,
        };
        self.shared.up.push_back(Asked::Read { caller, keys, fetch });
    }

    fn write(&mut self, on_shared: bool) {
        let key = self.rng.pick(&KEYS);
        let epoch = if on_shared { self.epoch } else { u64::MAX };
        self.writes.push(Write { key, version: None, epoch });
        if !self.is(Fault::WriteAtSubmit) && (on_shared || !self.is(Fault::OtherWrites)) {
            self.cache.wrote(&writes_of(key));
        }
        let connection = if on_shared { &mut self.shared } else { &mut self.other };
        connection.up.push_back(Asked::Write { write: self.writes.len() - 1 });
    }

    /// A caller that waits goes away.
    fn leave(&mut self) {
        let waiting: Vec<usize> = (0..self.callers.len())
            .filter(|&at| !self.callers[at].ended && !self.callers[at].gone)
            .collect();
        if waiting.is_empty() {
            return;
        }
        let caller = self.rng.pick(&waiting);
        self.callers[caller].gone = true;
        let place = self
            .shared
            .up
            .iter()
            .position(|asked| matches!(asked, Asked::Read { caller: it, .. } if *it == caller));
        let Some(place) = place else { return };
        if let Asked::Read { fetch: Some(fetch), .. } = self.shared.up[place] {
            if !self.cache.left(fetch) {
                return self.note("left to those who joined");
            }
            self.shared.up.remove(place);
            self.note("taken back");
        }
    }

    /// Reads what comes next on a connection.
    fn receive(&mut self, on_shared: bool) {
        let connection = if on_shared { &mut self.shared } else { &mut self.other };
        match connection.down.pop_front() {
            None => {}
            Some(Written::Push { keys }) => {
                let list: Vec<String> =
                    keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect();
                let push = format!(">2\r\n+invalidate\r\n*{}\r\n{}", keys.len(), list.concat());
                self.pushed(&push);
            }
            Some(Written::PushAll) => self.pushed(">2\r\n$10\r\ninvalidate\r\n_\r\n"),
            Some(Written::Reply { asked: Asked::Write { write }, .. }) => {
                let Write { key, version, .. } = self.writes[write];
                if !self.is(Fault::WriteAtReply) && (on_shared || !self.is(Fault::OtherWrites)) {
                    self.cache.wrote(&writes_of(key));
                }
                self.raise(key, version.unwrap_or_default());
            }
            Some(Written::Reply { asked: Asked::Read { caller, fetch, .. }, versions }) => {
                let items: Vec<String> = versions.iter().map(|it| format!(":{it}\r\n")).collect();
                let reply = format!("*{}\r\n{}", items.len(), items.concat());
                let joined = fetch.map(|it| self.cache.answered(it, self.epoch, reply.as_bytes()));
                for caller in [caller].into_iter().chain(joined.into_iter().flatten()) {
                    self.answer(caller, &versions);
                }
            }
        }
    }

    fn pushed(&mut self, push: &str) {
        self.note("push");
        if !self.is(Fault::Push) {
            assert!(self.cache.pushed(push.as_bytes()));
        }
        for (key, version) in self.announced.pop_front().into_iter().flatten() {
            self.raise(key, version);
        }
    }

    fn raise(&mut self, key: &'static str, version: u64) {
        if let Some(floor) = self.floor.get_mut(key) {
            *floor = version.max(*floor);
        }
    }

    fn answer(&mut self, caller: usize, versions: &[u64]) {
        let it = &mut self.callers[caller];
        if it.gone {
            return;
        }
        if std::mem::replace(&mut it.ended, true) {
            self.wrong = Some(format!("caller {caller} was answered twice"));
        }
        for ((key, least), got) in it.keys.iter().zip(&it.at_least).zip(versions) {
            let own = it.behind.iter().filter(|write| self.writes[**write].key == *key);
            let own = own.filter_map(|write| self.writes[*write].version).max();
            let least = own.unwrap_or_default().max(*least);
            if *got < least {
                self.wrong = Some(format!("{key}: version {got}, and {least} was known"));
            }
        }
    }

    /// The connection is lost, and another one opened.
    fn lose(&mut self) {
        self.note("lost");
        if !self.is(Fault::Loss) {
            self.cache.closed(self.epoch);
        }
        let Connection { up, down } = std::mem::take(&mut self.shared);
        let unanswered = down.into_iter().filter_map(|written| match written {
            Written::Reply { asked, .. } => Some(asked),
            Written::Push { .. } | Written::PushAll => None,
        });
        self.tracked.clear();
        self.announced.clear();
        self.epoch += 1;
        if !self.is(Fault::Loss) {
            self.cache.opened(self.epoch);
        }
        for asked in unanswered.chain(up).collect::<Vec<_>>() {
            let Asked::Read { caller, fetch, .. } = asked else { continue };
            self.callers[caller].ended = true;
            for caller in fetch.map(|it| self.cache.failed(it)).into_iter().flatten() {
                self.note("sent for itself");
                let keys = self.callers[caller].keys.clone();
                self.ask(caller, keys);
            }
        }
    }

    // --- the server ---

    /// Runs the next command of a connection.
    fn run(&mut self, on_shared: bool) {
        let connection = if on_shared { &mut self.shared } else { &mut self.other };
        let Some(asked) = connection.up.pop_front() else { return };
        let versions = match &asked {
            Asked::Read { keys, .. } => {
                self.tracked.extend(keys);
                keys.iter().map(|key| self.data[key]).collect()
            }
            Asked::Write { write } => {
                let (write, key) = (*write, self.writes[*write].key);
                let before = self.shared.down.len();
                self.change(key);
                self.writes[write].version = Some(self.clock);
                if on_shared && !self.pushes_first {
                    // Since Redis 7 the push comes behind the reply to the writer.
                    let pushes = self.shared.down.split_off(before);
                    self.shared.down.push_back(Written::Reply { asked, versions: Vec::new() });
                    return self.shared.down.extend(pushes);
                }
                Vec::new()
            }
        };
        let connection = if on_shared { &mut self.shared } else { &mut self.other };
        connection.down.push_back(Written::Reply { asked, versions });
    }

    /// A key gets another value: by a write, or because it expires.
    fn change(&mut self, key: &'static str) {
        self.clock += 1;
        self.data.insert(key, self.clock);
        self.announce(key);
    }

    /// Those who read the key are told; also if the server forgets what they read.
    fn announce(&mut self, key: &'static str) {
        if self.tracked.remove(key) {
            self.shared.down.push_back(Written::Push { keys: vec![key] });
            self.announced.push_back(vec![(key, self.data[key])]);
        }
    }

    fn flush(&mut self) {
        self.clock += 1;
        let clock = self.clock;
        self.data.values_mut().for_each(|version| *version = clock);
        self.tracked.clear();
        self.shared.down.push_back(Written::PushAll);
        self.announced.push_back(KEYS.iter().map(|key| (*key, clock)).collect());
    }

    fn step(&mut self) {
        let on_shared = !self.rng.one_in(4);
        let key = self.rng.pick(&KEYS);
        match self.rng.below(40) {
            0..12 => self.read(),
            12..14 => self.write(on_shared),
            14 => self.change(key),
            15 if self.rng.one_in(4) => self.flush(),
            16 if self.rng.one_in(8) => self.lose(),
            17 => self.announce(key),
            18 => self.leave(),
            19..29 => self.run(on_shared),
            _ => self.receive(on_shared),
        }
        let (bytes, max) = (self.cache.counts().bytes, BYTES_MAX);
        if bytes > max {
            self.wrong = Some(format!("{bytes} bytes in a cache of {max}"));
        }
    }

    /// Everything arrives; then everybody is answered, and what is kept is what the server has.
    fn rest(&mut self) {
        while !(self.shared.up.is_empty() && self.other.up.is_empty()) {
            self.run(true);
            self.run(false);
        }
        while !(self.shared.down.is_empty() && self.other.down.is_empty()) {
            self.receive(true);
            self.receive(false);
        }
        if let Some(at) = self.callers.iter().position(|it| !it.ended && !it.gone) {
            self.wrong = Some(format!("caller {at} was never answered"));
        }
        for key in KEYS {
            let command = Command::new("MGET").arg(key);
            let found = self.cache.look_up(&command, Spec::of(&command), || 0);
            match found {
                Found::Hit(reply) if versions(&reply) != [self.data[key]] => {
                    self.wrong = Some(format!("{key} is stale at rest"));
                }
                Found::Hit(_) => self.note("hit at rest"),
                Found::Fetch(fetch) => drop(self.cache.failed(fetch)),
                Found::Joined | Found::Nothing => {
                    self.wrong = Some(format!("{key} is still asked for"));
                }
            }
        }
    }
}

fn writes_of(key: &str) -> Writes {
    Writes::of(&Command::new("SET").arg(key).arg(1))
}

fn versions(reply: &[u8]) -> Vec<u64> {
    let Ok((Reply::Array(items), _)) = Reply::read(reply) else { panic!("not a list") };
    items
        .map(|item| if let Reply::Int(it) = item { it as u64 } else { panic!("not a number") })
        .collect()
}

/// Runs a seed. Returns what was wrong, if anything, and what occurred.
fn run(seed: u64, fault: Option<Fault>) -> (Option<String>, BTreeMap<&'static str, u64>) {
    let mut world = World::new(seed, fault);
    for _ in 0..STEPS {
        world.step();
        if world.wrong.is_some() {
            break;
        }
        if world.rng.one_in(100) {
            world.rest();
        }
    }
    world.rest();
    let evicted = world.cache.counts().evicted;
    world.seen.insert("evicted", evicted);
    (world.wrong, world.seen)
}

#[test]
fn no_answer_is_older_than_what_its_caller_may_expect() {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 1..=SEEDS {
        let (wrong, once) = run(seed, None);
        assert!(wrong.is_none(), "seed {seed}: {}", wrong.unwrap_or_default());
        once.into_iter().for_each(|(what, times)| *seen.entry(what).or_default() += times);
    }
    let least = [
        ("hit", 5_000),
        ("hit at rest", 300),
        ("joined", 5_000),
        ("push", 5_000),
        ("lost", 100),
        ("left to those who joined", 50),
        ("taken back", 50),
        ("sent for itself", 50),
    ];
    for (what, least) in least {
        let times = seen.get(what).copied().unwrap_or_default();
        assert!(times >= least, "{what}: {times} of {least}; {seen:?}");
    }
}

#[test]
fn a_host_that_leaves_something_out_is_noticed() {
    let faults =
        [Fault::Push, Fault::WriteAtSubmit, Fault::WriteAtReply, Fault::Loss, Fault::OtherWrites];
    for fault in faults {
        let noticed = (1..=SEEDS / 5).any(|seed| run(seed, Some(fault)).0.is_some());
        assert!(noticed, "{fault:?} is not noticed");
    }
}
