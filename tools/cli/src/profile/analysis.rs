//! The thread that analyses what taps have seen. Whatever becomes of it, traffic goes on.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use onetrip_lab::proxy::Tap;
use onetrip_profile::{Legs, Piece, Profile, Profiler};
use rustix::time::{ClockId, clock_gettime};

use super::ring::{Event, Events, Lost, Ring, What, ring};
use crate::output::thousands;

/// An analysis in progress.
pub(crate) struct Analysis {
    ring: Ring,
    shared: Arc<Shared>,
    thread: JoinHandle<Ended>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Nothing more will come.
    is_done: AtomicBool,
    trips: AtomicU64,
    /// Somebody waits for a snapshot.
    is_asked: AtomicBool,
    snapshot: Mutex<Option<Profile>>,
}

/// How the analysis is done.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Bytes that may wait for the analysis.
    pub(crate) bytes_max: usize,
    /// The round trip to the server, where the user knows it.
    pub(crate) rtt: Option<Duration>,
    /// Whether texts are shown with their literals.
    pub(crate) show_values: bool,
    /// For tests: it panics at this piece.
    #[cfg(test)]
    pub(crate) panics_at: Option<u64>,
}

/// Bytes that may wait for the analysis by default: 64 MiB.
pub(super) const BYTES_MAX: usize = 64 << 20;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            bytes_max: BYTES_MAX,
            rtt: None,
            show_values: false,
            #[cfg(test)]
            panics_at: None,
        }
    }
}

impl Analysis {
    /// # Errors
    /// The system allows no thread, in one line.
    pub(crate) fn start(settings: Settings) -> Result<Analysis, String> {
        note_places();
        let (ring, events) = ring(settings.bytes_max);
        let shared = Arc::<Shared>::default();
        let work =
            Work { settings, shared: shared.clone(), pieces: 0, snapshot_after: Instant::now() };
        let thread = thread::Builder::new()
            .name(THREAD.into())
            .spawn(move || work.run(&events))
            .map_err(|error| format!("can't start the analysis ({error}): try again"))?;
        Ok(Analysis { ring, shared, thread })
    }

    /// What a splice shows its bytes to. `splice` is its own number.
    pub(crate) fn tap(&self, splice: u8) -> Arc<dyn Tap> {
        self.ring.tap(splice)
    }

    /// Where taps write to.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// How many trips were counted so far.
    pub(super) fn trips(&self) -> u64 {
        self.shared.trips.load(Ordering::Relaxed)
    }

    /// What was found lately, of the shapes with most trips; `None` if nothing came since the last
    /// call.
    pub(super) fn snapshot(&self) -> Option<Profile> {
        self.shared.is_asked.store(true, Ordering::Relaxed);
        self.shared.snapshot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Analyses what is left, once all splices have ended.
    ///
    /// # Errors
    /// The analysis failed so that nothing is left of it, in one line.
    pub(crate) fn finish(self) -> Result<Profile, String> {
        self.shared.is_done.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let ended = self.thread.join().unwrap_or_else(|_| Ended::nothing());
        let lost = self.ring.lost();
        let mut profile = ended.profile.map_err(|place| {
            format!(
                "the analysis failed at {place}, and nothing is left of it; traffic was passed on"
            )
        })?;
        profile.lossy = profile.lossy.max(lost.pieces);
        profile.incomplete = incomplete(lost, ended.failed.as_deref());
        Ok(profile)
    }
}

/// One line about what was not analysed.
fn incomplete(lost: Lost, failed: Option<&str>) -> Option<String> {
    let pieces = thousands(lost.pieces as f64);
    let bytes = thousands(lost.bytes as f64);
    match failed {
        Some(place) => Some(format!(
            "the analysis failed at {place}: {pieces} pieces of traffic ({bytes} bytes) from then \
             on were passed on and not analysed"
        )),
        None if lost.pieces > 0 => Some(format!(
            "{pieces} pieces of traffic ({bytes} bytes) came faster than the analysis: they were \
             passed on and not analysed"
        )),
        None => None,
    }
}

/// The thread.
struct Work {
    settings: Settings,
    shared: Arc<Shared>,
    pieces: u64,
    snapshot_after: Instant,
}

struct Ended {
    /// Or where making it failed.
    profile: Result<Profile, String>,
    /// Where the analysis of a piece failed.
    failed: Option<String>,
}

impl Ended {
    fn nothing() -> Ended {
        Ended { profile: Err("an unknown place".to_owned()), failed: None }
    }
}

/// How long the analysis rests when there is nothing to do: 5 ms.
const REST: Duration = Duration::from_millis(5);

/// Events between two looks at the counts.
const TURN: usize = 1024;

/// Shapes of a snapshot.
const SHAPES_MAX: usize = 20;

/// Snapshots take at most one part of so many of the time.
const SNAPSHOT_PART: u32 = 20;

impl Work {
    fn run(mut self, events: &Events) -> Ended {
        events.read_here();
        let mut profiler = Profiler::new();
        profiler.show_values(self.settings.show_values);
        profiler.zero_is(zero());
        let failed = guarded(|| self.analyse(events, &mut profiler)).err();
        if failed.is_some() {
            events.end();
        }
        Ended { profile: guarded(|| profiler.finish()), failed }
    }

