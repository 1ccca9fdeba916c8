//! What one protocol has and the other has not, and the other end of a connection.

use std::fmt::Debug;

use bytes::Bytes;
use onetrip_engine::{CloseReason, End, Output, Time, Token};

use super::book::{Book, PlanOf, Record};
use super::driven::Driven;
use super::mutation::OwnMutation;
use super::settings::{Network, Settings};
use super::world::World;
use crate::seeded::{Log, Rng};

/// A model of a server: the other end.
pub trait Peer: Debug {
    /// What became of every identity.
    fn log(&self) -> &Log;
    /// Whether it reads now.
    fn wants_bytes(&self) -> bool;
    /// Whether it has ended; it may still have bytes to write.
    fn is_closed(&self) -> bool;
    /// Takes what the client wrote.
    fn handle_bytes(&mut self, bytes: &[u8]);
    /// The client has ended.
    fn handle_closed(&mut self);
    /// The bytes to write next.
    fn transmit(&self) -> &[u8];
    /// So many of them were written.
    fn handle_written(&mut self, bytes: usize);
    /// Ends the session, and says so.
    fn shut_down(&mut self);
    /// Writes these bytes, whatever they are.
    fn garble(&mut self, bytes: &[u8]);
}

/// Makes a peer of a model by what it has of its own.
macro_rules! peer {
    ($model:ty) => {
        impl $crate::sim::side::Peer for $model {
            fn log(&self) -> &$crate::seeded::Log {
                <$model>::log(self)
            }

            fn wants_bytes(&self) -> bool {
                <$model>::wants_bytes(self)
            }

            fn is_closed(&self) -> bool {
                <$model>::is_closed(self)
            }

            fn handle_bytes(&mut self, bytes: &[u8]) {
                <$model>::handle_bytes(self, bytes);
            }

            fn handle_closed(&mut self) {
                <$model>::handle_closed(self);
            }

            fn transmit(&self) -> &[u8] {
                <$model>::transmit(self)
            }

            fn handle_written(&mut self, bytes: usize) {
                <$model>::handle_written(self, bytes);
            }

            fn shut_down(&mut self) {
                <$model>::shut_down(self);
            }

            fn garble(&mut self, bytes: &[u8]) {
                <$model>::garble(self, bytes);
            }
        }
    };
}
pub(super) use peer;

/// What only one protocol has, and no other crate. A value of it is what its host knows beside what
/// every host does.
pub trait Side: Sized {
    /// What is driven.
    type Driven: Driven;
    /// The other end.
    type Server: Peer;
    /// What a seed makes of a run, beside the settings of every run.
    type Settings: Debug;
    /// What there is to a request, beside its bytes.
    type Request: Clone + Debug;
    /// What is known of a request that was submitted, beside its end and its reply.
    type Known: Default;
    /// What a host was told, beside the ends of its requests.
    type Heard: Default;
    /// Mutations beside those of every simulation.
    type Mutation: OwnMutation;

