//! A unit as a waterfall: a row for each statement, with its bars along the time.

use maud::{Markup, html};

use super::number::Amount;
use crate::profile::Statement;

/// Rows of a drawing. What is behind them is one bar.
const ROWS_MAX: usize = 40;
/// The height of a row in CSS pixels, and where its bar is; `style.css` has the same height.
const ROW: usize = 40;
const BAR: usize = 24;
const BAR_HEIGHT: usize = 10;

/// What a statement costs whoever sends it, and whenever.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    server_ms: f64,
    /// The program's time before it.
    program_ms: f64,
}

/// When things happened to a statement.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// The program's time before its trip, of the first statement of a trip.
    program: Option<(Amount, Amount)>,
    /// It left, reached the server, was begun there, was done there, and its answer was there.
    begin: Amount,
    arrived: Amount,
    begun: Amount,
    done: Amount,
    end: Amount,
}

/// A unit as it was, or as it could be.
pub(super) struct Waterfall<'a> {
    statements: &'a [Statement],
    rows: Vec<Row>,
    pub(super) whole: Amount,
    pub(super) trips: usize,
}

/// Which trips: as it was, with what is proven folded, at best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Now = 0,
    Proven = 1,
    Floor = 2,
}

/// All ways of a unit. `network_ms` is what a trip took on the network in the mean.
pub(super) fn waterfalls(
    statements: &[Statement],
    network_ms: f64,
    rtt_ms: f64,
) -> [Waterfall<'_>; 3] {
    let costs = costs(statements, network_ms);
    let trip = if rtt_ms > 0.0 { network_ms / rtt_ms } else { 1.0 };
    [Way::Now, Way::Proven, Way::Floor].map(|way| plan(statements, &costs, way, trip))
}

/// The server answers in order, so each statement of a trip has the time since the one before it.
fn costs(statements: &[Statement], network_ms: f64) -> Vec<Cost> {
    let (mut costs, mut before) = (vec![Cost::default(); statements.len()], None);
    for (trip, of_trip) in trips(statements, Way::Now) {
        let begin = of_trip.iter().map(|it| it.begin_ms).fold(f64::MAX, f64::min);
        // A trip that was shorter than the network at its mean leaves the rest to the program.
        let gap = before.map_or(0.0, |(end, debt): (f64, f64)| (begin - end - debt).max(0.0));
        costs[trip].program_ms = gap;
        let mut at = begin + network_ms;
        for (n, it) in of_trip.iter().enumerate() {
            costs[trip + n].server_ms = (it.end_ms - at).max(0.0);
            at = at.max(it.end_ms);
        }
        let end = of_trip.iter().map(|it| it.end_ms).fold(0.0, f64::max);
        before = Some((end, (network_ms - (end - begin)).max(0.0)));
    }
    costs
}

/// The statements of each trip, with the place of the first.
fn trips(statements: &[Statement], way: Way) -> impl Iterator<Item = (usize, &[Statement])> {
    let same = move |a: &Statement, b: &Statement| a.trip[way as usize] == b.trip[way as usize];
    let mut at = 0;
    statements.chunk_by(same).map(move |it| {
        at += it.len();
        (at - it.len(), it)
    })
}

/// Lays trips behind one another, each as long as a trip of the network and what its statements
/// cost the server.
fn plan<'a>(statements: &'a [Statement], costs: &[Cost], way: Way, trip: f64) -> Waterfall<'a> {
    let mut all = Waterfall { statements, rows: Vec::new(), whole: Amount::default(), trips: 0 };
    for (first, of_trip) in trips(statements, way) {
        let costs = &costs[first..first + of_trip.len()];
        let program = Amount::fixed(costs.iter().map(|it| it.program_ms).sum());
        let begin = all.whole + program;
        let arrived = begin + Amount::of_trips(trip / 2.0);
        let mut begun = arrived;
        for (n, cost) in costs.iter().enumerate() {
            let done = begun + Amount::fixed(cost.server_ms);
            let end = done + Amount::of_trips(trip / 2.0);
            let program = (n == 0 && program.fixed > 0.0).then_some((all.whole, begin));
            all.rows.push(Row { program, begin, arrived, begun, done, end });
            begun = done;
        }
        all.whole = begun + Amount::of_trips(trip / 2.0);
        all.trips += 1;
    }
    all
}

