//! Where labels go, so that none lies on another.

/// A label: where its middle is wanted, and how high it is.
pub(super) type Wanted = (i32, i32);

/// Moves labels so far apart that none lies on another, and no farther, within a range if they fit
/// into it. The order of the result, the middles of all, is that of `wanted`.
pub(super) fn spread_out(wanted: &[Wanted], (top, bottom): (i32, i32)) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|i| wanted[*i].0);
    let mut placed: Vec<i32> = wanted.iter().map(|(middle, _)| *middle).collect();
    let mut free = top;
    for i in &order {
        let half = wanted[*i].1 / 2;
        placed[*i] = placed[*i].max(free + half);
        free = placed[*i] + half;
    }
    let mut free = bottom;
    for i in order.iter().rev() {
        let half = wanted[*i].1 / 2;
        placed[*i] = placed[*i].min(free - half);
        free = placed[*i] - half;
    }
    placed
}

/// In one line, or in two where it is wider than that and has a joint.
pub(super) fn lines(text: &str, size: i32, width_max: i32) -> Vec<String> {
    let joints = text.char_indices().filter(|(_, c)| matches!(c, '_' | ' ' | '-'));
    let middle = text.len() / 2;
    let joint = joints.map(|(i, _)| i + 1).min_by_key(|cut| cut.abs_diff(middle));
    match joint {
        Some(cut) if width(text, size) > width_max && cut < text.len() => {
            let (first, second) = text.split_at(cut);
            vec![first.trim_end().to_owned(), second.to_owned()]
        }
        _ => vec![text.to_owned()],
    }
}

/// How wide a text gets, in the units of its size. A guess on the safe side, since nobody knows the
/// reader's font.
pub(super) fn width(text: &str, size: i32) -> i32 {
    let each = text.chars().map(|c| match c {
        'i' | 'l' | 'j' | '.' | ',' | ' ' | '\'' | '|' => 0.36,
        'm' | 'w' | 'M' | 'W' | '+' | '%' | '…' => 1.0,
        _ if c.is_uppercase() || !c.is_ascii() => 0.8,
        _ => 0.63,
    });
    (each.sum::<f64>() * f64::from(size)).ceil() as i32
}

/// The text, or its beginning and end where it is wider than that.
pub(super) fn fit(text: &str, size: i32, width_max: i32) -> String {
    let chars: Vec<char> = text.chars().collect();
    let shorter = (0..chars.len() / 2).map(|cut| match cut {
        0 => text.to_owned(),
        _ => {
            let half = chars.len() / 2;
            let (head, tail) = (&chars[..half - cut], &chars[half + cut..]);
            head.iter().chain(['…'].iter()).chain(tail).collect()
        }
    });
    let mut shorter = shorter.peekable();
    if shorter.peek().is_none() {
        return text.to_owned();
    }
    shorter.find(|it| width(it, size) <= width_max).unwrap_or_else(|| "…".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance_and_their_order() {
        let spread = |wanted: [i32; 3]| spread_out(&wanted.map(|it| (it, 10)), (0, 100));
        assert_eq!(spread([50, 52, 90]), [50, 60, 90]);
        assert_eq!(spread([98, 99, 10]), [85, 95, 10]);
        assert_eq!(spread([5, 5, 5]), [5, 15, 25]);
        assert_eq!(spread_out(&[(50, 10), (51, 20)], (0, 100)), [50, 65]);
    }

    #[test]
    fn a_wide_label_has_two_lines() {
        assert_eq!(lines("select_for_update_with_fk", 10, 100), ["select_for_", "update_with_fk"]);
        assert_eq!(lines("one by one", 10, 100), ["one by one"]);
        assert_eq!(lines("abcdefghijklmnopqrstuvwxyz", 10, 50).len(), 1);
    }

    #[test]
    fn a_long_text_keeps_its_beginning_and_end() {
        let text = "select_for_update_skip_locked_many";
        let fitted = fit(text, 10, 100);
        assert!(width(&fitted, 10) <= 100 && fitted.contains('…'), "{fitted}");
        assert!(text.starts_with(fitted.split('…').next().unwrap_or("-")), "{fitted}");
        assert_eq!(fit("short", 10, 100), "short");
        assert_eq!(fit("é", 10, 100), "é");
    }
}
