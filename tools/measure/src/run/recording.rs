//! The last transfer of a repetition as the latency proxy saw it.

use std::time::Duration;

use onetrip_lab::proxy::{Direction, Passage, Proxy};

use super::plan::{Planned, Work};
use crate::results::Repetition;
use crate::target::Line;
use crate::timeline::{End, Message, Timeline, round_trips};
use crate::trips::Way;

/// The proxy that is to record a cell. Only transfers are: for a picture, one after another on one
/// connection.
pub(super) fn proxy<'a>(planned: &Planned, line: &'a Line) -> Option<&'a Proxy> {
    line.proxy().filter(|_| matches!(planned.work, Work::Trips(Way::Transfer(_))))
}

/// Until [`end`](Self::end).
pub(super) struct Recording<'a>(&'a Proxy);

/// What went over the line in a repetition.
pub(super) struct Recorded {
    trips: u64,
    passages: Vec<Passage>,
}

impl<'a> Recording<'a> {
    pub(super) fn begin(proxy: &'a Proxy) -> Recording<'a> {
        proxy.reset_stats();
        proxy.record();
        Recording(proxy)
    }

    pub(super) fn end(self) -> Recorded {
        Recorded { trips: self.0.stats().trips, passages: self.0.recorded() }
    }
}

impl Recorded {
    /// The last operation of a repetition. None where not every trip is an operation's: each has as
    /// many as any other, and the client counted those that the proxy did.
    pub(super) fn timeline(&self, repetition: &Repetition) -> Option<Timeline> {
        let (trips, operations) = (repetition.trips?, repetition.operations);
        let is_clear = trips == self.trips && repetition.errors == 0 && operations > 0;
        let each = (is_clear && trips % operations == 0).then(|| trips / operations)?;
        let all: Vec<Message> = self.passages.iter().map(message).collect();
        let split = round_trips(&all);
        let last = split.len().checked_sub(usize::try_from(each).ok()?)?;
        let messages = split[last..].concat();
        let began_ms = messages.first()?.left_ms;
        let since = |it: Message| Message {
            left_ms: it.left_ms - began_ms,
            arrived_ms: it.arrived_ms - began_ms,
            ..it
        };
        Some(Timeline { trips: each, messages: messages.into_iter().map(since).collect() })
    }
}

fn message(passage: &Passage) -> Message {
    let (from, done) = match passage.direction {
        Direction::Up => (End::Client, Vec::new()),
        Direction::Down => (End::Server, commands(&passage.head)),
    };
    let (left_ms, arrived_ms) = (ms(passage.left), ms(passage.arrived));
    Message { from, left_ms, arrived_ms, bytes: passage.bytes as u64, done }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What CommandComplete messages name, without counts of rows. Nothing where these are not the
/// server's messages.
fn commands(mut bytes: &[u8]) -> Vec<String> {
    let mut commands = Vec::new();
    while let [kind, a, b, c, d, rest @ ..] = bytes
        && kind.is_ascii_alphanumeric()
        && let Some(length) = (u32::from_be_bytes([*a, *b, *c, *d]) as usize).checked_sub(4)
        && let Some((body, next)) = rest.split_at_checked(length)
    {
        if *kind == b'C'
            && let Ok(tag) = std::str::from_utf8(body.strip_suffix(&[0]).unwrap_or(body))
        {
            let is_word = |it: &&str| it.starts_with(|c: char| c.is_ascii_uppercase());
            let words: Vec<&str> = tag.split(' ').take_while(is_word).collect();
            commands.push(words.join(" "));
        }
        bytes = next;
    }
    commands
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A message of the server.
    fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn tag(tag: &str) -> Vec<u8> {
        framed(b'C', format!("{tag}\0").as_bytes())
    }

    #[test]
    fn commands_are_those_that_the_server_says_are_done() {
        let (ready, bound) = (framed(b'Z', b"T"), framed(b'2', b""));
        let all = [tag("BEGIN"), bound.clone(), tag("UPDATE 1"), bound, tag("INSERT 0 7"), ready];
        assert_eq!(commands(&all.concat()), ["BEGIN", "UPDATE", "INSERT"]);
        assert_eq!(commands(&tag("CREATE TABLE")), ["CREATE TABLE"]);
    }

    #[test]
    fn bytes_that_are_no_messages_name_nothing() {
        let encrypted = [0x17, 3, 3, 0, 80, 1, 2, 3];
        let whole = tag("UPDATE 1");
        for bytes in [&encrypted[..], &whole[..6], b"C\0\0\0\0UPDATE 1\0", b""] {
            assert_eq!(commands(bytes), [""; 0], "{bytes:?}");
        }
    }

    /// Two operations of two trips each, 10 ms each way.
    fn recorded(trips: u64) -> Recorded {
        let passage = |(i, direction): (u64, Direction)| Passage {
            connection: 0,
            direction,
            left: Duration::from_millis(3 + 10 * i),
            arrived: Duration::from_millis(13 + 10 * i),
            bytes: i as usize,
            head: tag("UPDATE 1"),
        };
        let ways = [Direction::Up, Direction::Down].into_iter().cycle().take(8);
        Recorded { trips, passages: (0..).zip(ways).map(passage).collect() }
    }

    fn repetition(trips: u64) -> Repetition {
        Repetition { operations: 2, trips: Some(trips), ..Repetition::default() }
    }

    #[test]
    fn a_timeline_is_of_the_last_operation_and_begins_with_it() {
        let timeline = recorded(4).timeline(&repetition(4)).unwrap();
        assert_eq!((timeline.trips, timeline.ends_ms()), (2, 40.0));
        let bytes: Vec<u64> = timeline.messages.iter().map(|it| it.bytes).collect();
        assert_eq!(bytes, [4, 5, 6, 7]);
        assert_eq!(timeline.round_trips().len(), 2);
        assert_eq!(timeline.messages[0].left_ms, 0.0);
        assert_eq!(
            (&timeline.messages[0].done[..], &timeline.messages[1].done[..]),
            (&[][..], &["UPDATE".to_owned()][..])
        );
    }

    #[test]
    fn where_trips_are_not_those_of_the_operations_there_is_none() {
        assert_eq!(recorded(5).timeline(&repetition(4)), None);
        assert_eq!(recorded(5).timeline(&repetition(5)), None);
        let failed = Repetition { errors: 1, ..repetition(4) };
        assert_eq!(recorded(4).timeline(&failed), None);
        assert_eq!(recorded(4).timeline(&Repetition::default()), None);
        assert_eq!(recorded(20).timeline(&repetition(20)), None);
    }
}
