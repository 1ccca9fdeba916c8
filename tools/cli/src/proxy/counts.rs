//! The proxy's counts as lines: one for each interval while it runs, and one for the whole at its
//! end.

use std::time::{Duration, Instant};

use onetrip_lab::proxy::{ConnectionStats, Stats};

use crate::output::thousands;

/// The counts since the beginning or the last reset, and what they were an interval ago.
pub(super) struct Counts {
    since: Instant,
    /// Connections that were open then.
    open_before: u64,
    last: Instant,
    before: Stats,
}

impl Counts {
    /// Begins to count, with this many connections open.
    pub(super) fn begin(now: Instant, open: usize) -> Counts {
        Counts { since: now, open_before: open as u64, last: now, before: Stats::default() }
    }

    /// The line of the interval that ends now, and whether anything happened in it. The least
    /// important part stands at its end, where a terminal cuts a long line.
    pub(super) fn interval(&mut self, stats: Stats, now: Instant) -> (String, bool) {
        let elapsed = now - self.last;
        let trips = stats.trips.saturating_sub(self.before.trips);
        let happened = trips > 0 || stats.open.len() != self.before.open.len();
        let line = format!(
            "{:.0} s: {} trips/s; {}; {}{}",
            (now - self.since).as_secs_f64(),
            rate(trips, elapsed),
            told(&stats),
            several(stats.open.len() as u64, "connection"),
            self.by_connection(&stats, elapsed),
        );
        (self.last, self.before) = (now, stats);
        (line, happened)
    }

    /// All counts in one line.
    pub(super) fn summary(&self, stats: &Stats, now: Instant) -> String {
        let elapsed = now - self.since;
        format!(
            "{}, {}, {}/s in {:.1} s, {} bytes up, {} bytes down",
            several(self.open_before + stats.connections, "connection"),
            told(stats),
            rate(stats.trips, elapsed),
            elapsed.as_secs_f64(),
            stats.bytes_up,
            stats.bytes_down
        )
    }

    /// The busiest open connections: their trips, and the trips per second.
    fn by_connection(&self, stats: &Stats, elapsed: Duration) -> String {
        let before = |id| self.before.open.iter().find(|it| it.id == id).map_or(0, |it| it.trips);
        let lately = |it: &ConnectionStats| it.trips.saturating_sub(before(it.id));
        let mut open: Vec<(&ConnectionStats, u64)> =
            stats.open.iter().map(|it| (it, lately(it))).collect();
        open.sort_by_key(|(it, lately)| std::cmp::Reverse((*lately, it.trips)));
        let shown = open.iter().take(SHOWN).map(|(it, lately)| {
            let trips = thousands(it.trips as f64);
            format!("#{} {trips}, {}/s", it.id + 1, rate(*lately, elapsed))
        });
        let mut shown: Vec<String> = shown.collect();
        if open.len() > SHOWN {
            shown.push(format!("and {} more", open.len() - SHOWN));
        }
        if shown.is_empty() { String::new() } else { format!(" ({})", shown.join("; ")) }
    }
}

/// How many connections a line shows.
const SHOWN: usize = 3;

/// `1,204 trips: 1,180 one after the other, 24 side by side`.
fn told(stats: &Stats) -> String {
    let waited_for = stats.trips.saturating_sub(stats.side_by_side);
    format!(
        "{} ({} one after the other, {} side by side)",
        several(stats.trips, "trip"),
        thousands(waited_for as f64),
        thousands(stats.side_by_side as f64)
    )
}

fn rate(count: u64, elapsed: Duration) -> String {
    /// Rates above this are shown without a fraction.
    const WHOLE: f64 = 100.0;
    match count as f64 / elapsed.as_secs_f64().max(1e-9) {
        0.0 => "0".to_owned(),
        rate if rate < WHOLE => format!("{rate:.1}"),
        rate => thousands(rate),
    }
}

fn several(count: u64, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {word}{plural}", thousands(count as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(open: &[(u64, u64)], closed: u64, side_by_side: u64) -> Stats {
        let open: Vec<ConnectionStats> = open
            .iter()
            .map(|(id, trips)| ConnectionStats { id: *id, trips: *trips, ..Default::default() })
            .collect();
        let trips = closed + open.iter().map(|it| it.trips).sum::<u64>();
        Stats { connections: 2, trips, side_by_side, bytes_up: 7, bytes_down: 9, open }
    }

    #[test]
    fn an_interval_tells_rates_by_connection_and_the_total_since_the_reset() {
        let start = Instant::now();
        let after = |s: u64| start + Duration::from_secs(s);
        let mut counts = Counts::begin(start, 0);
        let (line, happened) = counts.interval(stats(&[(0, 20), (1, 1500)], 0, 0), after(2));
        let said = "2 s: 760 trips/s; 1,520 trips (1,520 one after the other, 0 side by side); \
                    2 connections (#2 1,500, 750/s; #1 20, 10.0/s)";
        assert_eq!((line.as_str(), happened), (said, true));
        // The second is closed, and a third has come.
        let (line, _) = counts.interval(stats(&[(0, 21), (2, 4)], 1500, 5), after(4));
        let said = "4 s: 2.5 trips/s; 1,525 trips (1,520 one after the other, 5 side by side); \
                    2 connections (#3 4, 2.0/s; #1 21, 0.5/s)";
        assert_eq!(line, said);
        let (_, happened) = counts.interval(stats(&[(0, 21), (2, 4)], 1500, 5), after(6));
        assert!(!happened);
    }

    #[test]
    fn the_busiest_connections_are_shown_and_the_others_counted() {
        let start = Instant::now();
        let open: Vec<(u64, u64)> = (0..10).map(|id| (id, id)).collect();
        let mut counts = Counts::begin(start, 0);
        let (line, _) = counts.interval(stats(&open, 0, 0), start + Duration::from_secs(1));
        assert!(line.contains("(#10 9, 9.0/s; #9 8, 8.0/s; #8 7, 7.0/s; and 7 more)"), "{line}");
    }

    #[test]
    fn the_summary_counts_what_was_open_at_the_reset() {
        let start = Instant::now();
        let counts = Counts::begin(start, 3);
        let line = counts.summary(&stats(&[(0, 3)], 0, 1), start + Duration::from_millis(1500));
        let said = "5 connections, 3 trips (2 one after the other, 1 side by side), 2.0/s in 1.5 s, \
                    7 bytes up, 9 bytes down";
        assert_eq!(line, said);
    }
}
