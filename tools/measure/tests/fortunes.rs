//! The web page, in front of a real server.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use onetrip::{Client, Config};
use onetrip_lab::postgres::{Options, PrivatePostgres, shared};
use onetrip_measure::fortunes::{CONNECTIONS_DEFAULT, Mode, Page, create};
use onetrip_measure::load::{Load, Ran, Snapshot, Until};

/// For what must come, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(600);

/// A schema of the test's own with the table in it, and how to connect.
async fn table(server: &PrivatePostgres) -> (Config, String) {
    let config: Config = server.url().parse().unwrap();
    let schema = format!("{}_\"é", server.new_name());
    let session = Client::connect_with(&config).await.unwrap();
    let session = session.session().await.unwrap();
    let quoted = schema.replace('"', "\"\"");
    session.script(&format!("create schema \"{quoted}\"")).await.unwrap();
    create(&session, &schema).await.unwrap();
    (config, schema)
}

async fn started(mode: Mode) -> Page {
    let (config, schema) = table(shared()).await;
    Page::start(&config, &schema, mode, CONNECTIONS_DEFAULT).await.unwrap()
}

fn until(until: Until) -> Load {
    Load { until, rate: None, seed: 1 }
}

async fn load(page: &Page, tasks: usize, load: Load) -> Ran {
    page.load(tasks, load, &|_| ()).await.unwrap()
}

/// What is sent for the page, by a client that knows nothing of HTTP but the end.
fn fetched(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The page as its specification has it, written by hand.
const EXPECTED: &str = include_str!("../src/fortunes/expected.html");

#[tokio::test]
async fn the_page_is_right_to_the_byte_in_every_mode() {
    for mode in Mode::ALL {
        let page = started(mode).await;
        let answer = fetched(&page.url());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, EXPECTED.trim_end(), "{}", mode.name());
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200 ok"), "{head}");
        for line in ["content-type: text/html; charset=utf-8", "server: onetrip", "date: "] {
            assert!(head.contains(line), "{head}");
        }
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        page.stop().await;
    }
}

#[tokio::test]
async fn requests_are_counted_with_their_times_and_trips_in_every_mode() {
    for mode in Mode::ALL {
        let page = started(mode).await;
        let before = page.trips();
        let snapshots = Mutex::new(Vec::<Snapshot>::new());
        let watch = |snapshot| snapshots.lock().unwrap().push(snapshot);
        let ran = page.load(16, until(Until::Each(50)), &watch).await.unwrap();
        assert_eq!((ran.repetition.operations, ran.repetition.errors), (800, 0));
        assert_eq!(ran.recorder.latency.latency().unwrap().count, 800);
        let trips = page.trips() - before;
        // Each statement is a trip, and more when one is prepared on each connection; together they
        // may be fewer.
        assert!((1..=800 + 10 * CONNECTIONS_DEFAULT as u64).contains(&trips), "{trips} trips");
        if mode == Mode::Pool {
            assert!(trips >= 800, "{trips} trips");
        }
        let last = *snapshots.lock().unwrap().last().unwrap();
        assert_eq!((last.operations, last.part), (800, 1.0), "{last:?}");
        page.stop().await;
    }
}

#[tokio::test]
async fn an_open_loop_of_pages_measures_from_the_schedule() {
    let page = started(Mode::Shared).await;
    let open = Load { rate: Some(500.0), ..until(Until::Operations(100)) };
    let ran = load(&page, 8, open).await;
    assert_eq!(ran.repetition.operations, 100);
    assert_eq!(ran.recorder.lag.latency().unwrap().count, 100);
    page.stop().await;
}

