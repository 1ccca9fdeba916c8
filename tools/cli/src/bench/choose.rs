//! Names that people give, and what they may have meant.

/// Those of `known` that were asked for, in the order of `known`; all of them if none was.
///
/// # Errors
/// One that isn't known, with the nearest that is.
pub(super) fn chosen<'a>(
    what: &str,
    asked: &[String],
    known: &[&'a str],
) -> Result<Vec<&'a str>, String> {
    if let Some(unknown) = asked.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(match nearest(unknown, known) {
            Some(near) => format!("there is no {what} {unknown:?}: did you mean {near}?"),
            None => format!("there is no {what} {unknown:?}: there are {}", known.join(", ")),
        });
    }
    let is_asked = |name: &&&str| asked.is_empty() || asked.iter().any(|it| it == **name);
    Ok(known.iter().filter(is_asked).copied().collect())
}

/// The name that is most like this one, if any is.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    /// As alike as two names that differ in every fourth letter.
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
            "there is no workload \"update_singel_row\": did you mean update_single_row?"
        );
        let error = chosen("workload", &["xyz".to_owned()], &known).unwrap_err();
        assert!(
            error.ends_with("there are update_single_row, update_random_row, select_many"),
            "{error}"
        );
    }

    #[test]
    fn none_asked_for_is_all() {
        assert_eq!(chosen("workload", &[], &["a", "b"]), Ok(vec!["a", "b"]));
        assert_eq!(chosen("workload", &["b".to_owned()], &["a", "b"]), Ok(vec!["b"]));
    }
}
