//! The steps of a runbook, as the page has them: the blocks of code of one section.

/// Where a step is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The primary as it is at the beginning.
    Primary,
    Standby,
    /// The programs of the users.
    Programs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) place: Place,
    pub(super) is_sql: bool,
    /// Again and again, until it answers true.
    pub(super) until: bool,
    pub(super) text: String,
}

/// The steps of the section with this title.
///
/// # Panics
/// If there is no such section, or a block does not say what it is.
pub(super) fn steps(page: &str, title: &str) -> Vec<Step> {
    let heading = format!("\n## {title}\n");
    let (_, section) = page.split_once(&heading).expect("the page has this section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut steps = Vec::new();
    let mut lines = section.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        steps.extend(step(info, text.join("\n")));
    }
    assert!(!steps.is_empty(), "{title} has no steps");
    steps
}

/// A block of this kind; `None` if it is only to be read.
fn step(info: &str, text: String) -> Option<Step> {
    let mut words = info.split(' ');
    let is_sql = match words.next() {
        Some("sql") => true,
        Some("sh") => false,
        _ => return None,
    };
    let place = match words.next() {
        Some("primary") => Place::Primary,
        Some("standby") => Place::Standby,
        Some("programs") => Place::Programs,
        other => panic!("a block says where it runs, not {other:?}: {text}"),
    };
    let until = match words.next() {
        Some("until") => true,
        None => false,
        Some(other) => panic!("{other} is not known: {text}"),
    };
    Some(Step { place, is_sql, until, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_their_section_in_order() {
        let page = "# A\n\n## One\n\n```sql primary\na;\nb\n```\n\n1. So:\n\n   ```sh standby\n   c\n   ```\n\
                    \n```text\nno\n```\n\n## Two\n\n```sql primary until\nd\n```\n";
        let step =
            |place, is_sql, until, text: &str| Step { place, is_sql, until, text: text.into() };
        let one =
            [step(Place::Primary, true, false, "a;\nb"), step(Place::Standby, false, false, "c")];
        assert_eq!(steps(page, "One"), one);
        assert_eq!(steps(page, "Two"), [step(Place::Primary, true, true, "d")]);
    }

    #[test]
    #[should_panic(expected = "says where it runs")]
    fn a_step_without_a_place_is_refused() {
        steps("\n## One\n```sql\na\n```\n", "One");
    }
}
