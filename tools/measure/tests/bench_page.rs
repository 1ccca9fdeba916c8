//! Pages of `make bench`: nothing is lost, what is lost comes first, and charts are whole files.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use onetrip_measure::report::benchmarks;
use roxmltree::Document;
use serde_json::{Value, json};
use tempfile::TempDir;

const DATE: &str = "2026-11-24";

/// A row whose ratio has a bar.
fn row(name: &str, ratio: f64, bar: Value) -> Value {
    let holds = bar.as_f64().map(|bar| ratio <= bar);
    json!({
        "name": name, "unit": "µs/op", "ours": ratio * 8.0, "peer": 8.0,
        "peer_version": "tokio-postgres 0.7.18",
        "ratio": ratio, "spread": [ratio * 0.9, ratio * 1.1],
        "bar": bar, "bar_is": "max", "holds": holds, "note": "one after the other",
    })
}

fn with(mut row: Value, changes: Value) -> Value {
    row.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    row
}

/// Some of each group; six are lost: those whose names are in `LOST`.
fn rows() -> Vec<Value> {
    let alone = json!({
        "ratio": null, "peer": null, "peer_version": null, "note": "worst | of <3> *runs*",
    });
    let rate = json!({ "unit": "1/s" });
    let at_least = json!({ "unit": "1/s", "bar": 1.5, "bar_is": "min", "holds": true });
    let nothing = json!({
        "ours": null, "peer": null, "ratio": null, "spread": null, "unit": "",
        "note": "skipped: there is no libpq",
    });
    vec![
        row("select_100_sync_each.cpu", 0.5, json!(0.8)),
        row("select_100_sync_each.time", 1.5, json!(1.05)),
        row("rows_100k_owned.time", 1.2, Value::Null),
        with(row("checkout_return.bb8.threads_2.rate", 2.9, Value::Null), at_least),
        with(row("redis_depth.in_flight_1000", 0.6, Value::Null), rate.clone()),
        with(row("redis_depth.in_flight_1", 1.1, Value::Null), rate),
        row("redis_1000.get.redis_rs.cpu", 40.0, json!(0.6)),
        row("node_in_flight_100.value.pg.cpu", 0.4, json!(0.65)),
        row("node_in_flight_100.value.modern.pg.cpu", 0.5, Value::Null),
        with(row("overload_rss", 7.0, json!(64.0)), with(alone.clone(), json!({ "unit": "MiB" }))),
        with(row("chaos.wrong", 0.0, json!(0.0)), with(alone, json!({ "unit": "findings" }))),
        row("neighbours.mixed_10.p99.sqlx", 0.2, json!(1.0)),
        row("floor_redis_1000.get.cpu", 1.8, json!(1.5)),
        row("floor_redis_1000.get.time", 2.4, Value::Null),
        row("engine_depth", 1.4, json!(1.3)),
        with(row("select_100_one_sync", 0.0, Value::Null), nothing),
        row("something_new.cpu", 0.9, json!(1.0)),
    ]
}

const LOST: [&str; 6] = [
    "select_100_sync_each.time",
    "rows_100k_owned.time",
    "redis_depth.in_flight_1000",
    "redis_1000.get.redis_rs.cpu",
    "floor_redis_1000.get.cpu",
    "engine_depth",
];

fn environment() -> Value {
    json!({ "measured_at": "2026-11-24T10:00:00Z", "cpu": "AMD EPYC", "cores": 2,
        "postgres": "15.18", "profile": "release", "libpq": null })
}

/// A directory of pages, and files of rows beside it.
struct Pages(TempDir);

impl Pages {
    fn new() -> Pages {
        let pages = Pages(tempfile::tempdir().unwrap());
        fs::create_dir(pages.dir()).unwrap();
        let list = "# Pages\n\n<!-- pages -->\nold\n<!-- /pages -->\n\nThe end.\n";
        fs::write(pages.dir().join("README.md"), list).unwrap();
        pages
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("pages")
    }

