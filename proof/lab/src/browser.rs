//! Pages in a headless Chromium, for the tests of reports.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A width in CSS pixels, and a colour scheme.
pub type Frame = (u32, &'static str);

/// The Chromium of this machine.
#[derive(Debug)]
pub struct Browser(PathBuf);

impl Browser {
    /// Finds it in the PATH. Without one a test has nothing to say: a line that begins with
    /// "skipped: " goes to standard error, past the runner, which hides what passing tests print.
    pub fn find() -> Option<Browser> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let places = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
        let found = places.into_iter().find(|it| it.is_file());
        if found.is_none() {
            let thread = std::thread::current();
            let line = format!("skipped: {}: no Chromium\n", thread.name().unwrap_or("a test"));
            let _ = io::stderr().write_all(line.as_bytes());
        }
        found.map(Browser)
    }

    /// Loads a page in frames of these widths and colour schemes. Each copy has them in its
    /// fragment ("360,dark"), and its script posts one message to its parent. Returns the messages
    /// as JSON, in the order in which they came.
    ///
    /// # Errors
    /// The browser can't be started, or it did not end in time.
    pub fn frames(&self, dir: &Path, page: &str, frames: &[Frame]) -> io::Result<Vec<String>> {
        fs::write(dir.join("copy.html"), page)?;
        let mut copies = String::new();
        for (width, scheme) in frames {
            let _ = writeln!(
                copies,
                "<iframe style=\"width:{width}px;height:900px;color-scheme:{scheme}\" \
                 src=\"copy.html#{width},{scheme}\"></iframe>"
            );
        }
        self.page(dir, &include_str!("browser/frames.html").replace("FRAMES", &copies))
    }

    /// Loads a page. Returns what stands in it behind "found:", line by line, once its scripts have
    /// run.
    ///
    /// # Errors
    /// The browser can't be started, or it did not end in time.
    pub fn page(&self, dir: &Path, page: &str) -> io::Result<Vec<String>> {
        let path = dir.join("page.html");
        fs::write(&path, page)?;
        let dump = self.dump(dir, &path)?;
        let found = dump.lines().filter_map(|line| line.split_once("found:")).map(|it| it.1);
        let text = |it: &str| it.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        Ok(found.filter(|it| it.starts_with('{')).map(text).collect())
    }

    fn dump(&self, dir: &Path, page: &Path) -> io::Result<String> {
        let dump = dir.join("dump.html");
        let command = Command::new(&self.0)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-extensions", "--virtual-time-budget=60000"])
            .arg(format!("--user-data-dir={}", dir.join("profile").display()))
            .arg("--dump-dom")
            .arg(format!("file://{}", page.display()))
            .stdin(Stdio::null())
            .stdout(File::create(&dump)?)
            .stderr(File::create(dir.join("errors"))?)
            .spawn();
        let mut running = Running(command?);
        let began = Instant::now();
        while running.0.try_wait()?.is_none() {
            if began.elapsed() > TIME_MAX {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the browser does not end"));
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        fs::read_to_string(&dump)
    }
}

/// Ends in any case.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const TIME_MAX: Duration = Duration::from_secs(120);
