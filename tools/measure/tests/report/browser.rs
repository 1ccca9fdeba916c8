//! The page in a real browser: nothing overlaps, nothing is cut off, everything can be read.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use onetrip_measure::report::write_all;
use onetrip_measure::results::Results;
use serde_json::Value;

use crate::odd;
use crate::page::page;
use crate::scratch::Scratch;
use crate::synthetic::rich;

/// A width in CSS pixels, and a colour scheme.
type Frame = (u32, &'static str);

const ALL: [Frame; 6] =
    [(360, "light"), (360, "dark"), (400, "light"), (400, "dark"), (1280, "light"), (1280, "dark")];

#[test]
fn a_rich_report_can_be_read_in_a_browser() {
    look_at("rich", rich(), &ALL, 35);
}

#[test]
fn reports_that_lack_something_can_be_read_in_a_browser() {
    for (name, results) in odd::all() {
        look_at(name, results, &[ALL[0], ALL[5]], 0);
    }
}

/// A telephone and a large screen.
#[test]
fn the_picture_of_transfers_can_be_read_in_a_browser_and_has_all_its_arrows() {
    let frames = [(390, "light"), (390, "dark"), (800, "light"), (1280, "light"), (1280, "dark")];
    for it in look_at("recorded", odd::named("recorded"), &frames, 1) {
        let arrows = &it["arrows"];
        assert_eq!(*arrows, serde_json::json!([[2, 2, 2, 2], [3, 2, 2], [3], [2]]), "{it}");
    }
}

/// As a page shows it that has it as an image; there it is as wide as a file on GitHub's pages.
#[test]
fn the_picture_as_a_file_can_be_read_in_a_browser() {
    let Some(browser) = browser() else { return skipped("no Chromium") };
    for name in ["recorded", "recorded_quick", "recorded_encrypted", "recorded_once"] {
        let scratch = Scratch::new();
        write_all(odd::named(name), scratch.path()).unwrap();
        let svg = fs::read_to_string(scratch.path().join("transfer.svg")).unwrap();
        let page = include_str!("file.html").replace("TEXTS", include_str!("texts.js"));
        let path = scratch.path().join("file.html");
        fs::write(&path, page.replace("PICTURE", &svg)).unwrap();
        let seen = found(&run(&browser, scratch.path(), &path));
        let faults = seen[0]["faults"].as_array().unwrap();
        assert!(faults.is_empty(), "{name}: {faults:#?}");
    }
}

/// Else the tests above would show nothing.
#[test]
fn what_is_wrong_with_a_page_is_found() {
    let Some(browser) = browser() else { return skipped("no Chromium") };
    let scratch = Scratch::new();
    let bad = "main{width:2000px}figcaption{color:#999}svg text{font-size:90px}</style>";
    let page = page(odd::named("one_level")).replace("</style>", bad);
    let dump = dump(&browser, scratch.path(), &page, &ALL[..1]);
    let faults = found(&dump)[0]["faults"].to_string();
    for fault in ["scrolls sideways", "contrast ", "outside of its chart"] {
        assert!(faults.contains(fault), "{fault}: {faults}");
    }
}

/// What was seen in each frame; nothing without a browser.
fn look_at(name: &str, results: &Results, frames: &[Frame], charts_min: usize) -> Vec<Value> {
    let Some(browser) = browser() else {
        skipped("no Chromium");
        return Vec::new();
    };
    let scratch = Scratch::new();
    let dump = dump(&browser, scratch.path(), &page(results), frames);
    let seen = found(&dump);
    assert_eq!(seen.len(), frames.len(), "{name}: {dump}");
    for it in &seen {
        let faults = it["faults"].as_array().unwrap();
        let (width, scheme) = (&it["width"], &it["scheme"]);
        assert!(faults.is_empty(), "{name} at {width}, {scheme}: {faults:#?}");
        assert!(it["charts"].as_u64().unwrap() >= charts_min as u64, "{name}: {it}");
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

/// Copies of the page, each with a script that looks at it, in frames of all widths and both colour schemes, on one
/// page that collects what these find. The page itself would let no script run.
fn dump(browser: &Path, dir: &Path, page: &str, frames: &[Frame]) -> String {
    let policy = page.find("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let open = format!("{}{}", &page[..policy], &page[end..]);
    let scripts = concat!(include_str!("texts.js"), include_str!("inspect.js"));
    let inspect = format!("<script>{scripts}</script></body>");
    fs::write(dir.join("copy.html"), open.replace("</body>", &inspect)).unwrap();
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