    fn measured(&self, name: &str, rows: &[Value], environment: &Value) -> PathBuf {
        let path = self.0.path().join(format!("{name}.json"));
        fs::write(&path, json!(rows).to_string()).unwrap();
        let beside = self.0.path().join(format!("{name}-environment.json"));
        fs::write(beside, environment.to_string()).unwrap();
        path
    }

    fn write(&self, files: &[PathBuf]) -> String {
        benchmarks::write(files, None, &self.dir()).unwrap();
        self.read(&format!("{DATE}.md"))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir().join(name)).unwrap()
    }

    /// All files with what is in them.
    fn all(&self) -> BTreeMap<PathBuf, String> {
        let paths = fs::read_dir(self.dir()).unwrap().map(|it| it.unwrap().path());
        paths.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
    }

    fn charts(&self) -> Vec<String> {
        let is_chart = |path: &Path| path.extension().is_some_and(|it| it == "svg");
        self.all().into_iter().filter(|(path, _)| is_chart(path)).map(|(_, text)| text).collect()
    }
}

fn name(row: &Value) -> &str {
    row["name"].as_str().unwrap()
}

#[test]
fn what_is_lost_comes_first_and_every_row_stands_there_once() {
    let pages = Pages::new();
    let page = pages.write(&[pages.measured("bench", &rows(), &environment())]);
    let (lost, others) = page.split_once("\n## PostgreSQL in Rust\n").unwrap();
    for row in &rows() {
        let cell = format!("<br>`{}` |", name(row));
        let is_lost = LOST.contains(&name(row));
        let found = [lost, others].map(|part| part.matches(&cell).count());
        assert_eq!(found, [usize::from(is_lost), usize::from(!is_lost)], "{}", name(row));
    }
    assert!(page.contains("**17 rows: 7 of 11 bars hold.**\nIn 2 rows without a bar"), "{page}");
    let cells = |start: &str| page.lines().find(|it| it.starts_with(start)).unwrap().to_owned();
    let line = cells("| Point selects, 100 in flight, a Sync each: time<br>");
    let figures =
        "| 12 µs/op | 8 µs/op, tokio-postgres 0.7.18 | 1.50 | 1.35–1.65 | ≤ 1.05 | **no** |";
    assert!(line.replace('\u{a0}', " ").ends_with(figures), "{line}");
    assert!(cells("| Point selects, one Sync for 100<br>").ends_with("| skipped |"));
    assert!(cells("| `overload_rss`").contains("worst \\| of &lt;3> \\*runs\\*"));
}

#[test]
fn a_chart_is_a_whole_file_with_each_row_that_has_a_bar_or_is_lost() {
    let pages = Pages::new();
    let page = pages.write(&[pages.measured("bench", &rows(), &environment())]);
    let charts = pages.charts();
    assert_eq!(page.matches(".svg)\n").count(), charts.len());
    let mut bars = 0;
    for chart in &charts {
        let document = Document::parse(chart).unwrap();
        assert!(document.root_element().attribute("viewBox").is_some());
        let class = |it: &roxmltree::Node<'_, '_>| it.attribute("class").map(str::to_owned);
        let rects = document.descendants().filter(|it| it.has_tag_name("rect"));
        let bar = |it: &Option<String>| matches!(it.as_deref(), Some("good" | "bad"));
        // Two are the key's.
        bars += rects.map(|it| class(&it)).filter(bar).count() - 2;
        assert!(chart.contains("prefers-color-scheme:dark") && chart.contains("logarithmic"));
        for needle in ["<script", "href", "url(", "@import", "<image", "NaN", "inf"] {
            assert!(!chart.contains(needle), "{needle}: {chart}");
        }
    }
    let shown = |row: &&Value| {
        let has_bar = row["bar"].as_f64().is_some_and(|it| it > 0.0);
        has_bar || LOST.contains(&name(row))
    };
    assert_eq!(bars, rows().iter().filter(shown).count());
}

