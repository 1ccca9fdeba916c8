//! The picture of transfers: on the page, and as a file of its own.

use std::fs;

use onetrip_measure::report::write_all;
use onetrip_measure::results::Results;

use crate::odd;
use crate::page::page;
use crate::recorded::WAYS;
use crate::synthetic::rich;

/// What is on the line for each trip: a request, and its answers.
const ARROWS: [&[usize]; 4] = [&[2, 2, 2, 2], &[3, 2, 2], &[3], &[2]];

fn messages() -> usize {
    ARROWS.concat().iter().sum()
}

fn file(results: &Results) -> String {
    let dir = tempfile::tempdir().unwrap();
    write_all(results, dir.path()).unwrap();
    fs::read_to_string(dir.path().join("transfer.svg")).unwrap()
}

/// The arrows of each trip of each way.
fn arrows(svg: &str) -> Vec<Vec<usize>> {
    let trips = |strip: &str| {
        let trips = strip.split("<g class=\"trip\">").skip(1);
        let end = |it: &str| it.split("</g>").next().unwrap().to_owned();
        let count =
            |it: String| it.matches("class=\"go\"").count() + it.matches("class=\"come\"").count();
        trips.map(end).map(count).collect()
    };
    svg.split("<g class=\"strip\">").skip(1).map(trips).collect()
}

#[test]
fn each_message_is_an_arrow_and_each_trip_is_counted() {
    let results = odd::named("recorded");
    let page = page(results);
    let pictures: Vec<&str> = page.split("<svg class=\"transfer").skip(1).collect();
    assert_eq!(pictures.len(), 2, "one for wide screens and one for narrow ones");
    let file = file(results);
    for picture in
        pictures.into_iter().map(|it| it.split("</svg>").next().unwrap()).chain([&file[..]])
    {
        assert_eq!(arrows(picture), ARROWS);
        for (cell, arrows) in results.cells.iter().zip(ARROWS) {
            let timeline = cell.timeline.as_ref().unwrap();
            assert_eq!(arrows.len() as u64, timeline.trips);
            assert_eq!(arrows.iter().sum::<usize>(), timeline.messages.len());
        }
        let trips = [">4 trips<", ">3 trips<", ">1 trip<"].map(|it| picture.matches(it).count());
        assert_eq!(trips, [1, 1, 2]);
        let commands: usize = WAYS.iter().flat_map(|(_, trips)| *trips).map(|it| it.len()).sum();
        assert_eq!(picture.matches("class=\"command\"").count(), commands);
    }
}

#[test]
fn the_page_opens_with_the_picture_and_a_few_large_figures() {
    let page = page(odd::named("recorded"));
    let header = page.split("</header>").next().unwrap();
    let after = |part: &str| header.find(part).unwrap_or_else(|| panic!("{part}: {header}"));
    assert!(after("<h1>") < after("<figure class=\"recorded\">"));
    assert!(after("</figure>") < after("<ul class=\"figures\">"));
    assert!(after("<ul class=\"figures\">") < after("class=\"headline\""));
    let figures = header.split("<ul class=\"figures\">").nth(1).unwrap();
    assert!(figures.contains("4<span aria-hidden=\"true\"> → </span>"), "{figures}");
    assert!(figures.contains("transfer, as one pipeline"), "{figures}");
    // In words: for those who can't see it, and in a table.
    assert!(
        header.contains("Each statement awaited: 4 trips, 401\u{a0}ms. BEGIN: sent after 0 ms"),
        "{header}"
    );
    let rows = header.split("<tbody>").nth(1).unwrap().matches("<tr>").count();
    assert_eq!(rows, messages());
}

#[test]
fn where_nothing_was_recorded_there_is_no_picture() {
    let dir = tempfile::tempdir().unwrap();
    write_all(rich(), dir.path()).unwrap();
    assert!(!dir.path().join("transfer.svg").exists());
    let page = page(rich());
    assert!(!page.contains("class=\"transfer") && !page.contains("<ul class=\"figures\">"));
}

#[test]
fn the_file_needs_nothing_else_moves_only_for_those_who_like_it_and_is_small() {
    let file = file(odd::named("recorded"));
    assert!(file.len() < 40_000, "{}", file.len());
    for needle in ["<script", "href", "url(", "@import", "<image", "<animate", "onload"] {
        assert!(!file.contains(needle), "{needle}");
    }
    let (still, moving) = file.split_once("@media (prefers-reduced-motion:no-preference)").unwrap();
    assert!(!still.contains("animation") && !still.contains("@keyframes"));
    assert_eq!(moving.matches("@keyframes d").count(), messages());
    assert_eq!(moving.matches("class=\"dot ").count(), messages());
    assert!(file.contains("prefers-color-scheme:dark"));
}

/// Its texts lie on each other else.
#[test]
fn commands_that_have_no_room_are_left_out() {
    let file = file(odd::named("recorded_quick"));
    let strip = file.split("<g class=\"strip\">").nth(1).unwrap();
    let commands = strip.matches("class=\"command\"").count();
    assert!((1..4).contains(&commands), "{commands}: {strip}");
    assert_eq!(arrows(&file), ARROWS);
}

#[test]
fn of_an_encrypted_line_the_arrows_are_known_and_not_what_they_carry() {
    let file = file(odd::named("recorded_encrypted"));
    assert_eq!(arrows(&file), ARROWS);
    assert!(!file.contains("class=\"command\"") && file.contains("A request: sent after 0 ms"));
}

#[test]
fn what_the_server_says_is_text_and_nothing_else() {
    let mut results = odd::named("recorded").clone();
    let bad = "</text><script>alert(1)</script>\"'>";
    results.server.product = bad.to_owned();
    results.onetrip_version = bad.to_owned();
    for cell in &mut results.cells {
        let messages = &mut cell.timeline.as_mut().unwrap().messages;
        messages.iter_mut().for_each(|it| it.done = vec![bad.to_owned()]);
    }
    for text in [page(&results), file(&results)] {
        assert!(!text.contains("<script") && !text.contains("\"'>"), "a tag came through");
    }
}
