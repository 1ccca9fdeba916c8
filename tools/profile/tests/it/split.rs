//! Where the time of trips went, held against the round trip that was injected and the server's
//! own log.

use std::time::{Duration, Instant};

use crate::line::{Line, network, server};

/// Round trips of the network, in microseconds.
pub(crate) const RTTS_US: [u64; 3] = [500, 2_000, 10_000];

/// Attempts at what a busy machine disturbs. An estimate that is wrong by itself is so each time.
pub(crate) const ATTEMPTS: usize = 8;

/// Holds times against their bounds, prints them, and measures more. A busy machine, as one that runs
/// all tests is, disturbs times; without this, tests look at what does not depend on them.
pub(crate) fn is_long() -> bool {
    std::env::var_os("ONETRIP_PROFILE_LONG").is_some()
}

#[test]
fn the_network_the_server_and_the_program_add_up_and_are_what_they_were() {
    let sleeps_ms: &[u64] = if is_long() { &[0, 1, 5, 20] } else { &[0, 3] };
    for rtt in RTTS_US {
        for sleep_ms in sleeps_ms {
            let one = |_| split(Duration::from_micros(rtt), *sleep_ms).err();
            let failed: Vec<String> = (0..ATTEMPTS).map_while(one).collect();
            assert!(failed.len() < ATTEMPTS, "{failed:#?}");
        }
    }
}

/// Measures once. Errors say what was not within its bounds.
fn split(rtt: Duration, sleep_ms: u64) -> Result<(), String> {
    // The statement has a name of its own in the server's log.
    let name = format!("{}_{sleep_ms}", rtt.as_micros());
    let proxy = network(rtt);
    let mut line = Line::new(&proxy);
    let (units, mut wall, mut slept) = (20, Duration::ZERO, Vec::new());
    let logged_before = logged(&name).len();
    for _ in 0..units {
        line.rest(Duration::from_secs(1));
        let since = Instant::now();
        line.simple("begin");
        let began = Instant::now();
        line.simple(&format!("select pg_sleep({sleep_ms} / 1000.0) as s{name}"));
        slept.push(began.elapsed().as_secs_f64() * 1e3);
        line.simple("commit");
        wall += since.elapsed();
    }
    let profile = line.profile();
    let shape = profile.shapes.iter().find(|it| it.count == units).expect("the units are alike");
    let time = shape.time;
    assert_eq!(shape.trips.now, 3.0, "{name}");

    let (wall_ms, rtt_ms) = (wall.as_secs_f64() * 1e3, rtt.as_secs_f64() * 1e3);
    let parts = time.network_ms + time.server_ms + time.program_ms;
    if (parts - wall_ms).abs() > wall_ms * 0.02 {
        return Err(format!("{name}: the parts are {parts} ms of {wall_ms} ms"));
    }
    if !is_long() {
        return Ok(());
    }
    if profile.rtt_source != "least cheap trip" {
        return Err(format!("{name}: the round trip comes from {}", profile.rtt_source));
    }
    let network_ms = time.network_ms / (units * 3) as f64;
    if (network_ms - rtt_ms).abs() > (rtt_ms * 0.05).max(0.05) {
        return Err(format!("{name}: the network takes {network_ms} ms a trip"));
    }
    let [least, most] = profile.rtt_range_ms.expect("there is a range");
    assert!(least < rtt_ms && rtt_ms <= most, "{name}: {least} to {most} ms");
    let in_server = median(slept) - profile.rtt_ms.expect("it is known");
    let in_log = median(logged(&name).split_off(logged_before));
    println!("| {rtt_ms} | {sleep_ms} | {network_ms:.3} | {in_server:.3} | {in_log:.3} |");
    match (in_server - in_log).abs() <= 0.1 {
        true => Ok(()),
        false => Err(format!("{name}: {in_server} ms in the server, and {in_log} ms in its log")),
    }
}

/// What the server's log says of statements with this name, in milliseconds.
fn logged(name: &str) -> Vec<f64> {
    let log = server().log();
    let lines = log.lines().filter(|it| it.ends_with(&format!("as s{name}")));
    let ms = |line: &str| line.split("duration: ").nth(1)?.split(' ').next()?.parse().ok();
    lines.filter_map(ms).collect()
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    assert!(!values.is_empty(), "there is nothing to take the median of");
    values[values.len() / 2]
}
