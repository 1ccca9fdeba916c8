//! One operation as it went over the line: what left when, and when it arrived.

use serde::{Deserialize, Serialize};

/// An operation as the latency proxy saw it, which stands beside the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Trips that the client counted for it.
    pub trips: u64,
    /// All that went over the line, in the order in which it left.
    pub messages: Vec<Message>,
}

/// What one end wrote at once. Times count from when the first message left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who wrote it.
    pub from: End,
    /// When it left.
    pub left_ms: f64,
    /// When the other end had it.
    pub arrived_ms: f64,
    /// How long it is.
    pub bytes: u64,
    /// Commands that it tells the client are done, as the server names them: `BEGIN`, `UPDATE`.
    /// Empty where the connection is encrypted.
    pub done: Vec<String>,
}

/// An end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The program that asks.
    Client,
    /// The server.
    Server,
}

impl Timeline {
    /// When the last message arrived.
    pub fn ends_ms(&self) -> f64 {
        self.messages.iter().map(|it| it.arrived_ms).fold(0.0, f64::max)
    }

    /// Its trips.
    pub fn round_trips(&self) -> Vec<Trip<'_>> {
        round_trips(&self.messages).into_iter().map(Trip).collect()
    }

    /// How long the server had a request and had not answered all of it.
    pub fn at_work_ms(&self) -> f64 {
        self.round_trips().iter().filter_map(Trip::at_work_ms).map(|(from, to)| to - from).sum()
    }
}

/// What the client wrote, and what came back before it wrote again.
#[derive(Clone, Copy, Debug)]
pub struct Trip<'a>(pub &'a [Message]);

impl<'a> Trip<'a> {
    /// What it asked for: what its answers say is done.
    pub fn commands(&self) -> Vec<&'a str> {
        self.0.iter().flat_map(|it| it.done.iter().map(String::as_str)).collect()
    }

    /// From when to when the server had the request and had not answered all of it.
    pub fn at_work_ms(&self) -> Option<(f64, f64)> {
        let of = |end: End| self.0.iter().filter(move |it| it.from == end);
        let from = of(End::Client).map(|it| it.arrived_ms).reduce(f64::min)?;
        let to = of(End::Server).map(|it| it.left_ms).reduce(f64::max)?;
        Some((from, to.max(from)))
    }
}

/// Messages in the order in which they left, trip by trip: a trip begins with what the client
/// writes after bytes of the server have arrived since it last wrote.
pub(crate) fn round_trips(messages: &[Message]) -> Vec<&[Message]> {
    let is_first = |at: usize| {
        let before = &messages[..at];
        let wrote = before.iter().rev().find(|it| it.from == End::Client);
        let since = wrote.map_or(f64::NEG_INFINITY, |it| it.left_ms);
        let answered = |it: &Message| {
            it.from == End::Server && (since..=messages[at].left_ms).contains(&it.arrived_ms)
        };
        messages[at].from == End::Client && (wrote.is_none() || before.iter().any(answered))
    };
    let mut starts: Vec<usize> = (0..messages.len()).filter(|at| is_first(*at)).collect();
    starts.push(messages.len());
    starts.windows(2).map(|it| &messages[it[0]..it[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `c` and `s` say who wrote; the numbers when it left and arrived.
    fn messages(all: &[(char, f64, f64)]) -> Vec<Message> {
        let message = |(from, left_ms, arrived_ms): &(char, f64, f64)| Message {
            from: if *from == 'c' { End::Client } else { End::Server },
            left_ms: *left_ms,
            arrived_ms: *arrived_ms,
            bytes: 1,
            done: Vec::new(),
        };
        all.iter().map(message).collect()
    }

    fn lengths(all: &[(char, f64, f64)]) -> Vec<usize> {
        round_trips(&messages(all)).iter().map(|it| it.len()).collect()
    }

    #[test]
    fn a_trip_begins_when_the_client_writes_after_an_answer_has_arrived() {
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[('c', 0.0, 5.0), ('s', 5.1, 10.1), ('c', 10.1, 15.0)]), [2, 1]);
        // The second was written before the answer to the first had arrived.
        let early = [('c', 0.0, 5.0), ('s', 5.1, 10.1), ('c', 10.0, 15.0), ('s', 15.0, 20.0)];
        assert_eq!(lengths(&early), [4]);
        let two_answers = [('c', 0.0, 5.0), ('s', 5.1, 10.1), ('s', 5.4, 10.4), ('c', 11.0, 16.0)];
        assert_eq!(lengths(&two_answers), [3, 1]);
    }

    #[test]
    fn the_server_is_at_work_from_a_request_to_the_last_of_its_answers() {
        let all = [
            ('c', 0.0, 5.0),
            ('s', 5.5, 10.5),
            ('s', 7.0, 12.0),
            ('c', 12.0, 17.0),
            ('s', 18.0, 23.0),
        ];
        let timeline = Timeline { trips: 2, messages: messages(&all) };
        let at_work: Vec<_> = timeline.round_trips().iter().map(Trip::at_work_ms).collect();
        assert_eq!(at_work, [Some((5.0, 7.0)), Some((17.0, 18.0))]);
        assert_eq!((timeline.at_work_ms(), timeline.ends_ms()), (3.0, 23.0));
    }

    #[test]
    fn what_the_server_says_first_belongs_to_no_trip() {
        assert_eq!(lengths(&[('s', 0.0, 5.0), ('c', 5.5, 10.0), ('s', 10.0, 15.0)]), [2]);
    }
}
