//! LISTEN and NOTIFY: what a listener receives, how it reconnects, and how it reports gaps.

use std::pin::Pin;

use crate::pooled::shared;
use futures_core::Stream;
use onetrip::config::Config;
use onetrip::{Client, Event, Kind, Listener, Notification, Outcome};
use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::proxy::{Direction, Fault, Scope};

use crate::support::*;

/// A channel that no other test uses.
fn channel() -> String {
    shared().new_name()
}

#[track_caller]
fn heard(event: Event) -> (String, String) {
    let Event::Notification(Notification { channel, payload, .. }) = event else {
        panic!("a gap where a notification was expected");
    };
    (channel, payload)
}

async fn next(listener: &mut Listener) -> Event {
    listener.next().await.unwrap()
}

/// The server processes that listen under this application name.
async fn listening(name: &str) -> Vec<i32> {
    let sql =
        "select pid from pg_stat_activity where application_name = $1 and query ilike '%listen%'";
    let rows = session().await.query(sql, &[&name]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn a_listener_hears_what_is_notified_in_order() {
    run(async {
        let (client, channel) = (client().await, channel());
        let mut listener = client.listen(&channel).await.unwrap();
        let pid = pid_of(&client).await;
        for payload in ["first", "", "third"] {
            client.notify(&channel, payload).await.unwrap();
        }
        for payload in ["first", "", "third"] {
            let Event::Notification(notification) = next(&mut listener).await else { panic!() };
            assert_eq!((&*notification.channel, &*notification.payload), (&*channel, payload));
            assert_eq!(notification.process_id, pid);
        }
    });
}

#[test]
fn a_notification_of_a_transaction_comes_when_it_commits() {
    run(async {
        let (client, channel) = (client().await, channel());
        let mut listener = client.listen(&channel).await.unwrap();
        let mut session = client.session().await.unwrap();
        let given_up = session.begin().await.unwrap();
        given_up.notify(&channel, "rolled back").await.unwrap();
        given_up.rollback().await.unwrap();
        let kept = session.begin().await.unwrap();
        kept.notify(&channel, "kept").await.unwrap();
        client.notify(&channel, "meanwhile").await.unwrap();
        assert_eq!(heard(next(&mut listener).await).1, "meanwhile");
        kept.commit().await.unwrap();
        assert_eq!(heard(next(&mut listener).await).1, "kept");
    });
}

#[test]
fn names_of_channels_are_taken_letter_by_letter() {
    run(async {
        let client = client().await;
        let mut listener = client.listener().await.unwrap();
        for name in [r#"Mixed "quoted"; select 1 --"#, "Ünïcödé", "a'b\\c", &"x".repeat(63)] {
            listener.listen(name).await.unwrap();
            client.notify(&name.to_lowercase(), "other case").await.unwrap();
            client.notify(name, "same").await.unwrap();
            let mut event = heard(next(&mut listener).await);
            if name.to_lowercase() == name {
                assert_eq!(event.1, "other case");
                event = heard(next(&mut listener).await);
            }
            assert_eq!(event, (name.to_owned(), "same".to_owned()));
        }
    });
}

#[test]
fn a_name_that_the_server_would_cut_off_is_refused() {
    run(async {
        let client = client().await;
        let listener = client.listener().await.unwrap();
        for name in ["", "a\0b", &"x".repeat(64), &"ü".repeat(32)] {
            failed(listener.listen(name).await, Outcome::NotSent, "channel_name");
            failed(listener.unlisten(name).await, Outcome::NotSent, "channel_name");
            failed(client.listen(name).await, Outcome::NotSent, "channel_name");
            failed(client.notify(name, "").await, Outcome::NotSent, "channel_name");
        }
        rejected(client.notify("c", &"x".repeat(8000)).await, "22023");
        client.notify("c", &"x".repeat(7999)).await.unwrap();
    });
}

#[test]
fn what_is_unlistened_is_heard_no_more() {
    run(async {
        let (client, first, second) = (client().await, channel(), channel());
        let mut listener = client.listen(&first).await.unwrap();
        listener.listen(&second).await.unwrap();
        listener.unlisten(&first).await.unwrap();
        listener.unlisten("never_listened_to").await.unwrap();
        client.notify(&first, "").await.unwrap();
        client.notify(&second, "").await.unwrap();
        assert_eq!(heard(next(&mut listener).await).0, second);
    });
}

#[test]
fn a_listener_takes_no_connection_of_the_pool_and_outlives_its_client() {
    run(async {
        let (client, channel) = (client_with("connections_max=1").await, channel());
        let mut listener = client.listen(&channel).await.unwrap();
        assert_eq!(client.connections(), 1);
        assert_usable(&client).await;
        drop(client);
        session().await.notify(&channel, "still there").await.unwrap();
        assert_eq!(heard(next(&mut listener).await).1, "still there");
    });
}

#[test]
fn a_listener_that_is_dropped_says_goodbye() {
    run(async {
        let client = client_with("application_name=dropped_listener").await;
        let listener = client.listen("dropped").await.unwrap();
        assert_eq!(listening("dropped_listener").await.len(), 1);
        drop(listener);
        until(async || listening("dropped_listener").await.is_empty()).await;
    });
}

#[test]
fn a_lost_connection_comes_back_with_all_channels_and_tells_of_the_gap() {
    run(async {
        let client = client_with("application_name=lost_listener").await;
        let (first, second, third) = (channel(), channel(), channel());
        let mut listener = client.listen(&first).await.unwrap();
        listener.listen(&second).await.unwrap();
        listener.listen(&third).await.unwrap();
        listener.unlisten(&third).await.unwrap();
        client.notify(&first, "before").await.unwrap();
        assert_eq!(heard(next(&mut listener).await).1, "before");
        terminate(listening("lost_listener").await[0]).await;
        assert_eq!(next(&mut listener).await, Event::MayHaveMissed);
        for channel in [&first, &third, &second] {
            client.notify(channel, "after").await.unwrap();
        }
        assert_eq!(heard(next(&mut listener).await).0, first);
        assert_eq!(heard(next(&mut listener).await).0, second);
    });
}

#[test]
fn channels_are_listened_to_again_in_one_trip() {
    run(async {
        let (proxy, client) = (proxy(), client().await);
        let through = client_through(&proxy, "").await;
        let names: Vec<String> = (0..20).map(|_| channel()).collect();
        let mut listener = through.listener().await.unwrap();
        for name in &names {
            listener.listen(name).await.unwrap();
        }
        // The trips of a listener without channels: the login.
        proxy.reset_stats();
        drop(through.listener().await.unwrap());
        let login = proxy.stats().trips;
        drop(through);
        until(async || proxy.stats().open.len() == 1).await;
        proxy.reset_stats();
        proxy.fault(Fault::CutAfter { direction: Direction::Down, bytes: 0 }, Scope::Present);
        assert_eq!(next(&mut listener).await, Event::MayHaveMissed);
        assert_eq!(proxy.stats().trips, login + 1);
        client.notify(&names[19], "back").await.unwrap();
        assert_eq!(heard(next(&mut listener).await).1, "back");
    });
}

#[test]
fn a_server_that_starts_again_is_found_again() {
    run(async {
        let mut server = PrivatePostgres::start(Options::default()).unwrap();
        let client = Client::connect(&server.url()).await.unwrap();
        let mut listener = client.listen("jobs").await.unwrap();
        server.stop_immediate().unwrap();
        // Calls wait for the connection meanwhile.
        let mut second = Box::pin(listener.listen("more"));
        assert!(!poll_once(&mut second).await);
        server.start_again().unwrap();
        second.await.unwrap();
        assert_eq!(next(&mut listener).await, Event::MayHaveMissed);
        let client = Client::connect(&server.url()).await.unwrap();
        client.notify("jobs", "1").await.unwrap();
        client.notify("more", "2").await.unwrap();
        assert_eq!(heard(next(&mut listener).await), ("jobs".into(), "1".into()));
        assert_eq!(heard(next(&mut listener).await), ("more".into(), "2".into()));
    });
}

#[test]
fn what_time_does_not_mend_is_said_once_and_tried_on() {
    run(async {
        let (admin, role) = (session().await, shared().new_name());
        let password = async |word: &str| {
            admin.execute(&format!("alter role {role} password '{word}'"), &[]).await.unwrap();
        };
        admin.execute(&format!("create role {role} login"), &[]).await.unwrap();
        password("first").await;
        let (host, port) = ("127.0.0.1", shared().port());
        let url = format!("postgres://{role}:first@{host}:{port}/postgres?application_name={role}");
        let client = Client::connect(&url).await.unwrap();
        let mut listener = client.listen("c").await.unwrap();
        password("second").await;
        terminate(listening(&role).await[0]).await;
        let error = error(listener.next().await);
        assert_eq!((error.kind(), error.sqlstate()), (Kind::Server, Some("28P01")));
        assert!(!error.to_string().contains("first"));
        password("first").await;
        assert_eq!(next(&mut listener).await, Event::MayHaveMissed);
        drop(listener);
    });
}

/// A client that connects to the shared server by its Unix socket.
async fn client_of_unix_socket(name: &str) -> Client {
    let config = Config::new()
        .host_path(shared().socket_dir())
        .port(shared().port())
        .user(shared().user())
        .password(shared().password())
        .dbname("postgres")
        .application_name(name);
    Client::connect_with(&config).await.unwrap()
}

/// P1, in the other direction: notifications that are not read don't pile up here.
#[test]
fn what_is_not_read_stays_with_the_server_and_nothing_is_lost() {
    // More than the 1,024 that are kept, plus what the buffers of a Unix socket hold (0.2 MB).
    const COUNT: i32 = 1_300;
    run(async {
        let client = client_of_unix_socket("slow_listener").await;
        let mut listener = client.listen("slow").await.unwrap();
        let flood = "select pg_notify('slow', lpad(n::text, 7900)) from generate_series(1, $1) n";
        client.execute(flood, &[&COUNT]).await.unwrap();
        let watcher = session().await;
        let blocked = "select wait_event = 'ClientWrite' from pg_stat_activity
                       where application_name = 'slow_listener' and query ilike 'listen%'";
        let mut in_a_row = 0;
        while in_a_row < 20 {
            let row = watcher.query_one(blocked, &[]).await.unwrap();
            in_a_row = if row.get::<Option<bool>>(0) == Some(true) { in_a_row + 1 } else { 0 };
        }
        for number in 1..=COUNT {
            assert_eq!(heard(next(&mut listener).await).1.trim(), number.to_string());
        }
    });
}

#[test]
fn an_answer_is_not_held_up_by_a_full_buffer_and_what_is_dropped_is_told_of() {
    const COUNT: i32 = 3_000;
    run(async {
        let client = client().await;
        let mut listener = client.listen("full").await.unwrap();
        let flood = "select pg_notify('full', n::text) from generate_series(1, $1) n";
        client.execute(flood, &[&COUNT]).await.unwrap();
        listener.listen("another").await.unwrap();
        client.notify("another", "end").await.unwrap();
        assert_eq!(next(&mut listener).await, Event::MayHaveMissed);
        let mut last: i32 = heard(next(&mut listener).await).1.parse().unwrap();
        assert!(last > 1, "{last}");
        while last < COUNT {
            last += 1;
            assert_eq!(heard(next(&mut listener).await).1, last.to_string());
        }
        assert_eq!(heard(next(&mut listener).await).1, "end");
    });
}

#[test]
fn a_dropped_wait_loses_no_notification() {
    run(async {
        let (client, channel) = (client().await, channel());
        let mut listener = client.listen(&channel).await.unwrap();
        for payload in ["1", "2", "3"] {
            let mut wait = Box::pin(listener.next());
            assert!(!poll_once(&mut wait).await);
            client.notify(&channel, payload).await.unwrap();
            drop(wait);
            let event = std::future::poll_fn(|cx| Pin::new(&mut listener).poll_next(cx)).await;
            assert_eq!(heard(event.unwrap().unwrap()).1, payload);
        }
    });
}

#[test]
fn a_dropped_call_of_listen_takes_nothing_back() {
    run(async {
        let (client, channel) = (client().await, channel());
        let mut listener = client.listener().await.unwrap();
        let mut call = Box::pin(listener.listen(&channel));
        assert!(!poll_once(&mut call).await);
        drop(call);
        listener.listen("behind_it").await.unwrap();
        client.notify(&channel, "heard").await.unwrap();
        assert_eq!(heard(next(&mut listener).await).1, "heard");
    });
}

#[test]
fn without_its_runtime_a_listener_says_so() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut listener = runtime.block_on(async { client().await.listen("gone").await.unwrap() });
    drop(runtime);
    run(async move {
        failed(listener.next().await, Outcome::Unknown, "closed");
        failed(listener.listen("more").await, Outcome::Unknown, "closed");
        let ended = std::future::poll_fn(|cx| Pin::new(&mut listener).poll_next(cx)).await;
        assert!(ended.is_none());
    });
}

#[test]
fn a_session_hears_what_it_listens_to_until_it_is_over() {
    run(async {
        let (client, channel) = (client_with("connections_max=1").await, channel());
        let session = client.session().await.unwrap();
        session.execute(&format!("listen {channel}"), &[]).await.unwrap();
        let mut events = session.notifications();
        session.notify(&channel, "own").await.unwrap();
        crate::support::session().await.notify(&channel, "of another").await.unwrap();
        for payload in ["own", "of another"] {
            assert_eq!(heard(events.next().await.unwrap()).1, payload);
        }
        drop(session);
        assert_eq!(events.next().await, None);
        // The next user of the connection receives none of it, although the reset leaves with its
        // first statement.
        let session = client.session().await.unwrap();
        let mut events = session.notifications();
        crate::support::session().await.notify(&channel, "late").await.unwrap();
        session.query("select 1", &[]).await.unwrap();
        assert!(!poll_once(&mut Box::pin(events.next())).await);
    });
}

#[test]
fn notifications_that_nobody_asked_for_are_counted() {
    run(async {
        let (client, channel) = (client().await, channel());
        let session = client.session().await.unwrap();
        session.execute(&format!("listen {channel}"), &[]).await.unwrap();
        session.notify(&channel, "").await.unwrap();
        session.query("select 1", &[]).await.unwrap();
        assert_eq!(client.metrics().counts.notifications_dropped, 1);
    });
}

#[test]
fn a_session_that_does_not_read_its_notifications_is_told_of_the_gap() {
    run(async {
        let session = session().await;
        session.execute("listen flood", &[]).await.unwrap();
        let mut events = session.notifications();
        let flood = "select pg_notify('flood', n::text) from generate_series(1, 2000) n";
        session.execute(flood, &[]).await.unwrap();
        session.query("select 1", &[]).await.unwrap();
        assert_eq!(events.next().await, Some(Event::MayHaveMissed));
        for number in 2000 - 1024 + 1..=2000 {
            assert_eq!(heard(events.next().await.unwrap()).1, number.to_string());
        }
    });
}

/// P11.
#[test]
fn what_comes_between_replies_belongs_to_none_of_them() {
    run(async {
        let session = session().await;
        session.execute("listen between", &[]).await.unwrap();
        let (mut events, mut pipeline) = (session.notifications(), session.pipeline());
        let function = "create function pg_temp.between_() returns void language plpgsql as $$
                        begin raise notice 'between'; perform pg_notify('between', ''); end $$";
        session.execute(function, &[]).await.unwrap();
        let mut replies = Vec::new();
        for number in 0..50 {
            drop(pipeline.execute("select pg_temp.between_()", &[]));
            replies.push(pipeline.query_one("select $1::int", &[&number]));
            drop(pipeline.sync());
        }
        drop(pipeline.execute("set application_name = 'between'", &[]));
        pipeline.finish().await.unwrap();
        for (number, reply) in (0..).zip(replies) {
            assert_eq!(reply.await.unwrap().get::<i32>(0), number);
            assert_eq!(heard(events.next().await.unwrap()).0, "between");
        }
        assert_eq!(session.parameter("application_name").as_deref(), Some("between"));
    });
}
