//! Where `scripts/setup` puts its downloads, and which of several versions is the newest.

use std::env;
use std::path::{Path, PathBuf};

/// The `bin` directories of what `scripts/setup` has put into `target/<name>/`. They are searched
/// relative to the running program, which lies in `target/<profile>/` or deeper, and relative to
/// the current directory, usually the repository.
pub(crate) fn downloaded(name: &str) -> impl Iterator<Item = PathBuf> {
    let given = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let around = env::current_exe().unwrap_or_default();
    let around: Vec<_> = around.ancestors().skip(1).take(4).map(Path::to_path_buf).collect();
    let above = env::current_dir().unwrap_or_default();
    let above: Vec<_> = above.ancestors().map(|directory| directory.join("target")).collect();
    let targets = given.into_iter().chain(around).chain(above);
    targets.flat_map(move |target| {
        let target = glob::Pattern::escape(&target.to_string_lossy());
        newest_first(&format!("{target}/{name}/*/bin"))
    })
}

/// The directories that match, those with the highest numbers in their names first.
pub(crate) fn newest_first(pattern: &str) -> Vec<PathBuf> {
    let Ok(paths) = glob::glob(pattern) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = paths.flatten().collect();
    paths.sort_by_key(|path| std::cmp::Reverse(numbers(&path.to_string_lossy())));
    paths
}

/// The numbers in a text, in order: versions compare by them.
pub(crate) fn numbers(text: &str) -> Vec<u32> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_versions_sort_first() {
        let mut names = ["/usr/lib/postgresql/9.6/bin", "/x/17/bin", "/x/17.2/bin", "/x/9/bin"];
        names.sort_by_key(|name| std::cmp::Reverse(numbers(name)));
        assert_eq!(names[..2], ["/x/17.2/bin", "/x/17/bin"]);
    }
}
