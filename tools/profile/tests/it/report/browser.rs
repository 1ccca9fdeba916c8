//! The page in a real browser: all of it can be read, and numbers follow the slider.

use onetrip_lab::browser::{Browser, Frame};
use onetrip_profile::{Profile, Profiler, report};
use serde_json::Value;

use super::samples::{hostile, shop};

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
    let Some(browser) = Browser::find() else { return };
    let bad = "main{width:2000px}figcaption{color:#999}</style>";
    let page = report::html(shop()).replace("</style>", bad);
    let faults = look(&browser, &page, &ALL[..1])[0]["faults"].to_string();
    for fault in ["scrolls sideways", "contrast "] {
        assert!(faults.contains(fault), "{fault}: {faults}");
    }
}

/// What was seen in each frame; nothing without a browser.
fn look_at(name: &str, profile: &Profile, frames: &[Frame]) -> Vec<Value> {
    let Some(browser) = Browser::find() else { return Vec::new() };
    let seen = look(&browser, &report::html(profile), frames);
    assert_eq!(seen.len(), frames.len(), "{name}: {seen:?}");
    for it in &seen {
        let faults = it["faults"].as_array().unwrap();
        assert!(faults.is_empty(), "{name} at {}, {}: {faults:#?}", it["width"], it["scheme"]);
    }
    seen
}

/// What a script in each copy of the page finds. The page itself would let no script run but its
/// own, so the policy of the copies names the other one too.
fn look(browser: &Browser, page: &str, frames: &[Frame]) -> Vec<Value> {
    let copy = page.replace("script-src 'sha256-", "script-src 'nonce-looking' 'sha256-");
    let inspect = format!("<script nonce=looking>{}</script></body>", include_str!("inspect.js"));
    let dir = tempfile::tempdir().unwrap();
    let found = browser.frames(dir.path(), &copy.replace("</body>", &inspect), frames).unwrap();
    found.iter().map(|it| serde_json::from_str(it).unwrap()).collect()
}
