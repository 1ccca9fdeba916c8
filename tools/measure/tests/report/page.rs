//! The page as text.

use std::fs;

use onetrip_measure::report::write_all;
use onetrip_measure::results::Results;

use crate::odd;
use crate::synthetic::rich;

pub(crate) fn page(results: &Results) -> String {
    let dir = tempfile::tempdir().unwrap();
    write_all(results, dir.path()).unwrap();
    fs::read_to_string(dir.path().join("report.html")).unwrap()
}

#[test]
fn names_from_outside_are_text_and_nothing_else() {
    let bad = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&";
    let mut results = rich().clone();
    results.server.version = bad.to_owned();
    results.server.url = bad.to_owned();
    results.server.settings.insert(bad.to_owned(), bad.to_owned());
    results.stopped = Some(bad.to_owned());
    results.command.push(bad.to_owned());
    results.client.system = bad.to_owned();
    results.started_at = bad.to_owned();
    results.onetrip_version = bad.to_owned();
    for cell in &mut results.cells {
        cell.key.workload = format!("{bad}{}", cell.key.workload);
        cell.key.mode = cell.key.mode.as_ref().map(|it| format!("{it}{bad}"));
        cell.errors.insert(bad.to_owned(), 1);
    }
    let page = page(&results);
    assert!(!page.contains("<script") && !page.contains("<img"), "a tag came through");
    // Quotes are the other way out: of an attribute.
    assert!(!page.contains("\"'>") && !page.contains("\"'&gt;"), "a quote came through");
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = page(rich());
    for needle in ["<script", "<link", "<img", "<iframe", "src=", "@import", "url(", "javascript:"]
    {
        assert!(!page.contains(needle), "{needle}");
    }
    for (at, _) in page.match_indices("href=\"") {
        assert!(page[at..].starts_with("href=\"#"), "{}", &page[at..at + 40]);
    }
}

#[test]
fn each_chart_says_what_it_shows_and_has_its_figures() {
    let page = page(rich());
    let figures: Vec<&str> = page.split("<figure>").skip(1).collect();
    assert!(figures.len() > 30, "{}", figures.len());
    for figure in figures {
        let figure = figure.split("</figure>").next().unwrap();
        for part in
            ["<figcaption>", "role=\"img\"", "<title id=", "<desc id=", "<details>", "<caption>"]
        {
            assert!(figure.contains(part), "{part} is missing in {figure}");
        }
    }
    assert!(page.contains("update_single_row takes "));
    assert!(page.contains(" differ within the noise ("));
    assert!(page.contains("depth 1,024 does "));
    assert!(page.contains("The slowest 1 % of "));
}

#[test]
fn no_chart_is_there_twice() {
    for results in [rich(), odd::named("in_turns"), odd::named("concurrency_over_rtt")] {
        let page = page(results);
        let captions = page.split("<figcaption>").skip(1);
        let mut captions: Vec<&str> =
            captions.map(|it| it.split("</figcaption>").next().unwrap()).collect();
        let count = captions.len();
        captions.sort_unstable();
        captions.dedup();
        assert_eq!(captions.len(), count);
    }
}

#[test]
fn one_repetition_can_tell_no_difference() {
    let page = page(odd::named("one_repetition"));
    assert!(page.contains(", which 1 repetition can't tell from noise"));
    assert!(page.contains("Fewer than three can't tell a difference from noise."));
    assert!(!page.contains("takes 2"), "a ratio is told");
}

#[test]
fn a_run_that_was_stopped_says_so_on_top() {
    let page = page(odd::named("stopped"));
    let header = page.split("</header>").next().unwrap();
    assert!(header.contains("Not all was measured. </strong>interrupted"), "{header}");
}
