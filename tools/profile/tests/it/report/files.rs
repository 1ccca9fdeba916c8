//! The files that other tools read.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use onetrip_profile::{Profile, Profiler, report};
use serde_json::Value;

use super::samples::{hostile, shop};
use crate::speaker::Speaker;

#[test]
fn all_files_are_for_their_owner_alone_and_replaced() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("new/out");
    report::write(shop(), &out).unwrap();
    report::write(shop(), &out).unwrap();
    let names: HashSet<String> = fs::read_dir(&out)
        .unwrap()
        .map(|it| it.unwrap())
        .inspect(|it| assert_eq!(it.metadata().unwrap().permissions().mode() & 0o777, 0o600))
        .map(|it| it.file_name().into_string().unwrap())
        .collect();
    let expected =
        ["report.html", "profile.json", "trace.perfetto.json", "folded.txt", "otlp.json"];
    assert_eq!(names, expected.map(str::to_owned).into());
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(report::write(shop(), "/dev/null/x".as_ref()).is_err());
}

#[test]
fn a_profile_reads_back_as_it_was_written() {
    for profile in [shop().clone(), hostile(), Profiler::new().finish()] {
        let text = report::json(&profile);
        let back: Profile = serde_json::from_str(&text).unwrap();
        assert_eq!(report::json(&back), text);
        assert_eq!(report::html(&back), report::html(&profile));
    }
}

fn events() -> Vec<Value> {
    let trace: Value = serde_json::from_str(&report::trace(shop())).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or_else(|| panic!("{name}: {of}"))
}

/// As the description of the format wants it: documents of `catapult`, "Trace Event Format".
#[test]
fn trace_events_have_the_fields_of_their_phase() {
    for event in events() {
        let phase = event["ph"].as_str().unwrap();
        assert!(event["name"].is_string() && event["pid"] == 1 && event["tid"].is_u64(), "{event}");
        match phase {
            "X" => assert!(number(&event, "ts") >= 0.0 && number(&event, "dur") >= 0.0, "{event}"),
            "M" => assert!(event["args"]["name"].is_string(), "{event}"),
            "s" | "f" => assert!(event["id"].is_u64() && number(&event, "ts") >= 0.0, "{event}"),
            _ => panic!("{event}"),
        }
    }
}

/// A slice that began within another one must end within it, or viewers drop it.
#[test]
fn slices_of_a_thread_lie_within_one_another() {
    let mut slices: Vec<_> = events().into_iter().filter(|it| it["ph"] == "X").collect();
    let span = |it: &Value| (number(it, "ts"), number(it, "ts") + number(it, "dur"));
    slices.sort_by(|a, b| {
        let (a, b) = ((a["tid"].as_u64(), span(a)), (b["tid"].as_u64(), span(b)));
        a.0.cmp(&b.0).then(a.1.0.total_cmp(&b.1.0)).then(b.1.1.total_cmp(&a.1.1))
    });
    let mut open: Vec<(u64, f64)> = Vec::new();
    for slice in &slices {
        let (thread, (begin, end)) = (slice["tid"].as_u64().unwrap(), span(slice));
        while open.last().is_some_and(|it| it.0 != thread || it.1 <= begin + 0.001) {
            open.pop();
        }
        assert!(open.last().is_none_or(|it| end <= it.1 + 0.001), "{slice}");
        open.push((thread, end));
    }
    let kinds: HashSet<_> = slices.iter().filter_map(|it| it["cat"].as_str()).collect();
    assert_eq!(kinds, ["unit", "trip", "statement"].into());
}

#[test]
fn flows_lead_from_a_statement_to_a_later_one() {
    let events = events();
    let of = |phase: &str| events.iter().filter(|it| it["ph"] == phase).collect::<Vec<_>>();
    let (starts, ends) = (of("s"), of("f"));
    assert!(!starts.is_empty() && starts.len() == ends.len());
    for (start, end) in starts.iter().zip(&ends) {
        assert_eq!(start["id"], end["id"]);
        assert!(number(start, "ts") < number(end, "ts"));
    }
}

#[test]
fn folded_stacks_have_three_frames_and_a_count_whatever_texts_are() {
    for profile in [shop().clone(), hostile()] {
        let text = report::folded(&profile);
        assert!(text.ends_with('\n'));
        let mut sum = 0;
        for line in text.lines() {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            let frames: Vec<_> = stack.split(';').collect();
            assert!(frames.len() == 3 && frames.iter().all(|it| !it.is_empty()), "{line}");
            assert!(["network", "server", "program"].contains(&frames[2]), "{line}");
            sum += count.parse::<u64>().unwrap();
        }
        let time = &profile.time;
        let whole = time.network_ms + time.server_ms + time.program_ms;
        let lines = text.lines().count() as f64;
        assert!((sum as f64 / 1e3 - whole).abs() <= lines / 1e3, "{sum} of {whole} ms");
    }
}

