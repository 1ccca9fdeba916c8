//! What programs have said, for as long as their files stay as they are: a process of tests starts
//! hundreds of servers, and looks for the programs of each.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// A program as its file was then. One that was replaced is another.
#[derive(PartialEq, Eq, Hash)]
struct Program(PathBuf, u64, Option<SystemTime>);

impl Program {
    fn at(path: &Path) -> io::Result<Program> {
        let metadata = path.metadata()?;
        Ok(Program(path.to_owned(), metadata.len(), metadata.modified().ok()))
    }
}

/// What `program --version` printed and how it ended. A program that could not be started is asked
/// again the next time.
pub(crate) fn version(program: &Path) -> io::Result<Output> {
    static SAID: LazyLock<Mutex<HashMap<Program, Output>>> = LazyLock::new(Mutex::default);
    let key = Program::at(program)?;
    if let Some(output) = held(&SAID).get(&key) {
        return Ok(output.clone());
    }
    let output = Command::new(program).arg("--version").output()?;
    held(&SAID).insert(key, output.clone());
    Ok(output)
}

/// Whether the user can execute the program, as `ask` finds out. A yes is remembered.
pub(crate) fn can_execute(uid: u32, program: &Path, ask: impl FnOnce() -> bool) -> bool {
    static YES: LazyLock<Mutex<HashSet<(u32, Program)>>> = LazyLock::new(Mutex::default);
    let Ok(program) = Program::at(program) else { return ask() };
    let key = (uid, program);
    if held(&YES).contains(&key) {
        return true;
    }
    let can = ask();
    if can {
        held(&YES).insert(key);
    }
    can
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
