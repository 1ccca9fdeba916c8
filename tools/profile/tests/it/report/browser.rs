//! The page in a real browser: all of it can be read, and numbers follow the slider.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use onetrip_profile::{Profile, Profiler, report};
use serde_json::Value;

use super::samples::{hostile, shop};
use super::scratch::Scratch;

/// A width in CSS pixels, and a colour scheme.
type Frame = (u32, &'static str);

const ALL: [Frame; 4] = [(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")];

#[test]
fn a_report_can_be_read_in_a_browser() {
    for it in look_at("shop", shop(), &ALL) {
        assert!(it["bars"].as_u64().unwrap() > 100, "{it}");
    }
}

#[test]
fn hostile_texts_and_empty_runs_can_be_read_in_a_browser() {
    look_at("hostile", &hostile(), &ALL[..1]);
    look_at("empty", &Profiler::new().finish(), &ALL[..1]);
}

/// The page's own script did it, under its own policy: a page whose script was refused would keep
/// the numbers of the measured round trip.
#[test]
fn every_time_follows_the_slider() {
    for it in look_at("slider", shop(), &ALL[2..3]) {
        let moved = it["moved"].as_array().unwrap();
        assert!(moved.len() > 60, "{it}");
        let mut changed = 0;
        for one in moved {
            let (fixed, trips) = (one["fixed"].as_f64().unwrap(), one["trips"].as_f64().unwrap());
            for (rtt, text) in [(1.0, &one["at_first"]), (200.0, &one["at_most"])] {
                let shown = milliseconds(text.as_str().unwrap());
                let expected = fixed + trips * rtt;
                // Two digits at least are shown.
                let slack = expected * 0.02 + 0.0006;
                assert!((shown - expected).abs() <= slack, "{expected} ms: {one}");
            }
            changed += u32::from(one["at_first"] != one["at_most"]);
        }
        assert!(changed > 40, "{it}");
        let widest = it["widest"].as_f64().unwrap();
        assert!((99.0..=100.01).contains(&widest), "bars end with their drawing: {widest}");
    }
}

fn milliseconds(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap();
    let factor = [("ms", 1.0), ("s", 1e3), ("min", 6e4)].into_iter().find(|it| it.0 == unit);
    number.parse::<f64>().unwrap() * factor.unwrap().1
}

/// Else the tests above would show nothing.
#[test]
fn what_is_wrong_with_a_page_is_found() {
    let Some(browser) = browser() else { return skipped("no Chromium") };
    let scratch = Scratch::new();
    let bad = "main{width:2000px}figcaption{color:#999}</style>";
    let page = report::html(shop()).replace("</style>", bad);
    let faults = found(&dump(&browser, scratch.path(), &page, &ALL[..1]))[0]["faults"].to_string();
    for fault in ["scrolls sideways", "contrast "] {
        assert!(faults.contains(fault), "{fault}: {faults}");
    }
}

/// What was seen in each frame; nothing without a browser.
fn look_at(name: &str, profile: &Profile, frames: &[Frame]) -> Vec<Value> {
    let Some(browser) = browser() else {
        skipped("no Chromium");
        return Vec::new();
    };
    let scratch = Scratch::new();
    let dump = dump(&browser, scratch.path(), &report::html(profile), frames);
    let seen = found(&dump);
    assert_eq!(seen.len(), frames.len(), "{name}: {dump}");
    for it in &seen {
        let faults = it["faults"].as_array().unwrap();
        assert!(faults.is_empty(), "{name} at {}, {}: {faults:#?}", it["width"], it["scheme"]);
    }
    seen
}

/// The browser that is there. Without one these tests have nothing to say.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let places = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    places.into_iter().find(|it| it.is_file())
}

/// Past the runner, which hides what a test that passes prints.
fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a test"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// What was found in the copies of the page.
fn found(dump: &str) -> Vec<Value> {
    let lines = dump.lines().filter_map(|line| line.split_once("found:{")).map(|it| it.1);
    let plain = |line: &str| line.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    lines.map(|line| serde_json::from_str(&format!("{{{}", plain(line))).unwrap()).collect()
}

/// Copies of the page in frames of all widths and both colour schemes, on one page that collects
/// what a script in each finds. The page itself would let no script run but its own, so the policy
/// of the copies names the other one too.
fn dump(browser: &Path, dir: &Path, page: &str, frames: &[Frame]) -> String {
    let copy = page.replace("script-src 'sha256-", "script-src 'nonce-looking' 'sha256-");
    let inspect = format!("<script nonce=looking>{}</script></body>", include_str!("inspect.js"));
    fs::write(dir.join("copy.html"), copy.replace("</body>", &inspect)).unwrap();
    let frames: String = frames.iter().copied().map(frame).collect();
    let outer = include_str!("frames.html").replace("FRAMES", &frames);
    fs::write(dir.join("frames.html"), outer).unwrap();
    run(browser, dir, &dir.join("frames.html"))
}

fn frame((width, scheme): Frame) -> String {
    format!(
        "<iframe style=\"width:{width}px;height:900px;color-scheme:{scheme}\" \
         src=\"copy.html#{width},{scheme}\"></iframe>\n"
    )
}

/// Ends in any case.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const TIME_MAX: Duration = Duration::from_secs(120);

/// What stands in the page after its scripts have run.
fn run(browser: &Path, dir: &Path, page: &Path) -> String {
    let dump = dir.join("dump.html");
    let command = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-extensions", "--virtual-time-budget=60000"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(File::create(&dump).unwrap())
        .stderr(File::create(dir.join("errors")).unwrap())
        .spawn();
    let mut browser = Browser(command.unwrap());
    let began = Instant::now();
    while browser.0.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < TIME_MAX, "the browser does not end");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    fs::read_to_string(&dump).unwrap()
}