#[test]
fn the_same_figures_give_the_same_files_also_from_the_page_itself() {
    let pages = Pages::new();
    let earlier = pages.measured("earlier", &rows()[..9], &json!({}));
    let later = pages.measured("later", &rows()[7..], &environment());
    pages.write(&[earlier.clone(), later.clone()]);
    let first = pages.all();
    pages.write(&[earlier, later]);
    assert_eq!(pages.all(), first);
    pages.write(&[pages.dir().join(format!("{DATE}.json"))]);
    assert_eq!(pages.all(), first);
    let kept: Vec<Value> = serde_json::from_str(&pages.read(&format!("{DATE}.json"))).unwrap();
    assert_eq!(kept, rows());
}

#[test]
fn rows_of_a_later_file_take_the_places_of_earlier_ones() {
    let pages = Pages::new();
    let earlier = pages.measured("earlier", &rows(), &with(environment(), json!({ "cores": 4 })));
    let again = [row("select_100_sync_each.time", 0.9, json!(1.05))];
    let page = pages.write(&[earlier, pages.measured("later", &again, &environment())]);
    assert_eq!(page.matches("`select_100_sync_each.time`").count(), 1);
    assert!(page.contains("| 0.90 | 0.81–0.99 | ≤\u{a0}1.05 | yes |"), "{page}");
    assert!(page.contains("| cores | rows |\n|---|---|\n| 4 | all others |\n| 2 | `select_100"));
}

#[test]
fn pages_are_listed_the_newest_first_and_charts_of_earlier_ones_go() {
    let pages = Pages::new();
    let file = |name: &str| pages.dir().join(name);
    for (name, title) in [("2026-11-earlier.md", "# Earlier\n"), ("2026-11-07.md", "# Of 7\n")] {
        fs::write(file(name), title).unwrap();
    }
    fs::write(file(&format!("{DATE}-gone.svg")), "").unwrap();
    fs::write(file("2026-11-07-rust.svg"), "").unwrap();
    pages.write(&[pages.measured("bench", &rows(), &environment())]);
    let list = "# Pages\n\n<!-- pages -->\n- [Benchmarks of 2026-11-24](2026-11-24.md)\n\
                - [Of 7](2026-11-07.md)\n- [Earlier](2026-11-earlier.md)\n<!-- /pages -->\n\n\
                The end.\n";
    assert_eq!(pages.read("README.md"), list);
    assert!(!file(&format!("{DATE}-gone.svg")).exists() && file("2026-11-07-rust.svg").exists());
}

#[test]
fn what_makes_no_page_is_told_in_one_line_and_nothing_is_written() {
    let pages = Pages::new();
    let good = pages.measured("good", &rows(), &environment());
    let none = pages.0.path().join("none.json");
    let text = pages.measured("text", &[json!("text")], &environment());
    let debug = json!({ "profile": "debug: figures mean nothing" });
    let debug = pages.measured("debug", &rows(), &debug);
    let undated = pages.measured("undated", &rows(), &json!({}));
    let empty = pages.measured("empty", &[], &environment());
    let before = pages.all();
    for (file, date, part) in [
        (none, None, "none.json: No such file"),
        (text, None, "text.json is no file of make bench"),
        (debug, None, "debug.json is of a debug build"),
        (undated, None, "add --date"),
        (empty, None, "run make bench first"),
        (good.clone(), Some("24.11.2026"), "write it as 2026-11-24"),
    ] {
        let error = benchmarks::write(&[file], date, &pages.dir()).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
    assert_eq!(pages.all(), before);
    fs::write(pages.dir().join("README.md"), "no place").unwrap();
    let error = benchmarks::write(&[good], None, &pages.dir()).unwrap_err().to_string();
    assert!(error.contains("has no place for the list"), "{error}");
}
