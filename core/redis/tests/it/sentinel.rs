//! The policy of a client of Redis Sentinel, against answers that are written out.

use std::time::Duration;

use onetrip_engine::Time;
use onetrip_redis::client::login::Login;
use onetrip_redis::client::sentinel::{Limits, LineId, Output, Role, Sentinels, Server, Settings};
use onetrip_redis::redirect::Address;

struct Client {
    policy: Sentinels,
    now: Time,
    open: Vec<(LineId, Address, String)>,
    changed: Vec<Role>,
    not_found: usize,
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn list(items: &[&str]) -> String {
    let texts: String = items.iter().map(|item| bulk(item)).collect();
    format!("*{}\r\n{texts}", items.len())
}

/// What a Sentinel of three says.
fn answer(id: &str, master: &str, epoch: u64, others: &[&str]) -> String {
    let count = others.len().to_string();
    let of_others: String = others
        .iter()
        .map(|other| list(&["ip", other, "port", "26379", "runid", other, "flags", "sentinel"]))
        .collect();
    let epoch = epoch.to_string();
    bulk(id)
        + &list(&["config-epoch", &epoch, "num-other-sentinels", &count])
        + &list(&[master, "6379"])
        + &format!("*{}\r\n{of_others}", others.len())
        + &format!("*1\r\n{}", list(&["ip", "replica", "port", "6379", "flags", "slave"]))
}

fn address(host: &str, port: u16) -> Address {
    Address::new(host, port).unwrap()
}

impl Client {
    fn new(sentinels: &[&str]) -> Client {
        Client::with(sentinels, Login::default())
    }

    fn with(sentinels: &[&str], login: Login) -> Client {
        let settings = Settings {
            name: "mymaster".into(),
            sentinels: sentinels.iter().map(|host| address(host, 26379)).collect(),
            login,
            wants_replicas: true,
            limits: Limits::default(),
        };
        let policy = Sentinels::new(settings, 7);
        let now = Time::ZERO;
        let mut client =
            Client { policy, now, open: Vec::new(), changed: Vec::new(), not_found: 0 };
        client.policy.handle_time(client.now);
        client.drain();
        client
    }

    fn drain(&mut self) {
        while let Some(output) = self.policy.poll_output() {
            match output {
                Output::Open { line, address, send } => {
                    self.open.push((line, address, String::from_utf8_lossy(&send).into()));
                }
                Output::Close { line } => self.open.retain(|it| it.0 != line),
                Output::Changed(role) => self.changed.push(role),
                Output::NotFound => self.not_found += 1,
            }
        }
    }

    fn line(&self, host: &str) -> LineId {
        self.open.iter().rfind(|it| &*it.1.host == host).unwrap_or_else(|| panic!("{host}")).0
    }

    fn comes(&mut self, from: &str, text: &str) {
        let line = self.line(from);
        // Byte by byte: it does not matter how it comes.
        for byte in text.as_bytes() {
            self.policy.handle_input(self.now, line, &[*byte]);
        }
        self.drain();
    }

    fn fails(&mut self, host: &str) {
        let line = self.line(host);
        self.open.retain(|it| it.0 != line);
        self.policy.handle_closed(self.now, line, "its connection was refused");
        self.drain();
    }

    fn waits(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.policy.handle_time(self.now);
        self.drain();
    }

    fn lost(&mut self, number: u64) {
        self.policy.handle_lost(self.now, Role::Master, number, "it was lost");
        self.drain();
    }

    fn master(&self) -> Option<String> {
        self.policy.server(Role::Master).map(|server| server.address.host.into())
    }

