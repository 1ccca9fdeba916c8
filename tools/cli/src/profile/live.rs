//! `onetrip profile --live`: what was found so far, on the whole terminal.

use std::io::{self, IsTerminal, Stdout, stdout};
use std::time::{Duration, Instant};

use onetrip_lab::proxy::Proxy;
use onetrip_profile::{Finding, Profile, Shape};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use ratatui::{Frame, Terminal};

use super::analysis::Analysis;
use super::summary::{cut, ms, several};
use crate::output::thousands;
use crate::stop::Stop;

/// The terminal while it shows the view. Dropped, it shows what it did before.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// # Errors
    /// Standard output is no terminal, in one line.
    pub(super) fn open() -> Result<Screen, String> {
        let failed = |error: io::Error| format!("--live: the terminal can't be used: {error}");
        if !stdout().is_terminal() {
            return Err("--live needs a terminal: leave it out to have plain lines".to_owned());
        }
        enable_raw_mode().map_err(failed)?;
        let opened = execute!(stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        opened.map(Screen).map_err(|error| {
            close();
            failed(error)
        })
    }

    /// Shows what is found until a key or a signal ends it.
    ///
    /// # Errors
    /// The terminal is gone, in one line.
    pub(super) fn watch(
        &mut self,
        proxy: &Proxy,
        analysis: &Analysis,
        stop: &Stop,
        name: &str,
        interval: Duration,
    ) -> Result<(), String> {
        let failed = |error| format!("--live: the terminal can't be used: {error}");
        let mut view = View::new(format!("{} -> {name}", proxy.addr()));
        loop {
            view.update(analysis, proxy.stats().open.len());
            self.0.draw(|frame| view.draw(frame)).map_err(failed)?;
            let next = Instant::now() + interval;
            while let Some(left) = next.checked_duration_since(Instant::now()) {
                // A signal interrupts nothing here, so it is looked for now and then.
                let is_typed = event::poll(left.min(LOOK)).map_err(failed)?;
                let ends = is_typed && ends(&event::read().map_err(failed)?);
                if ends || stop.is_requested() {
                    return Ok(());
                }
            }
        }
    }
}

/// How long a signal may go unnoticed: 0.2 s.
const LOOK: Duration = Duration::from_millis(200);

impl Drop for Screen {
    fn drop(&mut self) {
        close();
    }
}