impl Waterfall<'_> {
    /// The drawing, in the scale of a whole that is as long as `scale`.
    pub(super) fn drawn(&self, way: Way, scale: Amount, rtt_ms: f64) -> Markup {
        let paper = Paper { scale, rtt_ms };
        let shown = self.rows.len().min(ROWS_MAX);
        let height = (shown + usize::from(shown < self.rows.len())) * ROW;
        html! {
            div.fall data-scale=(scale.data()) {
                svg aria-hidden="true" height=(height) {
                    @for (at, row) in self.rows.iter().take(shown).enumerate() {
                        (paper.row(row, at * ROW + BAR))
                    }
                    @if let (Some(from), Some(to)) = (self.rows.get(shown), self.rows.last()) {
                        (paper.bar("rest", from.begin, to.end, shown * ROW + BAR))
                    }
                    @for (at, it) in self.statements.iter().take(shown).enumerate() {
                        @for from in it.values_of.iter().filter_map(|it| usize::try_from(*it).ok())
                            .filter(|it| *it < at) {
                            (paper.arrow((self.rows[from].end, from), (self.rows[at].begin, at)))
                        }
                    }
                }
                ol {
                    @for (at, it) in self.statements.iter().take(shown).enumerate() {
                        li { code title=(it.text) { (super::cut(&it.text, 160)) }
                            @if way == Way::Now { (label(it)) }
                            @else if at == 0 || self.is_new_trip(at, way) {
                                span.gap { "trip " (it.trip[way as usize] + 1) }
                            }
                        }
                    }
                    @if shown < self.rows.len() {
                        li { "… and " (self.rows.len() - shown) " more" }
                    }
                }
            }
        }
    }

    fn is_new_trip(&self, at: usize, way: Way) -> bool {
        self.statements[at].trip[way as usize] != self.statements[at - 1].trip[way as usize]
    }
}

/// What stands between a statement and the one before it.
fn label(it: &Statement) -> Markup {
    let (class, said, why) = match it.label.as_str() {
        "overlapped" => ("free", "overlaps", "It left before the answer to the one before it."),
        "protocol" => ("folds", "protocol", "It waited for the protocol only, and need not."),
        "pinned" => ("waits", "pinned", "The protocol makes it wait."),
        "value" => ("waits", "takes a value", "A parameter is a value of the result before it."),
        "control" => ("waits", "decided", "Whether it follows varied with the result before it."),
        "independent" => ("folds", "independent", "It followed whatever came back."),
        "unknown" => ("unknown", "unknown", "It may have had to wait, or not."),
        _ => return html! {},
    };
    html! {
        span class={ "gap " (class) } title=(why) {
            (said)
            @if let Some((n, k)) = it.evidence { " n=" (n) " k=" (k) }
        }
    }
}

struct Paper {
    scale: Amount,
    rtt_ms: f64,
}

impl Paper {
    fn row(&self, row: &Row, y: usize) -> Markup {
        html! {
            @if let Some((from, to)) = row.program { (self.bar("program", from, to, y)) }
            (self.bar("network", row.begin, row.arrived, y))
            @if row.begun != row.arrived { (self.bar("queue", row.arrived, row.begun, y)) }
            (self.bar("server", row.begun, row.done, y))
            (self.bar("network", row.done, row.end, y))
        }
    }

    fn bar(&self, class: &str, from: Amount, to: Amount, y: usize) -> Markup {
        let width = Amount { fixed: to.fixed - from.fixed, trips: to.trips - from.trips };
        html! {
            rect class=(class) y=(y) height=(BAR_HEIGHT)
                x=(self.percent(from)) width=(self.percent(width))
                data-at={ "0:" (from.data()) ";1:" (width.data()) } {}
        }
    }

    /// From the end of a row's bar to the beginning of a later one's.
    fn arrow(&self, (from, above): (Amount, usize), (to, below): (Amount, usize)) -> Markup {
        html! {
            line.value x1=(self.percent(from)) x2=(self.percent(to))
                y1=(above * ROW + BAR + BAR_HEIGHT) y2=(below * ROW + BAR - 1)
                marker-end="url(#arrow)"
                data-at={ "2:" (from.data()) ";3:" (to.data()) } {}
        }
    }

    fn percent(&self, amount: Amount) -> String {
        amount.percent(self.scale, self.rtt_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(begin_ms: f64, end_ms: f64, trip: [u32; 3]) -> Statement {
        Statement { begin_ms, end_ms, trip, ..Statement::default() }
    }

    #[test]
    fn a_unit_is_as_long_as_it_was_and_shorter_by_the_trips_that_are_folded() {
        // Three trips of 1 ms on the network; the server takes 0.5 ms, and the program 0.2 ms.
        let unit = [
            statement(0.0, 1.5, [0, 0, 0]),
            statement(1.7, 3.2, [1, 0, 0]),
            statement(3.4, 4.9, [2, 1, 0]),
        ];
        let [now, proven, floor] = waterfalls(&unit, 1.0, 1.0);
        let lengths = [&now, &proven, &floor].map(|it| (it.whole.at(1.0) * 1e6).round() / 1e6);
        assert_eq!(lengths, [4.9, 3.9, 2.9]);
        assert_eq!([now.trips, proven.trips, floor.trips], [3, 2, 1]);
        // At a round trip of 10 ms.
        assert!((now.whole.at(10.0) - 31.9).abs() < 1e-6);
    }

    #[test]
    fn statements_of_one_trip_wait_for_one_another_at_the_server() {
        let unit = [statement(0.0, 1.5, [0, 0, 0]), statement(0.0, 2.5, [0, 0, 0])];
        let [now, ..] = waterfalls(&unit, 1.0, 1.0);
        assert_eq!((now.rows[1].begun.at(1.0), now.rows[1].done.at(1.0)), (1.0, 2.0));
        assert_eq!(now.whole.at(1.0), 2.5);
    }
}