    fn number(&self) -> u64 {
        self.policy.server(Role::Master).unwrap().number
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// A client that has found its master, `a`, in epoch 1.
fn settled() -> Client {
    let mut client = Client::new(&["s1", "s2", "s3"]);
    client.comes("s1", &answer("s1", "a", 1, &["s2", "s3"]));
    client.comes("s2", &answer("s2", "a", 1, &["s1", "s3"]));
    client.comes("s3", &answer("s3", "a", 1, &["s1", "s2"]));
    assert_eq!(client.master().as_deref(), Some("a"));
    client.policy.handle_ready(client.now, Role::Master, client.number());
    client
}

#[test]
fn all_sentinels_are_asked_at_once_and_a_majority_decides() {
    let mut client = Client::new(&["s1", "s2", "s3"]);
    assert_eq!(client.open.len(), 3);
    client.comes("s1", &answer("s1", "a", 1, &["s2", "s3"]));
    assert_eq!(client.master(), None);
    client.comes("s3", &answer("s3", "a", 1, &["s1", "s2"]));
    assert_eq!(client.master().as_deref(), Some("a"));
}

#[test]
fn of_five_that_are_named_two_may_be_dead_and_not_three() {
    let named = ["s1", "s2", "s4", "s5", "s6"];
    let mut client = Client::new(&named);
    client.comes("s1", &answer("s1", "a", 1, &["s2", "s3"]));
    client.comes("s2", &answer("s2", "a", 1, &["s1", "s3"]));
    // A third that nobody named does not stand in for one of the dead.
    client.comes("s3", &answer("s3", "a", 1, &["s1", "s2"]));
    ["s4", "s5", "s6"].iter().for_each(|dead| client.fails(dead));
    assert_eq!(client.master(), None);
    let why = client.policy.explain();
    assert!(why.contains("3 of 6 Sentinels answered, and 4 must"), "{why}");

    let mut client = Client::new(&named);
    client.comes("s1", &answer("s1", "a", 1, &["s2", "s4"]));
    client.comes("s2", &answer("s2", "a", 1, &["s1", "s4"]));
    ["s5", "s6"].iter().for_each(|dead| client.fails(dead));
    assert_eq!(client.master(), None);
    client.comes("s4", &answer("s4", "a", 1, &["s1", "s2"]));
    assert_eq!(client.master().as_deref(), Some("a"));
    assert!(!client.policy.explain().contains("must"));
}

#[test]
fn of_three_one_may_be_down_whose_name_is_not_its_address() {
    let mut client = Client::new(&["name-1", "name-2", "name-3"]);
    client.comes("name-1", &answer("s1", "a", 1, &["s2", "s3"]));
    client.fails("name-3");
    client.fails("s3");
    assert_eq!(client.master(), None);
    client.comes("name-2", &answer("s2", "a", 1, &["s1", "s3"]));
    assert_eq!(client.master().as_deref(), Some("a"));
}

#[test]
fn sentinels_that_others_know_are_asked_in_the_same_round() {
    let mut client = Client::new(&["s1"]);
    client.comes("s1", &answer("s1", "a", 1, &["s2", "s3"]));
    assert_eq!(client.master(), None, "one of three");
    client.comes("s2", &answer("s2", "a", 1, &["s1", "s3"]));
    assert_eq!(client.master().as_deref(), Some("a"));
}

#[test]
fn a_sentinel_that_is_cut_off_with_an_old_master_is_not_believed() {
    let mut client = settled();
    client.lost(client.number());
    assert_eq!(client.master(), None, "not before the Sentinels confirm it");
    client.waits(SECOND);
    client.comes("s1", &answer("s1", "b", 2, &["s2", "s3"]));
    client.comes("s2", &answer("s2", "a", 1, &["s1", "s3"]));
    assert_eq!(client.master().as_deref(), Some("b"), "the newest epoch counts");
    client.comes("s3", &answer("s3", "a", 1, &["s1", "s2"]));
    assert_eq!(client.master().as_deref(), Some("b"));
    client.lost(client.number());
    client.waits(SECOND);
    client.comes("s2", &answer("s2", "a", 1, &["s1", "s3"]));
    client.comes("s3", &answer("s3", "a", 1, &["s1", "s2"]));
    assert_eq!(client.master().as_deref(), Some("b"), "what was learned is not forgotten");
}

#[test]
fn one_that_lost_its_memory_is_no_majority_of_those_that_were_known() {
    let mut client = Client::new(&["s1"]);
    client.comes("s1", &answer("s1", "a", 5, &["s2", "s3"]));
    client.comes("s2", &answer("s2", "a", 5, &["s1", "s3"]));
    client.fails("s3");
    client.lost(client.number());
    client.waits(SECOND);
    client.fails("s2");
    client.fails("s3");
    client.comes("s1", &answer("s1", "old", 0, &[]));
    assert_eq!(client.master(), None);
    assert_eq!(client.not_found, 1);
}

#[test]
fn a_sentinel_that_is_down_does_not_delay_a_majority() {
    let mut client = Client::new(&["s1", "s2", "s3"]);
    client.fails("s1");
    client.comes("s2", &answer("s2", "a", 1, &["s1", "s3"]));
    client.comes("s3", &answer("s3", "a", 1, &["s1", "s2"]));
    assert_eq!((client.master().as_deref(), client.now), (Some("a"), Time::ZERO));
    // One that is silent ends the round later, and nothing else is asked meanwhile.
    let mut client = settled();
    client.lost(client.number());
    client.waits(SECOND);
    client.comes("s2", &answer("s2", "a", 1, &["s1", "s3"]));
    client.comes("s3", &answer("s3", "a", 1, &["s1", "s2"]));
    assert_eq!(client.master().as_deref(), Some("a"));
}

#[test]
fn an_announcement_is_a_reason_to_ask_and_not_believed_by_itself() {
    let mut client = settled();
    let before = client.open.len();
    client.comes("s1", "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    client.comes("s1", &list(&["message", "+switch-master", "other a 6379 b 6379"]));
    client.waits(SECOND);
    assert_eq!(client.open.len(), before, "that was about another master");
    client.comes("s1", &list(&["message", "+switch-master", "mymaster a 6379 b 6379"]));
    assert_eq!(client.master().as_deref(), Some("a"));
    let old = client.open.clone();
    client.waits(SECOND);
    assert!(client.open.iter().all(|line| !old.contains(line)), "a new round");
    client.comes("s2", &answer("s2", "b", 2, &["s1", "s3"]));
    client.comes("s3", &answer("s3", "b", 2, &["s1", "s2"]));
    assert_eq!(client.master().as_deref(), Some("b"));
}

#[test]
fn answers_to_questions_from_before_a_loss_do_not_confirm() {
    let mut client = Client::new(&["s1", "s2", "s3"]);
    client.comes("s1", &answer("s1", "a", 1, &["s2", "s3"]));
    client.comes("s2", &answer("s2", "a", 1, &["s1", "s3"]));
    client.lost(client.number());
    client.comes("s3", &answer("s3", "a", 1, &["s1", "s2"]));
    assert_eq!(client.master(), None);
}

#[test]
fn a_loss_of_a_connection_to_a_former_master_changes_nothing() {
    let mut client = settled();
    let old = client.number();
    client.lost(old);
    client.waits(SECOND);
    client.comes("s1", &answer("s1", "b", 2, &["s2", "s3"]));
    client.comes("s2", &answer("s2", "b", 2, &["s1", "s3"]));
    client.lost(old);
    assert_eq!(client.master().as_deref(), Some("b"));
}

#[test]
fn a_master_that_can_not_be_used_makes_pauses_grow_to_a_second() {
    let mut client = settled();
    let mut rounds = 0;
    while client.now < Time::ZERO.after(10 * SECOND) {
        if client.master().is_some() {
            client.lost(client.number());
        }
        client.now = client.policy.poll_deadline().unwrap().max(client.now);
        let before = client.open.clone();
        client.policy.handle_time(client.now);
        client.drain();
        if client.open != before {
            rounds += 1;
            client.comes("s1", &answer("s1", "a", 1, &["s2", "s3"]));
            client.comes("s2", &answer("s2", "a", 1, &["s1", "s3"]));
        }
    }
    assert!((10..=30).contains(&rounds), "{rounds} rounds in 10 s");
}

#[test]
fn a_replica_is_given_for_reads_and_left_alone_once_it_failed() {
    let mut client = settled();
    let Some(Server { address: replica, number }) = client.policy.server(Role::Replica) else {
        panic!("there is a replica");
    };
    assert_eq!(&*replica.host, "replica");
    client.policy.handle_lost(client.now, Role::Replica, number, "its link is down");
    client.drain();
    assert_eq!(client.policy.server(Role::Replica), None);
    client.waits(2 * SECOND);
    assert!(client.policy.server(Role::Replica).is_some_and(|server| server.number > number));
}

#[test]
fn the_login_is_sent_to_sentinels_and_shown_to_nobody() {
    let login = Login { user: Some("app".into()), password: Some("secret".into()) };
    assert!(!format!("{login:?}").contains("secret"));
    let mut client = Client::with(&["s1"], login);
    let auth = list(&["AUTH", "app", "secret"]);
    assert!(client.open.iter().all(|(_, _, sent)| sent.starts_with(&auth)));
    client.comes("s1", "-WRONGPASS secret is wrong\r\n");
    client.comes("s1", &"-NOAUTH Authentication required.\r\n".repeat(5));
    assert_eq!(client.not_found, 1);
    let why = client.policy.explain();
    assert!(why.contains("s1:26379: it refused the login (WRONGPASS)"), "{why}");
    assert!(!why.contains("secret") && !format!("{:?}", client.policy).contains("secret"));
}

#[test]
fn what_a_sentinel_complained_of_explains_the_next_round_until_it_answers() {
    let mut client = Client::new(&["s1"]);
    client.fails("s1");
    client.waits(10 * SECOND);
    assert_eq!(client.open.len(), 1, "it is asked again");
    let why = client.policy.explain();
    assert!(why.contains("its connection was refused"), "{why}");
    client.comes("s1", &answer("one", "a", 1, &[]));
    let why = client.policy.explain();
    assert!(why.contains("names a:6379") && !why.contains("refused"), "{why}");
}

#[test]
fn what_a_sentinel_said_in_one_round_explains_the_next_and_does_not_count_there() {
    let mut client = Client::new(&["s1", "s2"]);
    client.comes("s1", &answer("s1", "a", 1, &["s2"]));
    client.fails("s2");
    assert_eq!(client.not_found, 1);
    client.waits(10 * SECOND);
    assert_eq!(client.open.len(), 2, "both are asked again");
    let why = client.policy.explain();
    assert!(why.contains("s1:26379 names a:6379 (epoch 1), and was asked again"), "{why}");
    client.comes("s2", &answer("s2", "a", 1, &["s1"]));
    assert_eq!(client.master(), None, "one answer of each of two rounds is no majority");
}

#[test]
fn what_a_sentinel_may_not_tell_or_says_wrongly_is_an_explanation() {
    for (reply, why) in [
        ("$1\r\n1\r\n-ERR No such master\r\n*-1\r\n-ERR x\r\n-ERR x\r\n", "no master of this name"),
        ("-ERR unknown command\r\n-ERR x\r\n-NOPERM x\r\n-ERR x\r\n-ERR x\r\n", "NOPERM"),
        ("$1\r\n1\r\n*0\r\n*2\r\n$1\r\na\r\n$1\r\n0\r\n*0\r\n*0\r\n", "no address"),
        (
            "-ERR unknown command 'SENTINEL'\r\n-ERR unknown command 'SENTINEL'\r\n\
             -ERR unknown command 'SENTINEL'\r\n-ERR x\r\n-ERR x\r\n",
            "it is no Sentinel",
        ),
        ("HTTP/1.1 400 Bad Request\r\n", "does not speak"),
    ] {
        let mut client = Client::new(&["s1"]);
        client.comes_whole("s1", reply);
        assert_eq!(client.master(), None);
        let said = client.policy.explain();
        assert!(said.contains(why) && !said.contains('\n'), "{said}");
    }
}

impl Client {
    fn comes_whole(&mut self, from: &str, text: &str) {
        let line = self.line(from);
        self.policy.handle_input(self.now, line, text.as_bytes());
        self.drain();
    }
}

#[test]
fn a_server_that_knows_epochs_from_nobody_needs_a_majority_of_names() {
    let mut client = Client::new(&["s1", "s2", "s3"]);
    let without = |text: String| text.replace("config-epoch", "config-other");
    client.comes("s1", &without(answer("s1", "a", 1, &["s2", "s3"])));
    client.comes("s2", &without(answer("s2", "b", 2, &["s1", "s3"])));
    assert_eq!(client.master(), None);
    client.comes("s3", &without(answer("s3", "b", 2, &["s1", "s2"])));
    assert_eq!(client.master().as_deref(), Some("b"));
}
