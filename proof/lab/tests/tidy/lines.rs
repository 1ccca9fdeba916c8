//! What `scripts/lines` counts.

use std::process::Command;

use crate::root;

/// Five of its lines are code.
const RUST: &str = "// A comment.\nfn one() {\n    /* And\n    another. */\n\n\
    let _ = \"// none\";\n}\n\
    #[cfg(test)]\nmod tests {\n    fn two() {}\n}\nconst A: &str = \"\n\n    b\";\n";

const TYPESCRIPT: &str =
    "/** A comment. */\nconst a = '/*' // and\n\nconst b = `\n  // a text\n`\n";

#[test]
fn lines_of_code_are_counted_without_blanks_comments_and_tests() {
    let directory = tempfile::tempdir().unwrap();
    let files = [("a.rs", RUST), ("a.ts", TYPESCRIPT)].map(|(name, text)| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let mut script = Command::new("python3");
    let output = match script.arg(root().join("scripts/lines")).arg("--files").args(files).output()
    {
        Err(_) => return println!("skipped: there is no python3"),
        Ok(output) => String::from_utf8(output.stdout).unwrap(),
    };
    let counts: Vec<&str> = output.lines().filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(counts, ["5", "4"], "{output}");
}
