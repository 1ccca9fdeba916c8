//! Callers that wait: one line for both kinds, first come, first served.

use super::TextKey;
use super::limits::RESOLUTION;
use crate::line::Line;
use crate::{Time, Token};

/// Names a caller in line, for [`give_up`](super::Pool::give_up). No ticket is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    kind: Kind,
    number: u64,
}

/// What a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A connection for itself.
    Exclusive,
    /// To put one statement on a connection.
    Shared,
}

pub(super) struct Waiter {
    pub(super) token: Token,
    pub(super) since: Time,
    /// The text that a shared caller puts on the connection.
    pub(super) key: TextKey,
    pub(super) deadline: Time,
    /// Its number in the line of both kinds.
    order: u64,
}

/// A line per kind, so that the next of a kind is found at once, with numbers over both.
pub(super) struct Waiters {
    exclusive: Line<Waiter>,
    shared: Line<Waiter>,
    texts: Texts,
    next_order: u64,
    /// No deadline lies before this moment.
    earliest_deadline: Time,
    /// The deadlines are not looked at before this moment.
    next_look: Time,
}

impl Waiters {
    pub(super) fn new() -> Waiters {
        Waiters {
            exclusive: Line::new(),
            shared: Line::new(),
            texts: Texts::default(),
            next_order: 0,
            earliest_deadline: Time::NEVER,
            next_look: Time::ZERO,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.exclusive.live() + self.shared.live()
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Exclusive => self.exclusive.live(),
            Kind::Shared => self.shared.live(),
        }
    }

    pub(super) fn push(
        &mut self,
        kind: Kind,
        key: TextKey,
        now: Time,
        token: Token,
        deadline: Time,
    ) -> Ticket {
        self.earliest_deadline = self.earliest_deadline.min(deadline);
        let waiter = Waiter { token, since: now, key, deadline, order: self.next_order };
        self.next_order += 1;
        if kind == Kind::Shared {
            self.texts.add(key);
        }
        Ticket { kind, number: self.line(kind).push(waiter) }
    }

    /// What the first in line wants.
    pub(super) fn first(&mut self) -> Option<Kind> {
        match (order(self.exclusive.first()), order(self.shared.first())) {
            (None, None) => None,
            (Some(exclusive), Some(shared)) if exclusive < shared => Some(Kind::Exclusive),
            (Some(_), None) => Some(Kind::Exclusive),
            _ => Some(Kind::Shared),
        }
    }

    /// Takes the first of a kind.
    pub(super) fn pop(&mut self, kind: Kind) -> Option<Waiter> {
        let waiter = self.line(kind).pop();
        self.left(kind, waiter)
    }

    /// Places in the line of shared callers, counting gaps. They change when callers leave.
    pub(super) fn shared_places(&self) -> usize {
        self.shared.len()
    }

    /// The caller at one of these places: its text, and its number in the line of both kinds.
    pub(super) fn shared_at(&self, index: usize) -> Option<(TextKey, u64)> {
        self.shared.at(index).map(|waiter| (waiter.key, waiter.order))
    }

    /// Takes out the caller at this place, and leaves a gap.
    pub(super) fn take_shared(&mut self, index: usize) -> Option<Waiter> {
        let waiter = self.shared.take(index);
        self.left(Kind::Shared, waiter)
    }

    /// How many shared callers in line have a text of this kind. Linear in the number of texts,
    /// which are few even where callers are many.
    pub(super) fn count_texts(&self, are_meant: impl Fn(TextKey) -> bool) -> usize {
        match self.texts.uncounted {
            0 => self.texts.counts.iter().filter(|it| are_meant(it.0)).map(|it| it.1).sum(),
            _ => self.shared.iter().filter(|waiter| are_meant(waiter.key)).count(),
        }
    }

    /// Removes the gaps.
    pub(super) fn close_gaps(&mut self) {
        self.shared.close_gaps();
        self.shared.skip_gaps();
        self.forget_deadlines();
    }

    /// The number of the first exclusive caller in the line of both kinds.
    pub(super) fn first_exclusive(&mut self) -> Option<u64> {
        order(self.exclusive.first())
    }

    /// Takes the caller that came last.
    pub(super) fn pop_newest(&mut self) -> Option<Waiter> {
        let exclusive = order(self.exclusive.last());
        let kind = match exclusive > order(self.shared.last()) {
            true => Kind::Exclusive,
            false => Kind::Shared,
        };
        let waiter = self.line(kind).pop_last();
        self.left(kind, waiter)
    }

    /// Takes a caller out; false if it is no longer in line.
    pub(super) fn remove(&mut self, ticket: Ticket) -> bool {
        let line = self.line(ticket.kind);
        let waiter = line.position(ticket.number).and_then(|index| line.take(index));
        line.close_gaps();
        self.left(ticket.kind, waiter).is_some()
    }

    /// Takes out the callers whose deadline has come.
    pub(super) fn expire(&mut self, now: Time, mut expired: impl FnMut(Token)) {
        if now < self.next_deadline() {
            return;
        }
        let mut earliest = Time::NEVER;
        for kind in [Kind::Exclusive, Kind::Shared] {
            for index in 0..self.line(kind).len() {
                match self.line(kind).at(index) {
                    Some(waiter) if waiter.deadline <= now => {
                        expired(waiter.token);
                        let waiter = self.line(kind).take(index);
                        self.left(kind, waiter);
                    }
                    Some(waiter) => earliest = earliest.min(waiter.deadline),
                    None => {}
                }
            }
            self.line(kind).close_gaps();
        }
        self.earliest_deadline = earliest;
        self.next_look = now.after(RESOLUTION);
    }

    /// When to look through the deadlines next. A look is linear, but happens at most once a
    /// millisecond.
    pub(super) fn next_deadline(&self) -> Time {
        self.earliest_deadline.max(self.next_look)
    }

    fn line(&mut self, kind: Kind) -> &mut Line<Waiter> {
        match kind {
            Kind::Exclusive => &mut self.exclusive,
            Kind::Shared => &mut self.shared,
        }
    }

    /// Notes that a caller is no longer in line.
    fn left(&mut self, kind: Kind, waiter: Option<Waiter>) -> Option<Waiter> {
        if let (Kind::Shared, Some(waiter)) = (kind, &waiter) {
            self.texts.remove(waiter.key);
        }
        self.forget_deadlines();
        waiter
    }

    fn forget_deadlines(&mut self) {
        if self.len() == 0 {
            self.earliest_deadline = Time::NEVER;
        }
    }
}

/// How many shared callers wait with each text.
#[derive(Default)]
struct Texts {
    counts: Vec<(TextKey, usize)>,
    /// Callers whose text found no place. If there are none, all are counted.
    uncounted: usize,
}

/// How many texts are counted, so that a caller whose text is one of thousands is not dear.
const TEXTS_MAX: usize = 64;

impl Texts {
    fn add(&mut self, key: TextKey) {
        match self.counts.iter().position(|it| it.0 == key) {
            Some(at) => self.counts[at].1 += 1,
            None if self.counts.len() < TEXTS_MAX => self.counts.push((key, 1)),
            None => self.uncounted += 1,
        }
    }

    fn remove(&mut self, key: TextKey) {
        match self.counts.iter().position(|it| it.0 == key) {
            Some(at) if self.counts[at].1 == 1 => drop(self.counts.swap_remove(at)),
            Some(at) => self.counts[at].1 -= 1,
            None => self.uncounted -= 1,
        }
    }
}

fn order(waiter: Option<&Waiter>) -> Option<u64> {
    waiter.map(|waiter| waiter.order)
}