/// Gives the terminal back. It is harmless where that was not taken.
pub(super) fn close() {
    let _ = execute!(stdout(), LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// In this mode Ctrl-C is a key and no signal.
fn ends(event: &Event) -> bool {
    let Event::Key(KeyEvent { code, modifiers, .. }) = event else { return false };
    match code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

/// What is shown.
struct View {
    name: String,
    start: Instant,
    connections: usize,
    lost: u64,
    found: Profile,
    /// Units and trips at the last look, and when that was.
    before: (u64, f64, Instant),
    rates: (f64, f64),
}

impl View {
    fn new(name: String) -> View {
        let start = Instant::now();
        View {
            name,
            start,
            connections: 0,
            lost: 0,
            found: Profile::default(),
            before: (0, 0.0, start),
            rates: (0.0, 0.0),
        }
    }

    fn update(&mut self, analysis: &Analysis, connections: usize) {
        self.connections = connections;
        self.lost = analysis.ring().lost().pieces;
        if let Some(found) = analysis.snapshot() {
            self.found = found;
            let now = Instant::now();
            let (units, trips, at) = self.before;
            let seconds = (now - at).as_secs_f64().max(1e-3);
            let units = self.found.units.saturating_sub(units) as f64 / seconds;
            self.rates = (units, (self.found.trips.now - trips) / seconds);
            self.before = (self.found.units, self.found.trips.now, now);
        }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let areas = Layout::vertical([
            Constraint::Length(3),
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Length(1),
        ]);
        let [head, shapes, findings, foot] = areas.areas(frame.area());
        let lines = Layout::vertical([Constraint::Length(1); 3]).split(head);
        frame.render_widget(Line::from(self.head()).bold(), lines[0]);
        frame.render_widget(Line::from(self.numbers()), lines[1]);
        frame.render_widget(Line::from(self.lossy()).red(), lines[2]);
        frame.render_widget(self.shapes(shapes), shapes);
        frame.render_widget(self.findings(findings), findings);
        frame.render_widget(Line::from("q ends it and writes what was found").dim(), foot);
    }

    fn head(&self) -> String {
        let rtt =
            self.found.rtt_ms.map_or_else(String::new, |it| format!(", round trip {it:.2} ms"));
        let seconds = self.start.elapsed().as_secs();
        let connections = several(self.connections as u64, "connection");
        format!("{}   {seconds} s, {connections}{rtt}", self.name)
    }

    fn numbers(&self) -> String {
        format!(
            "{} units/s, {} trips/s; {}: proven {}, at best {}; unknown {:.0} %",
            thousands(self.rates.0),
            thousands(self.rates.1),
            several(self.found.trips.now as u64, "trip"),
            thousands(self.found.trips.proven),
            thousands(self.found.trips.floor),
            self.found.unknown * 100.0
        )
    }

    fn lossy(&self) -> String {
        match self.lost {
            0 => String::new(),
            lost => format!("LOSSY: {} not analysed", several(lost, "piece")),
        }
    }

    fn shapes(&self, area: Rect) -> Table<'_> {
        let row = |it: &Shape| {
            let trips = it.trips.now * it.count as f64;
            let numbers = [it.trips.now, it.trips.proven, it.trips.floor];
            let numbers = numbers.map(|it| format!("{it:.1}"));
            let mut cells = vec![thousands(trips), thousands(it.count as f64)];
            cells.extend(numbers);
            cells.push(cut(&it.name, usize::from(area.width)));
            let name = cells.pop().map(Cell::from);
            Row::new(cells.into_iter().map(right).chain(name))
        };
        let widths = [9, 9, 6, 6, 7].map(Constraint::Length);
        let widths = widths.into_iter().chain([Constraint::Fill(1)]);
        let head = ["trips", "units", "now", "proven", "at best", "units of"];
        Table::new(self.found.shapes.iter().map(row), widths)
            .header(Row::new(head).style(Style::new().underlined()))
    }

    fn findings(&self, area: Rect) -> Table<'_> {
        let row = |it: &Finding| {
            let statement = it.statements.last().map_or("", String::as_str);
            let text = format!("{}: {}; {statement}", it.kind, it.title);
            Row::new([
                right(thousands(it.saves_trips)),
                right(ms(it.saves_ms)),
                Cell::from(cut(&text, usize::from(area.width))),
            ])
        };
        let widths = [Constraint::Length(9), Constraint::Length(9), Constraint::Fill(1)];
        let head = ["saves", "time", "finding"];
        Table::new(self.found.findings.iter().map(row), widths)
            .header(Row::new(head).style(Style::new().underlined()))
    }
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use onetrip_profile::Trips;
    use ratatui::backend::TestBackend;

    use super::*;

    fn shown(view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(80, 12)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_view_has_the_numbers_the_shapes_and_the_findings() {
        let trips = Trips { now: 11.0, wire: 11.0, proven: 3.0, floor: 2.0 };
        let mut view = View::new("127.0.0.1:1 -> db:5432".to_owned());
        view.found = Profile {
            trips: Trips { now: 1100.0, ..trips },
            shapes: vec![Shape {
                name: "GET /users".into(),
                count: 100,
                trips,
                ..Shape::default()
            }],
            findings: vec![Finding {
                kind: "n+1".into(),
                title: "a loop".into(),
                saves_trips: 900.0,
                ..Finding::default()
            }],
            ..Profile::default()
        };
        let said = shown(&view);
        for part in ["-> db:5432", "1,100 trips", "GET /users", "11.0", "n+1: a loop", "q ends"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("LOSSY"), "{said}");
        view.lost = 7;
        assert!(shown(&view).contains("LOSSY: 7 pieces"), "{}", shown(&view));
    }

    #[test]
    fn a_small_terminal_is_enough() {
        let mut terminal = Terminal::new(TestBackend::new(1, 1)).unwrap();
        terminal.draw(|frame| View::new(String::new()).draw(frame)).unwrap();
    }

    #[test]
    fn keys_end_it() {
        let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
        assert!(ends(&key(KeyCode::Char('q'), KeyModifiers::NONE)));
        assert!(ends(&key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!ends(&key(KeyCode::Char('c'), KeyModifiers::NONE)));
    }
}