#[tokio::test]
async fn a_page_that_is_not_right_ends_the_run_and_says_where() {
    let (config, schema) = table(shared()).await;
    let page = Page::start(&config, &schema, Mode::Shared, 2).await.unwrap();
    let client = Client::connect_with(&config).await.unwrap();
    let update = format!(
        "update \"{}\".fortune set message = '<b>' where id = 7",
        schema.replace('"', "\"\"")
    );
    client.execute(&update, &[]).await.unwrap();
    let error = page.load(2, until(Until::Each(5)), &|_| ()).await.unwrap_err().to_string();
    assert!(error.contains("the page differs at byte"), "{error}");
    assert!(fetched(&page.url()).contains("<td>7</td><td>&lt;b&gt;</td>"));
    page.stop().await;
}

#[tokio::test]
async fn a_table_that_is_not_there_is_said_at_the_start() {
    let config: Config = shared().url().parse().unwrap();
    let error = Page::start(&config, "no_such", Mode::Pool, 2).await.unwrap_err().to_string();
    assert!(error.contains("no_such") && !error.contains('\n'), "{error}");
}

#[tokio::test]
async fn requests_fail_by_status_while_the_database_is_gone_and_succeed_when_it_is_back() {
    let mut server = PrivatePostgres::start(Options::default()).unwrap();
    let (config, schema) = table(&server).await;
    // So long a request waits for a connection that may still come.
    let config = config.wait_timeout(Duration::from_secs(2));
    let page = |mode| Page::start(&config, &schema, mode, 4);
    let (pool, shared, repeatable) =
        tokio::try_join!(page(Mode::Pool), page(Mode::Shared), page(Mode::Repeatable)).unwrap();
    let pages = [&pool, &shared, &repeatable];
    let once = |page| load(page, 4, until(Until::Each(1)));
    for page in pages {
        assert_eq!(once(page).await.repetition.errors, 0);
    }
    server.stop_immediate().unwrap();
    let (pool, shared, repeatable) = tokio::join!(once(&pool), once(&shared), once(&repeatable));
    for ran in [pool, shared, repeatable] {
        assert_eq!((ran.repetition.operations, ran.repetition.errors), (0, 4), "{ran:?}");
        assert_eq!(ran.recorder.errors.keys().collect::<Vec<_>>(), ["503"]);
        assert_eq!(ran.recorder.latency.latency(), None);
    }
    server.start_again().unwrap();
    let start = Instant::now();
    for page in pages {
        while once(page).await.repetition.errors > 0 {
            assert!(start.elapsed() < PATIENCE, "a page does not recover");
        }
    }
}

#[tokio::test]
async fn a_page_that_is_stopped_or_dropped_leaves_no_port_thread_or_session() {
    let server = PrivatePostgres::start(Options::default()).unwrap();
    let (config, schema) = table(&server).await;
    let own = config.clone().application_name("page");
    for is_stopped in [true, false] {
        let page = Page::start(&own, &schema, Mode::Pool, 4).await.unwrap();
        load(&page, 8, until(Until::Each(5))).await;
        let address = page.url()["http://".len()..].split('/').next().unwrap().to_owned();
        if is_stopped {
            page.stop().await;
            assert!(TcpStream::connect(&address).is_err());
        } else {
            drop(page);
            eventually("the port is free", || TcpStream::connect(&address).is_err()).await;
        }
        let client = Client::connect_with(&config).await.unwrap();
        let start = Instant::now();
        loop {
            let sql = "select count(*) from pg_stat_activity where application_name = 'page'";
            let row = client.query_one(sql, &[]).await.unwrap();
            if row.try_get::<i64>(0).unwrap() == 0 {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "sessions are left");
        }
    }
}

/// Waits for it, with other tests' pages about.
async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_load_that_is_dropped_ends() {
    let page = started(Mode::Shared).await;
    let endless = page.load(4, until(Until::Elapsed(Duration::MAX)), &|_| ());
    tokio::select! {
        ended = endless => panic!("it ended by itself: {ended:?}"),
        () = eventually("trips", || page.trips() > 20) => {}
    }
    // Only then can the threads end before the time that they have.
    page.stop().await;
}
