//! What stands on the page.

use onetrip_profile::{Profiler, report};

use super::samples::{HOSTILE, hostile, shop};

#[test]
fn the_page_says_what_was_found() {
    let page = report::html(shop());
    let profile = shop();
    assert!(profile.findings.len() >= 3, "{:?}", profile.findings);
    for finding in &profile.findings {
        assert!(page.contains(&*maud_escaped(&finding.title)), "{}", finding.title);
        assert!(page.contains(&finding.with_onetrip[..20]), "{}", finding.with_onetrip);
    }
    for part in
        ["id=\"findings\"", "id=\"shapes\"", "id=\"lanes\"", "id=\"time\"", "id=\"coverage\""]
    {
        assert_eq!(page.matches(part).count(), 1, "{part}");
    }
    assert!(page.contains("asyncio.gather") && page.contains("any(%s)"));
}

fn maud_escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[test]
fn a_run_without_traffic_has_a_page_too() {
    let page = report::html(&Profiler::new().finish());
    assert!(page.contains("No trips were seen.") && !page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn texts_are_never_markup() {
    let page = report::html(&hostile());
    let (head, rest) = page.split_once("<body>").unwrap();
    assert!(head.contains("default-src 'none'"));
    for bad in ["<img", "onload=alert(1)>", "<script>alert", "<svg onload"] {
        assert!(!rest.contains(bad), "{bad}");
    }
    assert_eq!(page.matches("<script>").count(), 1);
    assert_eq!(page.matches("</script>").count(), 1);
    assert!(rest.contains(&maud_escaped(HOSTILE[0])));
}

#[test]
fn the_page_loads_nothing() {
    let page = report::html(shop());
    for bad in ["http:", "https:", "src=", "@import", "url(\"", "url('", "url(//"] {
        assert!(!page.contains(bad), "{bad}");
    }
}

/// Values are those of the samples: none of them is in any file.
#[test]
fn no_value_is_in_any_file() {
    for (name, text) in report::files(shop()) {
        for value in ["1000003", "2000006", "item:100", "1000003000"] {
            assert!(!text.contains(value), "{name} has {value}");
        }
    }
}
