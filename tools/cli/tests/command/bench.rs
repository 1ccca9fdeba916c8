//! `onetrip bench`: what it leaves behind, how it ends, and its errors for impossible requests.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use crate::database::{database, has_schema, run, wait_for_session};
use crate::process::{Onetrip, full};
use onetrip::Client;
use onetrip_lab::postgres::{Options, PrivatePostgres, Shutdown, shared};
use onetrip_lab::proxy::{Direction, Fault, Proxy, ProxyConfig, Scope};
use rustix::process::Signal;
use tempfile::tempdir;

pub(crate) fn onetrip(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onetrip")).args(arguments).output().unwrap()
}

/// Its error: one line on standard error, status 2, nothing on standard output.
pub(crate) fn refusal(arguments: &[&str]) -> String {
    let output = onetrip(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let last = said.lines().last().unwrap().to_owned();
    assert!(last.starts_with("onetrip: "), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("onetrip: ")).count(), 1, "{said}");
    last
}

/// Arguments for a few quick cells.
fn small<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let small = ["bench", "--preset", "concurrency,trips", "--isolation", "serializable"];
    let repetitions = if more.contains(&"--repetitions") { "--force" } else { "--repetitions=1" };
    let cells = ["--tasks", "20", "--rtt", "0", "--depth", "4", repetitions];
    let short = ["--seconds", "0.01", "--url", url];
    [&small[..], &cells[..], &short[..], more].concat()
}

