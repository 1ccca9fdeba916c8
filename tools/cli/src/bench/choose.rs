//! Matches names given by users, and suggests a near one for a mistake.

/// The names of `known` that were asked for, in the order of `known`; all names if none was asked
/// for.
///
/// # Errors
/// A name that isn't known, with the nearest known one.
pub(super) fn chosen<'a>(
    what: &str,
    asked: &[String],
    known: &[&'a str],
) -> Result<Vec<&'a str>, String> {
    if let Some(unknown) = asked.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(match nearest(unknown, known) {
            Some(near) => format!("unknown {what} {unknown:?}: did you mean {near}?"),
            None => format!("unknown {what} {unknown:?}: choose from {}", known.join(", ")),
        });
    }
    let is_asked = |name: &&&str| asked.is_empty() || asked.iter().any(|it| it == **name);
    Ok(known.iter().filter(is_asked).copied().collect())
}

/// The known name most similar to this one, if any is similar enough.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    /// The least similarity: that of two names that differ in every fourth letter.
    const ALIKE: f64 = 0.75;
    let alike = known.iter().map(|it| (strsim::jaro_winkler(name, it), *it));
    let best = alike.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= ALIKE).then_some(best.1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_is_told_with_the_nearest() {
        let known = ["update_single_row", "update_random_row", "select_many"];
        let asked = ["update_singel_row".to_owned()];
        let error = chosen("workload", &asked, &known).unwrap_err();
        assert_eq!(
            error,
            "unknown workload \"update_singel_row\": did you mean update_single_row?"
        );
        let error = chosen("workload", &["xyz".to_owned()], &known).unwrap_err();
        assert!(
            error.ends_with("choose from update_single_row, update_random_row, select_many"),
            "{error}"
        );
    }

    #[test]
    fn none_asked_for_is_all() {
        assert_eq!(chosen("workload", &[], &["a", "b"]), Ok(vec!["a", "b"]));
        assert_eq!(chosen("workload", &["b".to_owned()], &["a", "b"]), Ok(vec!["b"]));
    }
}