    /// Its name.
    const NAME: &'static str;
    /// What goes to `make sim` to watch a seed of it.
    const OPTION: &'static str;
    /// What no server would send at any time.
    const HOSTILE: &'static [&'static [u8]];
    /// The most bytes that the server reads at once.
    const READ_MAX: usize;
    /// A hostile server may announce more than it sends, which is waited for.
    const HOSTILE_MAY_STALL: bool;
    /// How many kinds of moments a step picks from: ten of every run, and those of
    /// [`moment`](Self::moment).
    const MOMENTS: u64;
    /// Whether links are lost and opened anew, so that requests end with one although nothing else
    /// does.
    const LOSES_LINKS: bool = false;
    /// How the end is counted that the server announced.
    const CLOSED_BY_SERVER: &'static str;

    // --- what a run begins with ---

    /// Draws the circumstances of a run that only this side has.
    fn settings(rng: &mut Rng, network: &mut Network) -> Self::Settings;

    /// The servers of a run, with one log.
    fn servers(rng: &mut Rng, settings: &Settings<Self::Settings>) -> Vec<Self::Server>;

    /// The other end of a link that is opened anew, where links are.
    fn reopen(_world: &mut World<Self>, _at: usize) -> Option<Self::Server> {
        None
    }

    /// What is driven in a run, and what its host knows.
    fn driven(
        seed: u64,
        settings: &Settings<Self::Settings>,
        mutation: Option<Self::Mutation>,
    ) -> (Self, Self::Driven);

    /// The run begins.
    fn begin(_world: &mut World<Self>) {}

    // --- what the host does ---

    /// Does what goes in front of all else in a step.
    fn prepare_step(_world: &mut World<Self>) {}

    /// Does something that a host does.
    fn act(world: &mut World<Self>);

    /// A request that stands alone.
    fn plan(world: &mut World<Self>) -> PlanOf<Self>;

    /// What is said of a request.
    fn request(
        world: &World<Self>,
        plan: &PlanOf<Self>,
        reserved: bool,
    ) -> <Self::Driven as Driven>::Request;

    /// What a trace tells of a request.
    fn describe(plan: &PlanOf<Self>) -> &dyn Debug;

    /// What is known of a request that was taken.
    fn keep(world: &mut World<Self>, plan: PlanOf<Self>) -> Record<Self>;

    /// Readers take some of what they were handed.
    fn consume(world: &mut World<Self>);

    /// Ends what was begun, where the run comes to its end.
    fn wind_up(_world: &mut World<Self>) {}

    /// What no step may exceed.
    fn bounds(world: &World<Self>) -> Bounds;

    // --- what happens ---

    /// Something happens that only this side has.
    fn moment(world: &mut World<Self>, moment: u64);

    /// When something comes that is neither a byte nor a deadline.
    fn next(_world: &World<Self>) -> Time {
        Time::NEVER
    }

    /// Whatever of that is due.
    fn move_on(_world: &mut World<Self>) {}

    /// The server has read.
    fn has_read(_world: &mut World<Self>) {}

    /// Outputs are about to be told.
    fn prepare_outputs(_world: &mut World<Self>) {}

    /// A part of a reply came, or its end.
    fn received(world: &mut World<Self>, token: Token, len: usize, ended: bool);

    /// An output came that is none of every host's.
    fn react(_world: &mut World<Self>, _output: Output<<Self::Driven as Driven>::Event>) {}

    /// The connection has ended; whether that is explained.
    fn closed(world: &mut World<Self>, reason: &CloseReason) -> bool;

    /// All that happened was told.
    fn drained(_world: &mut World<Self>) {}

    /// Whether requests may stay in the queue although nothing is on its way.
    fn may_stand_still(_world: &World<Self>) -> bool {
        false
    }

    /// Whether nothing is under way but bytes.
    fn is_settled(_world: &World<Self>) -> bool {
        true
    }

    /// Whether something is under way that is neither a request nor a wish for room.
    fn is_busy(_world: &World<Self>) -> bool {
        false
    }

    // --- what a host is told ---

    /// Takes note of an output that is none of every host's.
    fn note(book: &mut Book<Self>, output: &Output<<Self::Driven as Driven>::Event>);

    /// Takes note of an end that is no request's; whether it was one.
    fn note_other_end(_book: &mut Book<Self>, _token: Token, _end: End) -> bool {
        false
    }

    /// What is wrong with a reply, or an error, as far as the host can know.
    fn judge_reply(book: &mut Book<Self>, token: u64, end: End) -> Vec<String>;

    /// Whether this request may have been taken back although it was sent.
    fn may_be_taken_back(book: &Book<Self>, record: &Record<Self>) -> bool;

    // --- when all is over ---

    /// How often it may have run: more than once where it was sent again, or nobody would have
    /// heard of that.
    fn runs_max(_record: &Record<Self>) -> u32 {
        1
    }

    /// In which of several lines this request has to have run in issue order; none where it is sent
    /// again behind others.
    fn order(world: &World<Self>, record: &Record<Self>) -> Option<usize>;

    /// Whether requests may have been sent more than once, as far as the host knows.
    fn has_sent_again(world: &World<Self>) -> bool;

    /// Where a request begins in what was written; none where that can't be known.
    fn find_written<'a>(
        _world: &World<Self>,
        rest: &'a [u8],
        record: &'a Record<Self>,
        _next: Option<&Record<Self>>,
    ) -> Option<Written<'a>> {
        let bytes = &record.plan.bytes[..];
        Some(Written { rest, bytes, is_untouched: rest.is_empty(), may_be_missing: false })
    }

    /// Whether this is what may come behind all requests.
    fn may_be_last(_world: &World<Self>, rest: &[u8]) -> bool {
        rest.is_empty()
    }

    /// Compares whatever else only this side has.
    fn check(world: &mut World<Self>, findings: &mut Vec<String>);

    // --- falsified ---

    /// Whether a mutation of this side found its occasion.
    fn has_struck(driven: &Self::Driven) -> bool;

    /// Falsifies what was said, as only this side can.
    fn strike(
        mutation: Self::Mutation,
        outputs: &mut Vec<Output<<Self::Driven as Driven>::Event>>,
        log: &Log,
    ) -> bool;

    /// A reply without its beginning.
    fn truncate(block: &Bytes) -> Bytes;
}

/// What may be held at most, beside what is the same on every side.
pub struct Bounds {
    /// Requests of the engine's own that go although the window is closed.
    pub(crate) beyond: usize,
    /// What may be added to the bytes of a request.
    pub(crate) added: usize,
    pub(crate) queued: usize,
    pub(crate) queued_bytes: usize,
    pub(crate) undelivered_bytes: usize,
    /// Bytes that no request has to wait for.
    pub(crate) owed: usize,
}

/// A request in what was written.
pub struct Written<'a> {
    /// From its beginning on.
    pub(crate) rest: &'a [u8],
    pub(crate) bytes: &'a [u8],
    /// Nothing of it was written.
    pub(crate) is_untouched: bool,
    /// Something else may stand in its place.
    pub(crate) may_be_missing: bool,
}
