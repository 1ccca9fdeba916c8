//! CPU of this program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::ClockId;

use super::aside::{clock, cpu_of_those_aside};
use super::proc::{cpu_in, is_cpu_kept};

/// CPU time of this process since a moment, without the threads that are not part of the
/// measurement: the latency proxy's (known by their name), and those that were [set
/// aside](super::set_aside), such as the one that keeps an open loop's schedule.
///
/// It is the process' clock, in nanoseconds, minus the scheduler's figures for those threads. For a
/// running thread these may be some milliseconds behind. If a proxy has ended since, the CPU that
/// it used after the last reading counts as the program's.
#[derive(Debug)]
pub struct ClientCpu {
    proxies: Proxies,
    start: Option<Duration>,
    last: Duration,
}

/// How proof/lab names the thread of a latency proxy.
const PROXY: &str = "onetrip-proxy";

impl ClientCpu {
    /// From now on.
    pub fn start() -> ClientCpu {
        let mut proxies = Proxies::default();
        let start = used(&mut proxies);
        ClientCpu { proxies, start, last: Duration::ZERO }
    }

    /// The CPU used since the start; never less than at the last call. `None` if the system does
    /// not report CPU by thread.
    pub fn elapsed(&mut self) -> Option<Duration> {
        let used = used(&mut self.proxies)?.saturating_sub(self.start?);
        self.last = self.last.max(used);
        Some(self.last)
    }
}

/// CPU of this process without the excluded threads. Threads are read first, so the whole is never
/// less than its parts.
fn used(proxies: &mut Proxies) -> Option<Duration> {
    let not_ours = cpu_of_those_aside()? + proxies.look()?;
    Some(clock(ClockId::ProcessCPUTime).saturating_sub(not_ours))
}

/// The CPU of proxies, by the number of the thread and when it began. Entries stay after a thread
/// ended, so that its CPU is not counted as the program's.
#[derive(Debug, Default)]
struct Proxies(BTreeMap<(String, String), Duration>);

impl Proxies {
    /// CPU of all that were ever seen.
    fn look(&mut self) -> Option<Duration> {
        for entry in fs::read_dir("/proc/self/task").ok()?.flatten() {
            // A thread that ends meanwhile was recorded before; if it is new, it counts as the
            // program's.
            if let Some((thread, cpu)) = proxy(&entry.path()) {
                // The thread runs; if the kernel keeps no CPU times, its zeros would be wrong.
                if !is_cpu_kept() {
                    return None;
                }
                self.0.insert(thread, cpu);
            }
        }
        Some(self.0.values().sum())
    }
}

fn proxy(directory: &Path) -> Option<((String, String), Duration)> {
    let name = fs::read_to_string(directory.join("comm")).ok()?;
    if name.trim_end() != PROXY {
        return None;
    }
    let number = directory.file_name()?.to_str()?.to_owned();
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    // The 22nd field of proc(5), where the third follows the name.
    let started = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.to_owned();
    Some(((number, started), cpu_in(directory)?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::{self, Builder};

    use super::super::set_aside;
    use super::*;

    const WORK: Duration = Duration::from_millis(200);

    /// Uses so much CPU on this thread.
    fn work(time: Duration) {
        let end = clock(ClockId::ThreadCPUTime) + time;
        while clock(ClockId::ThreadCPUTime) < end {}
    }

    /// Tests of this crate run on threads of the same process, so only bounds from below are sure;
    /// hence a process of its own for what must not count.
    fn alone(name: &str) -> bool {
        if std::env::var_os("ONETRIP_ALONE").is_some() {
            return true;
        }
        let test = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("meter::client_cpu::tests::{name}"), "--nocapture"])
            .env("ONETRIP_ALONE", "1")
            .output()
            .unwrap();
        assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stderr));
        assert!(String::from_utf8_lossy(&test.stdout).contains("1 passed"), "{test:?}");
        false
    }

    #[test]
    fn what_a_thread_uses_counts_also_when_it_has_ended() {
        let mut cpu = ClientCpu::start();
        thread::spawn(|| work(WORK)).join().unwrap();
        assert!(cpu.elapsed().unwrap() >= WORK);
    }

    #[test]
    fn a_thread_set_aside_does_not_count_running_or_ended() {
        if !alone("a_thread_set_aside_does_not_count_running_or_ended") {
            return;
        }
        let mut cpu = ClientCpu::start();
        let (worked, wait) = channel();
        let (end, ends) = channel::<()>();
        let thread = thread::spawn(move || {
            set_aside();
            work(WORK);
            worked.send(()).unwrap();
            let _ = ends.recv();
        });
        wait.recv().unwrap();
        let running = cpu.elapsed().unwrap();
        drop(end);
        thread.join().unwrap();
        let ended = cpu.elapsed().unwrap();
        assert!(running < WORK / 2 && ended < WORK / 2, "{running:?} {ended:?}");
    }

    #[test]
    fn a_proxy_does_not_count_and_its_end_does_not_bring_it_back() {
        if !alone("a_proxy_does_not_count_and_its_end_does_not_bring_it_back") {
            return;
        }
        let (worked, wait) = channel();
        let (end, ends) = channel::<()>();
        let proxy = Builder::new().name(PROXY.into()).spawn(move || {
            for _ in 0..2 {
                work(WORK);
                worked.send(()).unwrap();
                let _ = ends.recv();
            }
        });
        wait.recv().unwrap();
        let mut cpu = ClientCpu::start();
        end.send(()).unwrap();
        wait.recv().unwrap();
        let running = cpu.elapsed().unwrap();
        drop(end);
        proxy.unwrap().join().unwrap();
        let ended = cpu.elapsed().unwrap();
        assert!(running < WORK / 2 && ended < WORK / 2, "{running:?} {ended:?}");
        assert!(ended >= running);
    }

    #[test]
    fn the_proxy_of_the_lab_is_known_by_its_name() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let config = onetrip_lab::proxy::ProxyConfig::new(server.local_addr().unwrap());
        let proxy = onetrip_lab::proxy::Proxy::start(config).unwrap();
        let mut proxies = Proxies::default();
        // Answered by its thread, so that has run.
        assert_eq!(proxy.stats().trips, 0);
        assert!(proxies.look().is_some() && !proxies.0.is_empty());
    }
}
