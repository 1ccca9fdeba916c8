//! Cached replies: what is kept, for how long, and who gets it.

use onetrip_redis::client::cache::{Cache, Counts, ENTRY_BYTES, FetchId, Found, KEY_BYTES, Writes};
use onetrip_redis::{Command, Spec};

/// The connection whose replies are kept.
const HERE: u64 = 7;

type Happens = fn(&mut Cache<u32>);

fn cache(bytes_max: usize) -> Cache<u32> {
    let mut cache = Cache::new(bytes_max);
    cache.opened(HERE);
    cache
}

fn look_up(cache: &mut Cache<u32>, words: &str, caller: u32) -> Found {
    let command = Command::new(words);
    cache.look_up(&command, Spec::of(&command), || caller)
}

fn fetch(cache: &mut Cache<u32>, words: &str) -> FetchId {
    match look_up(cache, words, 0) {
        Found::Fetch(fetch) => fetch,
        other => panic!("{words}: {other:?}"),
    }
}

fn keep(cache: &mut Cache<u32>, words: &str, reply: &str) {
    let fetch = fetch(cache, words);
    assert!(cache.answered(fetch, HERE, reply.as_bytes()).is_empty());
}

fn is_kept(cache: &mut Cache<u32>, words: &str) -> bool {
    match look_up(cache, words, 0) {
        Found::Hit(_) => true,
        Found::Fetch(fetch) => {
            cache.failed(fetch);
            false
        }
        other => panic!("{words}: {other:?}"),
    }
}

fn push(keys: &[&str]) -> Vec<u8> {
    let mut push = format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n", keys.len());
    for key in keys {
        push += &format!("${}\r\n{key}\r\n", key.len());
    }
    push.into_bytes()
}

#[test]
fn a_reply_is_kept_until_the_server_says_that_its_key_was_changed() {
    let mut cache = cache(1 << 20);
    keep(&mut cache, "GET a", "$1\r\nx\r\n");
    keep(&mut cache, "STRLEN a", ":1\r\n");
    keep(&mut cache, "GET b", "_\r\n");
    assert_eq!(look_up(&mut cache, "GET a", 0), Found::Hit("$1\r\nx\r\n".into()));
    assert!(cache.pushed(&push(&["a", "c"])));
    assert!(!is_kept(&mut cache, "GET a") && !is_kept(&mut cache, "STRLEN a"));
    assert!(is_kept(&mut cache, "GET b"));
    assert_eq!(cache.counts().invalidations, 2);
    assert!(cache.pushed(b">2\r\n$10\r\ninvalidate\r\n_\r\n"));
    assert!(!is_kept(&mut cache, "GET b"));
}

