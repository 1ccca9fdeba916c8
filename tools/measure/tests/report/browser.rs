//! The page in a real browser: nothing overlaps, nothing is cut off, everything can be read.

use std::fs;

use onetrip_lab::browser::{Browser, Frame};
use onetrip_measure::report::write_all;
use onetrip_measure::results::Results;
use serde_json::Value;

use crate::odd;
use crate::page::page;
use crate::synthetic::rich;

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
    let Some(browser) = Browser::find() else { return };
    for name in ["recorded", "recorded_quick", "recorded_encrypted", "recorded_once"] {
        let scratch = tempfile::tempdir().unwrap();
        write_all(odd::named(name), scratch.path()).unwrap();
        let svg = fs::read_to_string(scratch.path().join("transfer.svg")).unwrap();
        let page = include_str!("file.html").replace("TEXTS", include_str!("texts.js"));
        let page = page.replace("PICTURE", &svg);
        let seen = values(&browser.page(scratch.path(), &page).unwrap());
        let faults = seen[0]["faults"].as_array().unwrap();
        assert!(faults.is_empty(), "{name}: {faults:#?}");
    }
}

/// Else the tests above would show nothing.
#[test]
fn what_is_wrong_with_a_page_is_found() {
    let Some(browser) = Browser::find() else { return };
    let bad = "main{width:2000px}figcaption{color:#999}svg text{font-size:90px}</style>";
    let page = page(odd::named("one_level")).replace("</style>", bad);
    let faults = look(&browser, &page, &ALL[..1])[0]["faults"].to_string();
    for fault in ["scrolls sideways", "contrast ", "outside of its chart"] {
        assert!(faults.contains(fault), "{fault}: {faults}");
    }
}

/// What was seen in each frame; nothing without a browser.
fn look_at(name: &str, results: &Results, frames: &[Frame], charts_min: usize) -> Vec<Value> {
    let Some(browser) = Browser::find() else { return Vec::new() };
    let seen = look(&browser, &page(results), frames);
    assert_eq!(seen.len(), frames.len(), "{name}: {seen:?}");
    for it in &seen {
        let faults = it["faults"].as_array().unwrap();
        let (width, scheme) = (&it["width"], &it["scheme"]);
        assert!(faults.is_empty(), "{name} at {width}, {scheme}: {faults:#?}");
        assert!(it["charts"].as_u64().unwrap() >= charts_min as u64, "{name}: {it}");
    }
    seen
}

/// What a script in each copy of the page finds. The page itself would let no script run, so the
/// copies have no policy.
fn look(browser: &Browser, page: &str, frames: &[Frame]) -> Vec<Value> {
    let policy = page.find("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let scripts = concat!(include_str!("texts.js"), include_str!("inspect.js"));
    let inspect = format!("<script>{scripts}</script></body>");
    let copy = format!("{}{}", &page[..policy], &page[end..]).replace("</body>", &inspect);
    let dir = tempfile::tempdir().unwrap();
    values(&browser.frames(dir.path(), &copy, frames).unwrap())
}

fn values(found: &[String]) -> Vec<Value> {
    found.iter().map(|it| serde_json::from_str(it).unwrap()).collect()
}