#[test]
fn the_time_of_statements_adds_up_to_that_of_their_shape() {
    for shape in &shop().shapes {
        let sum = |of: fn(&onetrip_profile::Time) -> f64| -> [f64; 2] {
            [shape.by_statement.iter().map(|it| of(&it.time)).sum(), of(&shape.time)]
        };
        for [parts, whole] in
            [sum(|it| it.network_ms), sum(|it| it.server_ms), sum(|it| it.program_ms)]
        {
            assert!((parts - whole).abs() < 1e-6, "{}: {parts} of {whole}", shape.name);
        }
    }
}

/// Names and types of `opentelemetry/proto/trace/v1/trace.proto`, in its JSON form.
#[test]
fn spans_have_the_fields_of_opentelemetry() {
    let text: Value = serde_json::from_str(&report::otlp(shop())).unwrap();
    let resource = &text["resourceSpans"][0];
    let attribute = &resource["resource"]["attributes"][0];
    assert_eq!(
        (&attribute["key"], &attribute["value"]["stringValue"]),
        (&"service.name".into(), &"onetrip profile".into())
    );
    let scope = &resource["scopeSpans"][0];
    assert_eq!(scope["scope"]["name"], "onetrip.profile");
    let spans = scope["spans"].as_array().unwrap();
    let key = |it: &Value, name: &str| (it["traceId"].clone(), it[name].clone());
    let ids: HashSet<_> = spans.iter().map(|it| key(it, "spanId")).collect();
    assert_eq!(ids.len(), spans.len(), "ids are not given twice");
    let is_hex = |it: &Value, len: usize| {
        let text = it.as_str().unwrap();
        text.len() == len && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    };
    let mut links = 0;
    for span in spans {
        assert!(is_hex(&span["traceId"], 32) && is_hex(&span["spanId"], 16), "{span}");
        let parent = &span["parentSpanId"];
        assert!(parent == "" || ids.contains(&key(span, "parentSpanId")), "{span}");
        let at = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(at("startTimeUnixNano") >= 1_700_000_000_000_000_000, "{span}");
        assert!(at("startTimeUnixNano") <= at("endTimeUnixNano"), "{span}");
        assert!(matches!(span["kind"].as_u64(), Some(1 | 3)), "{span}");
        for attribute in span["attributes"].as_array().unwrap() {
            let value = attribute["value"].as_object().unwrap();
            let kinds = ["stringValue", "intValue", "doubleValue"];
            assert!(value.len() == 1 && value.keys().all(|it| kinds.contains(&it.as_str())));
            assert!(value.get("intValue").is_none_or(Value::is_string), "{span}");
        }
        for link in span["links"].as_array().into_iter().flatten() {
            assert!(ids.contains(&key(link, "spanId")), "{span}");
            links += 1;
        }
    }
    assert!(links > 0);
}

/// However long the run was, its files stay small: `ONETRIP_TRIPS=1000000` for a longer one.
#[test]
fn many_trips_give_files_of_a_few_megabytes() {
    let trips: u64 = std::env::var("ONETRIP_TRIPS").map_or(60_000, |it| it.parse().unwrap());
    let mut profiler = Profiler::new();
    for connection in 0..100 {
        let mut it = Speaker::new(&mut profiler, connection, connection * 1_000_000);
        for n in 0..trips / 100 {
            let sql = format!(
                "select {} from t{} where id = $1",
                "column_name, ".repeat(20),
                (n + connection * 13) % 1500
            );
            it.run(&mut profiler, &sql, &[n.to_string()], &vec![vec![n.to_string()]]);
            if n % (2 + connection % 7) == 0 {
                it.rest(20_000_000);
            }
        }
    }
    let profile = profiler.finish();
    assert!(profile.trips.now >= trips as f64);
    for (name, text) in report::files(&profile) {
        assert!(text.len() < 8_000_000, "{name} has {} bytes", text.len());
    }
    assert_eq!(profile.shapes.len(), 1000);
    assert!(profile.shapes_left_out > 0);
}

/// Names of all fields below a value.
fn fields(of: &Value, names: &mut HashSet<String>) {
    match of {
        Value::Object(object) => {
            names.extend(object.keys().cloned());
            object.values().for_each(|it| fields(it, names));
        }
        Value::Array(array) => array.iter().for_each(|it| fields(it, names)),
        _ => {}
    }
}

#[test]
fn every_field_of_the_profile_is_described() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/profile.md");
    let page = fs::read_to_string(page).unwrap();
    let mut names = HashSet::new();
    fields(&serde_json::to_value(shop()).unwrap(), &mut names);
    assert!(names.len() > 50);
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "{name} is not described");
    }
    for kind in onetrip_profile::KINDS {
        assert!(page.contains(&format!("`{kind}`")), "{kind} is not described");
    }
}
