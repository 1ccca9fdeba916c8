//! An installation of the library, and programs that are compiled with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of the crate.
pub(crate) fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where it is installed: as `install.sh` does it, from what this test was built with.
pub(crate) fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("built");
        fs::create_dir_all(&built).unwrap();
        for name in ["libonetrip_c.so", "libonetrip_c.a"] {
            let from = newest(&folder, name);
            // Another process may do the same.
            let new = built.join(format!("{name}.{}", std::process::id()));
            fs::copy(from, &new).unwrap();
            fs::rename(new, built.join(name)).unwrap();
        }
        let mut install = Command::new("sh");
        done(install.arg(home().join("install.sh")).arg(&to).arg(&built));
        to
    })
}

/// A library beside the test, with the hash in its name or without.
fn newest(folder: &Path, name: &str) -> PathBuf {
    let (stem, end) = name.split_once('.').unwrap();
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(stem) && name.ends_with(&format!(".{end}"))
    };
    let found = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).filter(is_it);
    found.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).unwrap()
}

/// How a program is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    Shared,
    Static,
}

/// Compiles a program of one file, with all warnings as errors.
pub(crate) fn compiled(source: &Path, flags: &[&str], how: Linked) -> PathBuf {
    let root = installed();
    let name = source.file_stem().unwrap().to_string_lossy();
    let unique = format!("{name}{}{how:?}", flags.join("")).replace(['=', '-', '/', '+'], "_");
    let program =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{unique}_{}", std::process::id()));
    let compiler = if source.extension().is_some_and(|it| it == "cpp") { "c++" } else { "cc" };
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-O1"]).args(flags).arg(source);
    command.arg("-I").arg(root.join("include")).arg("-o").arg(&program);
    let lib = root.join("lib");
    match how {
        Linked::Shared => {
            command.arg("-L").arg(&lib).arg("-lonetrip");
            command.arg(format!("-Wl,-rpath,{}", lib.display()))
        }
        Linked::Static => command.arg(lib.join("libonetrip.a")).args(["-lpthread", "-ldl", "-lm"]),
    };
    done(&mut command);
    program
}

/// Runs a command that must succeed.
pub(crate) fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, said.join("\n"));
    output
}