    fn analyse(&mut self, events: &Events, profiler: &mut Profiler) {
        loop {
            // Read before the queue: nothing comes behind it.
            let is_done = self.shared.is_done.load(Ordering::Relaxed);
            let mut is_empty = false;
            for _ in 0..TURN {
                let Some(event) = events.next() else {
                    is_empty = true;
                    break;
                };
                self.handle(event, profiler);
            }
            self.shared.trips.store(profiler.trips(), Ordering::Relaxed);
            self.show(profiler);
            if is_empty && is_done {
                return;
            }
            if is_empty {
                thread::park_timeout(REST);
            }
        }
    }

    /// Makes a snapshot if somebody asked for one, and the last one is long enough ago.
    fn show(&mut self, profiler: &Profiler) {
        let begin = Instant::now();
        if begin < self.snapshot_after || !self.shared.is_asked.swap(false, Ordering::Relaxed) {
            return;
        }
        // It only reads: where it fails the analysis goes on.
        if let Ok(snapshot) = guarded(|| profiler.snapshot(SHAPES_MAX)) {
            let mut shown = self.shared.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
            *shown = Some(snapshot);
        }
        self.snapshot_after = Instant::now() + begin.elapsed() * SNAPSHOT_PART;
    }

    fn handle(&mut self, event: Event, profiler: &mut Profiler) {
        let connection = event.connection;
        if event.left_out > 0 {
            profiler.missing(connection);
        }
        match event.what {
            What::Opened(connecting) => {
                let rtt = self.settings.rtt.unwrap_or(connecting);
                let legs = Legs { client: None, server: Some(rtt.as_nanos() as u64) };
                profiler.rtt(connection, legs);
            }
            What::Passed(at, from, bytes) => {
                self.pieces += 1;
                #[cfg(test)]
                assert!(self.settings.panics_at != Some(self.pieces), "told to panic");
                profiler.piece(Piece { at, connection, from, bytes: &bytes });
            }
            What::Closed => profiler.closed(connection),
        }
    }
}

/// When the clock of the taps was at zero, in nanoseconds since 1970.
fn zero() -> u64 {
    let monotonic = clock_gettime(ClockId::Monotonic);
    let monotonic = Duration::new(monotonic.tv_sec as u64, monotonic.tv_nsec as u32);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    unix.saturating_sub(monotonic).as_nanos() as u64
}

const THREAD: &str = "onetrip-analysis";

thread_local! {
    /// Where this thread panicked last.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs it; a panic becomes the place where it happened. Its message is not kept, since it may
/// quote the traffic.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| PLACE.take().unwrap_or_else(|| "an unknown place".to_owned()))
}

/// From now on a panic of the analysis prints nothing, and its place is kept.
fn note_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if thread::current().name() != Some(THREAD) {
                return before(panic);
            }
            PLACE.set(panic.location().map(|it| format!("{}:{}", it.file(), it.line())));
        }));
    });
}