#[test]
fn a_run_leaves_its_files_and_nothing_on_the_server() {
    let url = database();
    let out = tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    let output = onetrip(&small(&url, &["--out", path]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(!has_schema(&url));
    let tables = String::from_utf8(output.stdout).unwrap();
    for name in ["results.json", "results.csv", "results.xlsx", "report.html"] {
        assert!(said.contains(&format!("written: {path}/{name}")), "{said}");
    }
    // The password of the lab's servers is made for each; the user is on no line with a URL.
    let results = fs::read_to_string(out.path().join("results.json")).unwrap();
    let page = fs::read_to_string(out.path().join("report.html")).unwrap();
    let csv = fs::read_to_string(out.path().join("results.csv")).unwrap();
    for text in [&said, &tables, &results, &page, &csv] {
        assert!(!text.contains(shared().password()) && !text.contains("postgres@"), "{text}");
    }
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    assert_eq!(results["stopped"], serde_json::Value::Null);
    // 11 operations, and 4 ways to transfer, 2 to select, 3 to insert and 2 to join.
    assert_eq!(results["cells"].as_array().unwrap().len(), 22);
    for cell in results["cells"].as_array().unwrap() {
        assert!(cell["errors"].as_object().unwrap().is_empty(), "{cell}");
        assert!(cell["repetitions"][0]["operations"].as_u64().unwrap() > 0, "{cell}");
        assert!(cell["repetitions"][0]["server_cpu_ms"].is_f64(), "{cell}");
    }
}

#[test]
fn a_signal_at_any_moment_leaves_no_schema() {
    let url = database();
    for moment in ["making the tables", "simple_insert", "select_for_update_with_fk", "transfer"] {
        let mut bench = Onetrip::start(&small(&url, &["--seed", "9"]), Stdio::null());
        bench.wait_for(moment);
        bench.signal(Signal::INT);
        let (status, said) = bench.end();
        assert_eq!(status.code(), Some(128 + 2), "{said}");
        assert!(said.contains("stopped by SIGINT"), "{said}");
        assert!(!has_schema(&url), "while {moment}: {said}");
    }
}

#[test]
fn a_schema_that_was_there_stays_unless_it_is_forced() {
    let url = database();
    run(&url, "create schema onetrip_bench");
    run(&url, "create table onetrip_bench.dear (id int)");
    assert!(refusal(&small(&url, &[])).contains("has a schema onetrip_bench already"));
    assert_eq!(run(&url, "select 1 from pg_tables where tablename = 'dear'"), 1);
    assert!(onetrip(&small(&url, &["--force"])).status.success());
    assert!(!has_schema(&url));
}

#[test]
fn a_user_who_may_not_make_a_schema_is_told() {
    let url = database();
    let (name, database) = (shared().new_name(), url.rsplit('/').next().unwrap());
    run(&url, &format!("create role {name} login password 'secret'"));
    let address = format!("127.0.0.1:{}", shared().port());
    let url = format!("postgres://{name}:secret@{address}/{database}");
    let said = refusal(&small(&url, &[]));
    assert!(said.contains("the schema onetrip_bench can't be made"), "{said}");
    assert!(said.contains("let this user create schemas"), "{said}");
}

#[test]
fn connections_that_the_server_has_no_room_for_are_refused_before_anything_is_made() {
    let said = refusal(&small(&database(), &["--connections", "500", "--tasks", "500"]));
    assert!(said.contains("--connections 500") && said.contains("max_connections"), "{said}");
}

#[test]
fn what_cannot_be_meant_is_one_line() {
    let preset = ["bench", "--preset", "concurrency"];
    for (more, part) in [
        (&["--tasks", "0"][..], "0 is not in 1.."),
        (&["--tasks", "-5"], "'-5' for '--tasks <N>'"),
        (&["--rate", "-1"], "give a number above 0"),
        (&["--rate", "1e9"], "give a rate from"),
        (&["--seconds", "1e300"], "give a number of seconds from"),
        (&["--protocol", "simple"], "--protocol is for --script and --builtin"),
        (&["--max-tries", "3"], "--max-tries is for --script and --builtin"),
        (&["--compare"], "--compare is for --script and --builtin"),
        (&["postgres://u:secret@db/d"], "'postgres://db/d'"),
        (&["--rtt", "x"], "give milliseconds"),
        (&["--repetitions", "0"], "0 is not in 1.."),
        (&["--workload", "update_singel_row"], "did you mean update_single_row?"),
        (&["--depth", "5"], "--depth is for --preset trips and redis"),
        (&["--preset", "trip"], "a similar value exists: 'trips'"),
        (&["--url", "postgres://u:p@127.0.0.1:1/d"], "can't connect to 127.0.0.1:1"),
        (&["--url", "postgres://u@one,two/d"], "several hosts"),
    ] {
        let said = refusal(&[&preset[..], more].concat());
        assert!(said.contains(part), "{more:?}: {said}");
    }
    assert!(refusal(&["bench"]).contains("--preset"));
    let weighted = ["bench", "-b", "tpcb-like@2", "-b", "select-only", "--compare"];
    assert!(refusal(&weighted).contains("leave out the weights"));
    assert!(
        refusal(&["bench", "--script", "/nowhere.sql"])
            .contains("can't read the script /nowhere.sql")
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_told_before_the_run() {
    let url = database();
    let out = tempdir().unwrap();
    let file = out.path().join("file");
    fs::write(&file, "mine").unwrap();
    let said = refusal(&small(&url, &["--out", file.to_str().unwrap()]));
    assert!(said.contains("--out") && said.contains(file.to_str().unwrap()), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn tables_that_cannot_be_written_are_one_line() {
    let url = database();
    let (status, said) = Onetrip::start(&small(&url, &[]), full()).end();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.lines().last().unwrap().contains("can't write to standard output"), "{said}");
    assert!(!has_schema(&url));
}

#[test]
fn a_server_that_dies_ends_it_with_what_was_measured_so_far() {
    let mut server = PrivatePostgres::start(Options::default()).unwrap();
    let out = tempdir().unwrap();
    let url = server.url();
    let more = ["--repetitions", "100", "--out", out.path().to_str().unwrap()];
    let mut bench = Onetrip::start(&small(&url, &more), Stdio::null());
    bench.wait_for("select_single");
    server.shut_down(Shutdown::Killed).unwrap();
    let (status, said) = bench.end();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.lines().last().unwrap().starts_with("onetrip: bench: "), "{said}");
    let results = fs::read_to_string(out.path().join("results.json")).unwrap();
    assert!(results.contains("simple_insert") && !results.contains("\"stopped\": null"), "{said}");
}

#[test]
fn a_server_that_hangs_is_given_up_and_the_schema_named() {
    let server = SocketAddr::from(([127, 0, 0, 1], shared().port()));
    let line = Proxy::start(ProxyConfig::new(server)).unwrap();
    let url = database().replace(&shared().port().to_string(), &line.addr().port().to_string());
    let mut bench = Onetrip::start(&small(&url, &["--repetitions", "100"]), Stdio::null());
    bench.wait_for("simple_insert");
    for direction in [Direction::Up, Direction::Down] {
        line.fault(Fault::Stall { direction }, Scope::All);
    }
    bench.signal(Signal::INT);
    let (status, said) = bench.end();
    assert_eq!(status.code(), Some(128 + 2), "{said}");
    assert!(said.contains("did not answer") && said.contains("onetrip_bench cascade"), "{said}");
}

#[test]
fn a_comparison_fails_where_something_became_slower() {
    let url = database();
    let dirs = [tempdir().unwrap(), tempdir().unwrap()];
    let [fast, slow] = dirs.each_ref().map(|dir| dir.path().join("results.json"));
    let (fast, slow) = (fast.to_str().unwrap(), slow.to_str().unwrap());
    // So far that no load of the machine looks like it.
    for (dir, rtt) in dirs.iter().zip(["0", "150"]) {
        let arguments = ["bench", "--preset", "trips", "--workload", "join", "--seconds", "0.1"];
        let more = ["--rtt", rtt, "--url", &url, "--out", dir.path().to_str().unwrap()];
        assert!(onetrip(&[&arguments[..], &more[..]].concat()).status.success());
    }
    let compare = |a: &str, b: &str| {
        let output = onetrip(&["bench", "compare", a, b, "--fail-above", "1.10"]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    // Without a common cell nothing is compared, so a limit must not pass.
    for more in [&["--fail-above", "1.10"][..], &[]] {
        let said = refusal(&[&["bench", "compare", fast, slow], more].concat());
        assert!(said.contains("no cell in common: A has join, prepared, 1 task"), "{said}");
    }
    // As if it were the same line.
    let text = fs::read_to_string(slow).unwrap();
    fs::write(slow, text.replace("\"rtt_added_ms\": 150.0", "\"rtt_added_ms\": 0.0")).unwrap();
    let (status, said) = compare(fast, slow);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.ends_with("2 cells are slower than 1.1 ×, beyond the noise\n"), "{said}");
    assert_eq!(compare(slow, fast).0, Some(0));
    assert_eq!(compare(fast, fast).0, Some(0));
    assert!(refusal(&["bench", "compare", fast, "/nowhere.json"]).contains("/nowhere.json"));
}

#[test]
fn manual_pages_and_completions_know_every_command() {
    let out = tempdir().unwrap();
    let path = out.path().to_str().unwrap();
    assert!(onetrip(&["man", "--out", path]).status.success());
    let page = fs::read_to_string(out.path().join("onetrip-bench.1")).unwrap();
    assert!(page.contains("repetitions") && page.contains("isolation"), "{page}");
    // Also what is said of a whole command.
    for (name, part) in [
        ("bench", "Ctrl\\-C ends the run with the results so far"),
        ("bench-compare", "2 if the runs have no cell in"),
        ("profile", "which statements wait for one another without need"),
        ("profile-diff", "what changed from one profile to another"),
        ("proxy", "SIGUSR1, prints the counts and resets them"),
    ] {
        let page = fs::read_to_string(out.path().join(format!("onetrip-{name}.1"))).unwrap();
        assert!(page.contains(part), "{part}: {page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(onetrip(&["completions", shell]).stdout).unwrap();
        for command in ["demo", "bench", "doctor", "profile", "proxy", "compare", "diff"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn a_manual_page_is_printed_by_the_name_of_its_command() {
    let elsewhere = tempdir().unwrap();
    let page = |command: &[&str]| {
        let mut onetrip = Command::new(env!("CARGO_BIN_EXE_onetrip"));
        let output = onetrip.arg("man").args(command).current_dir(&elsewhere).output().unwrap();
        assert!(output.status.success(), "{command:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(page(&[]).contains("onetrip\\-bench(1)"));
    let bench = page(&["bench"]);
    assert!(bench.contains("repetitions") && bench.contains("isolation"), "{bench}");
    assert!(page(&["bench", "compare"]).contains("2 if the runs have no cell in"));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "it is written nowhere");
    let said = refusal(&["man", "bunch"]);
    assert!(said.contains("no command \"bunch\": choose from demo, bench, "), "{said}");
    let said = refusal(&["man", "demo", "x"]);
    assert!(said.contains("demo has no commands"), "{said}");
}

#[test]
fn bench_without_anything_to_measure_says_what_there_is() {
    let said = refusal(&["bench"]);
    assert!(["--preset", "--script", "--builtin"].iter().all(|it| said.contains(it)), "{said}");
    // The names that other tools have for the time are taken for it.
    for name in ["--seconds", "--duration", "--time"] {
        let said = refusal(&["bench", name, "0.1"]);
        assert!(said.contains("--script"), "{said}");
    }
}

#[test]
fn a_stop_does_not_wait_for_what_the_server_is_at() {
    let url = database();
    // Ten million rows take longer than the tool waits for the schema to be dropped.
    let mut bench = Onetrip::start(&small(&url, &["--rows", "10000000"]), Stdio::null());
    bench.wait_for("making the tables");
    wait_for_session(&url, "query like '%10000000%'");
    bench.signal(Signal::INT);
    let (status, said) = bench.end();
    assert_eq!(status.code(), Some(128 + 2), "{said}");
    assert_eq!(said.lines().last(), Some("onetrip: bench: stopped by SIGINT"));
    assert!(!has_schema(&url));
}

#[test]
fn a_script_on_tables_of_its_own_is_told_to_name_their_server() {
    let out = tempdir().unwrap();
    let script = out.path().join("own.sql");
    fs::write(&script, "select * from account;").unwrap();
    let (status, said) =
        Onetrip::start(&["bench", "-f", script.to_str().unwrap()], Stdio::null()).end();
    assert!(!status.success(), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains("\"account\" does not exist") && last.ends_with("by --url"), "{said}");
}

/// What a script draws does not come again: in neither form, and not after the warm-up.
#[test]
fn a_script_may_draw_keys_that_it_inserts() {
    let out = tempdir().unwrap();
    let script = out.path().join("keys.sql");
    let text = "\\set id random(1, 1000000000000)\n\
                create table if not exists drawn (id bigint primary key);\n\
                insert into drawn values (:id);";
    fs::write(&script, text).unwrap();
    let (cells, printed) = script_cells(&["--script", script.to_str().unwrap()]);
    assert_eq!(cells.len(), 2, "each awaited, and pipelined");
    assert!(!printed.contains("23505"), "{printed}");
}

#[test]
fn a_script_of_which_every_operation_failed_is_a_failure() {
    let (url, out) = (database(), tempdir().unwrap());
    let script = out.path().join("none.sql");
    let run = |sql: &str| {
        fs::write(&script, sql).unwrap();
        let more = ["--rtt", "0", "--operations", "100", "--repetitions", "1"];
        let script = ["bench", "--script", script.to_str().unwrap(), "--url", &url];
        Onetrip::start(&[&script[..], &more].concat(), Stdio::null()).end()
    };
    let (status, said) = run("select 1 / 0;");
    assert_eq!(status.code(), Some(2), "{said}");
    let last = said.lines().last().unwrap();
    let said_of = "onetrip: bench: every operation of none failed: ";
    assert!(last.starts_with(said_of) && last.contains("22012 ("), "{said}");
    let (status, said) = run("\\set n random(0, 1)\nselect 1 / :n;");
    assert!(status.success(), "some failed, and others were measured: {said}");
}

/// The cells of a run on scripts: their workloads, modes and trips, which the reset of a session
/// that was lent before may add a part of one to.
fn script_cells(arguments: &[&str]) -> (Vec<(String, String, f64)>, String) {
    let (url, out) = (database(), tempdir().unwrap());
    let path = out.path().to_str().unwrap();
    let short = ["--operations", "10", "--repetitions=1", "--url", &url, "--out", path];
    let output = onetrip(&[&["bench"], arguments, &short].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = fs::read_to_string(out.path().join("results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    let cells = results["cells"].as_array().unwrap().iter().map(|cell| {
        let text = |name: &str| cell[name].as_str().unwrap().to_owned();
        let number = |name: &str| cell["repetitions"][0][name].as_f64().unwrap();
        (text("workload"), text("mode"), (number("trips") / number("operations")).round())
    });
    (cells.collect(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_script_is_measured_as_it_is_written_and_pipelined_as_far_as_its_values_allow() {
    let out = tempdir().unwrap();
    let script = out.path().join("checkout.sql");
    let text =
        "begin;\nselect 1 as balance, 2 as other \\gset\nselect :balance + 1;\nselect 3;\nend;";
    fs::write(&script, text).unwrap();
    let arguments = ["--script", script.to_str().unwrap(), "--rtt", "2"];
    let (cells, printed) = script_cells(&arguments);
    let printed = printed.replace(['\n', '\u{a0}'], " ");
    assert!(
        printed.contains(" × 5 trips = ") && printed.contains("; pipelined, in 2 trips, "),
        "{printed}"
    );
    assert!(printed.contains("Statement 3 waits for :balance of statement 2."), "{printed}");
    let cell = |mode: &str, trips| ("checkout".to_owned(), mode.to_owned(), trips);
    assert_eq!(cells, [cell("each awaited", 5.0), cell("pipelined", 2.0)]);
    // A script that can be measured in one form only is, and the tool says so.
    let (cells, _) = script_cells(&[&arguments[..], &["-M", "simple"]].concat());
    assert_eq!(cells, [cell("simple, each awaited", 5.0)]);
    let piped = format!(
        "\\startpipeline\n{}\n\\endpipeline",
        text.replace(" \\gset\nselect :balance", ";\nselect 1")
    );
    fs::write(&script, piped).unwrap();
    assert_eq!(script_cells(&arguments).0, [cell("as written", 1.0)]);
}

#[test]
fn several_scripts_are_compared_by_names_without_folders() {
    let out = tempdir().unwrap();
    let paths = ["a/same.sql", "b/same.sql", "b/other.txt"].map(|it| out.path().join(it));
    for path in &paths {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "select 1;").unwrap();
    }
    let scripts = paths.each_ref().map(|it| it.to_str().unwrap());
    let given: Vec<&str> = scripts.iter().flat_map(|it| ["-f", it]).collect();
    let (cells, _) = script_cells(&[&given[..], &["--compare"]].concat());
    let names: Vec<&str> = cells.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(names, ["same", "same (2)", "other"]);
    let (cells, _) = script_cells(&given);
    assert_eq!(cells[0].0, "same@1 same (2)@1 other@1");
}

#[test]
fn a_statement_that_runs_when_it_is_stopped_does_not_keep_the_tables() {
    let url = database();
    let out = tempdir().unwrap();
    let script = out.path().join("long.sql");
    fs::write(&script, "select count(*) from pgbench_accounts a, pgbench_accounts b;").unwrap();
    let arguments = ["bench", "--script", script.to_str().unwrap(), "--scale", "1", "--url", &url];
    let bench = Onetrip::start(&arguments, Stdio::null());
    wait_for_session(&url, "query like '%accounts a, pgbench_accounts b%' and state = 'active'");
    bench.signal(Signal::TERM);
    let (status, said) = bench.end();
    assert_eq!(status.code(), Some(128 + 15), "{said}");
    assert_eq!(said.lines().last(), Some("onetrip: bench: stopped by SIGTERM"));
    assert!(!has_schema(&url));
}

#[test]
fn a_stop_while_the_schema_is_made_ends_it_and_leaves_anothers_schema() {
    let url = database();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(Client::connect(&url)).unwrap();
    let session = runtime.block_on(client.session()).unwrap();
    // No other session can create the schema before this transaction ends.
    runtime.block_on(async { session.script("begin; create schema onetrip_bench").await }).unwrap();
    let mut bench = Onetrip::start(&small(&url, &[]), Stdio::null());
    bench.wait_for("making the tables");
    wait_for_session(&url, "query like 'create schema%' and wait_event_type = 'Lock'");
    bench.signal(Signal::INT);
    let (_, said) = bench.end();
    assert_eq!(said.lines().last(), Some("onetrip: bench: stopped by SIGINT"));
    runtime.block_on(async { session.script("commit").await }).unwrap();
    assert!(has_schema(&url));
}

#[test]
fn the_schema_of_a_run_that_is_at_work_is_dropped_by_no_other() {
    let url = database();
    let mut first = Onetrip::start(&small(&url, &["--repetitions", "1000"]), Stdio::null());
    first.wait_for("simple_insert");
    let said = refusal(&small(&url, &["--force"]));
    assert!(said.contains("another run is at work in this database"), "{said}");
    assert!(refusal(&small(&url, &[])).contains("has a schema onetrip_bench already"));
    assert!(has_schema(&url));
    first.signal(Signal::INT);
    let (_, said) = first.end();
    assert!(said.ends_with("stopped by SIGINT, with what was measured so far\n"), "{said}");
    assert!(!has_schema(&url));
}

#[test]
fn the_limits_of_a_server_do_not_keep_the_tables_from_being_made_and_dropped() {
    let url = database();
    let name = url.rsplit('/').next().unwrap();
    for setting in [
        "statement_timeout = '100ms'",
        "default_transaction_isolation = 'serializable'",
        "search_path = 'nowhere'",
    ] {
        run(&url, &format!("alter database {name} set {setting}"));
    }
    let script = ["bench", "--builtin", "select-only", "--seconds", "0.1", "--repetitions", "1"];
    let output = onetrip(&[&script[..], &["--url", &url]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(!has_schema(&url));
}

#[test]
fn a_value_that_is_given_twice_is_measured_once() {
    let url = database();
    let twice = ["--tasks", "20,20", "--rtt", "0,0", "--depth", "4,4", "--seconds", "0.01"];
    let more = ["--preset", "concurrency,trips", "--workload", "select_single,selects"];
    let levels = ["--isolation", "serializable,serializable", "--repetitions", "1", "--url", &url];
    let output = onetrip(&[&["bench"], &more[..], &levels[..], &twice[..]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("3/3 "), "{said}");
}

#[test]
fn operations_are_counted_by_rows_and_statements_also_where_a_call_does_many() {
    let url = database();
    let out = tempdir().unwrap();
    let cells = ["--preset", "trips", "--workload", "selects,inserts", "--rtt", "0"];
    let count = ["--depth", "100", "--operations", "2000", "--repetitions", "1", "--url", &url];
    let path = ["--out", out.path().to_str().unwrap()];
    assert!(onetrip(&[&["bench"], &cells[..], &count[..], &path[..]].concat()).status.success());
    let results = fs::read_to_string(out.path().join("results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    for cell in results["cells"].as_array().unwrap() {
        assert_eq!(cell["repetitions"][0]["operations"], 2000, "{cell}");
    }
}

#[test]
fn there_are_no_more_connections_than_tasks_that_could_use_them() {
    let url = database();
    // More connections than any machine allows.
    let most = ["--connections", "50000", "--workload", "select_single,join"];
    let said = onetrip(&small(&url, &most));
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn a_lost_connection_to_a_server_that_is_there_leaves_no_schema() {
    let url = database();
    let mut bench = Onetrip::start(&small(&url, &["--repetitions", "1000"]), Stdio::null());
    bench.wait_for("simple_insert");
    let sql = "select pg_terminate_backend(pid) from pg_stat_activity \
        where application_name = 'onetrip bench, tables' and datname = current_database()";
    assert_eq!(run(&url, sql), 1);
    let (status, said) = bench.end();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(!said.contains("may be left"), "{said}");
    assert!(!has_schema(&url));
}