#[test]
fn a_push_that_says_nothing_of_keys_is_for_others() {
    let mut cache = cache(1 << 20);
    keep(&mut cache, "GET a", "$1\r\nx\r\n");
    assert!(!cache.pushed(b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n"));
    assert!(is_kept(&mut cache, "GET a"));
    // What is not understood says that nothing is true any more.
    assert!(cache.pushed(b">2\r\n$10\r\ninvalidate\r\n:1\r\n"));
    assert!(!is_kept(&mut cache, "GET a"));
}

#[test]
fn a_reply_is_not_kept_if_something_concerned_its_key_meanwhile() {
    let meanwhile: [(&str, Happens); 5] = [
        ("a push", |cache| assert!(cache.pushed(&push(&["a"])))),
        ("a write", |cache| cache.wrote(&Writes::of(&Command::new("SET a 1")))),
        ("a script", |cache| cache.wrote(&Writes::of_script())),
        ("the loss of the connection", |cache| cache.closed(HERE)),
        ("another connection", |cache| cache.opened(HERE + 1)),
    ];
    for (what, happens) in meanwhile {
        let mut cache = cache(1 << 20);
        let fetch = fetch(&mut cache, "MGET a b");
        happens(&mut cache);
        cache.answered(fetch, HERE, b"*2\r\n_\r\n_\r\n");
        assert_eq!(cache.counts().entries, 0, "{what}");
    }
    let mut cache = cache(1 << 20);
    let fetch = fetch(&mut cache, "MGET a b");
    assert!(cache.pushed(&push(&["c"])));
    cache.wrote(&Writes::of(&Command::new("SET c 1")));
    cache.answered(fetch, HERE, b"*2\r\n_\r\n_\r\n");
    assert!(is_kept(&mut cache, "MGET a b"));
}

#[test]
fn those_who_come_while_it_is_asked_for_join() {
    let mut cache = cache(1 << 20);
    let fetch = fetch(&mut cache, "GET a");
    assert_eq!(look_up(&mut cache, "GET a", 1), Found::Joined);
    assert_eq!(look_up(&mut cache, "GET a", 2), Found::Joined);
    assert_eq!(cache.answered(fetch, HERE, b"+x\r\n"), [1, 2]);
    assert!(cache.answered(fetch, HERE, b"+y\r\n").is_empty());
    assert_eq!(look_up(&mut cache, "GET a", 3), Found::Hit("+x\r\n".into()));
    let Counts { hits, misses, joined, .. } = cache.counts();
    assert_eq!((hits, misses, joined), (1, 1, 2));
}

#[test]
fn nobody_joins_a_fetch_that_may_be_older_than_a_change() {
    let mut cache = cache(1 << 20);
    let old = fetch(&mut cache, "GET a");
    assert_eq!(look_up(&mut cache, "GET a", 1), Found::Joined);
    cache.wrote(&Writes::of(&Command::new("SET a 1")));
    let new = fetch(&mut cache, "GET a");
    assert_eq!(look_up(&mut cache, "GET a", 2), Found::Joined);
    assert_eq!(cache.answered(old, HERE, b"+old\r\n"), [1]);
    assert_eq!(cache.answered(new, HERE, b"+new\r\n"), [2]);
    assert_eq!(look_up(&mut cache, "GET a", 3), Found::Hit("+new\r\n".into()));
}

#[test]
fn a_fetch_whose_caller_is_gone_serves_those_who_joined() {
    let mut cache = cache(1 << 20);
    let joined = fetch(&mut cache, "GET a");
    assert_eq!(look_up(&mut cache, "GET a", 1), Found::Joined);
    assert!(!cache.left(joined));
    assert_eq!(cache.answered(joined, HERE, b"+x\r\n"), [1]);
    let alone = fetch(&mut cache, "GET b");
    assert!(cache.left(alone));
    // Nobody joins what may be taken back.
    let again = fetch(&mut cache, "GET b");
    assert!(cache.answered(alone, HERE, b"+x\r\n").is_empty());
    assert_eq!(look_up(&mut cache, "GET b", 2), Found::Joined);
    assert_eq!(cache.failed(again), [2]);
    assert!(cache.failed(again).is_empty());
}

#[test]
fn an_error_is_never_kept() {
    let mut cache = cache(1 << 20);
    for error in ["-WRONGTYPE no\r\n", "!3\r\nERR\r\n"] {
        let fetch = fetch(&mut cache, "GET a");
        cache.answered(fetch, HERE, error.as_bytes());
        assert!(!is_kept(&mut cache, "GET a"));
    }
}

#[test]
fn what_depends_on_more_than_its_keys_is_not_cached() {
    let mut cache = cache(1 << 20);
    for words in [
        "SET a 1",
        "PING",
        "KEYS *",
        "RANDOMKEY",
        "DBSIZE",
        "TTL a",
        "SRANDMEMBER a",
        "HSCAN a 0",
        "SORT_RO a BY b",
        "EVAL_RO text 1 a",
        "XREAD STREAMS a 0",
        "OBJECT IDLETIME a",
        "GET",
        "JSON.GET a",
        "TOUCH a",
        "EXISTS",
    ] {
        assert_eq!(look_up(&mut cache, words, 0), Found::Nothing, "{words}");
    }
    let cached: Vec<&str> =
        Spec::all().filter(|spec| spec.is_cacheable()).map(Spec::name).collect();
    assert_eq!(
        cached.join(" "),
        "BITCOUNT BITFIELD_RO BITPOS EXISTS EXPIRETIME GEODIST GEOHASH GEOPOS GEORADIUS_RO \
         GEORADIUSBYMEMBER_RO GEOSEARCH GET GETBIT GETRANGE HEXISTS HGET HGETALL HKEYS HLEN HMGET \
         HSTRLEN HVALS LCS LINDEX LLEN LPOS LRANGE MGET PEXPIRETIME SCARD SDIFF SINTER SINTERCARD \
         SISMEMBER SMEMBERS SMISMEMBER STRLEN SUBSTR SUNION TYPE XLEN XRANGE XREVRANGE ZCARD ZCOUNT \
         ZDIFF ZINTER ZINTERCARD ZLEXCOUNT ZMSCORE ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREVRANGE \
         ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCORE ZUNION HEXPIRETIME HPEXPIRETIME"
    );
}

#[test]
fn without_a_connection_that_tracks_nothing_is_kept() {
    let mut cache = Cache::new(1 << 20);
    assert_eq!(look_up(&mut cache, "GET a", 0), Found::Nothing);
    cache.opened(HERE);
    keep(&mut cache, "GET a", "+x\r\n");
    cache.closed(HERE + 1);
    assert!(is_kept(&mut cache, "GET a") && cache.counts().is_on);
    cache.closed(HERE);
    assert_eq!(look_up(&mut cache, "GET a", 0), Found::Nothing);
    assert_eq!(cache.counts().entries, 0);
    assert!(!cache.counts().is_on);
}

#[test]
fn the_reply_of_another_connection_is_not_kept() {
    let mut cache = cache(1 << 20);
    let fetch = fetch(&mut cache, "GET a");
    assert_eq!(look_up(&mut cache, "GET a", 1), Found::Joined);
    assert_eq!(cache.answered(fetch, HERE - 1, b"+x\r\n"), [1]);
    assert!(!is_kept(&mut cache, "GET a"));
}

#[test]
fn what_was_used_longest_ago_makes_room() {
    let one = ENTRY_BYTES + KEY_BYTES + 100;
    let mut cache = cache(one * 10);
    for n in 0..10 {
        keep(&mut cache, &format!("GET {n}"), "+x\r\n");
    }
    assert!(is_kept(&mut cache, "GET 0"));
    let before = cache.counts().entries;
    for n in 10..13 {
        keep(&mut cache, &format!("GET {n}"), "+x\r\n");
        assert!(cache.counts().bytes <= one * 10);
    }
    assert_eq!(before + 3, cache.counts().entries + cache.counts().evicted as usize);
    assert!(cache.counts().evicted > 0);
    assert!(is_kept(&mut cache, "GET 0") && !is_kept(&mut cache, "GET 1"));
}

#[test]
fn a_reply_that_would_take_too_much_of_the_cache_is_not_kept() {
    let mut cache = cache(80_000);
    keep(&mut cache, "GET a", "+x\r\n");
    keep(&mut cache, "GET large", &format!("+{}\r\n", "x".repeat(10_000)));
    assert!(!is_kept(&mut cache, "GET large"));
    let many = Command::new("MGET").args(0..100);
    let Found::Fetch(fetch) = cache.look_up(&many, Spec::of(&many), || 0) else { panic!() };
    cache.answered(fetch, HERE, b"*0\r\n");
    assert_eq!(cache.counts().entries, 1);
    assert!(is_kept(&mut cache, "GET a"));
}

#[test]
fn a_key_that_a_command_names_twice_drops_it_once() {
    let mut cache = cache(1 << 20);
    keep(&mut cache, "MGET a b a a", "*0\r\n");
    keep(&mut cache, "MGET b a", "*0\r\n");
    keep(&mut cache, "GET b", "+x\r\n");
    assert!(cache.pushed(&push(&["a"])));
    assert_eq!(cache.counts().entries, 1);
    keep(&mut cache, "MGET a b a a", "*0\r\n");
    assert!(cache.pushed(&push(&["b"])));
    assert_eq!((cache.counts().entries, cache.counts().bytes), (0, 0));
}
