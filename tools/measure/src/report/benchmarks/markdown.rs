//! Tables of Markdown.

/// The first column stands to the left, and so do those of words.
pub(super) fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let header: Vec<String> = header.iter().map(|it| (*it).to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(header.len()));
    let rows: String = rows.map(|cells| line(&cells)).collect();
    format!("{}{rule}{rows}", line(&header))
}

/// A text from outside, on one line, with its Markdown marks escaped.
pub(super) fn escaped(text: &str) -> String {
    let text = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let marks = [("\\", "\\\\"), ("|", "\\|"), ("*", "\\*"), ("<", "&lt;"), ("$", "&#36;")];
    marks.into_iter().fold(text, |text, (mark, safe)| text.replace(mark, safe))
}
