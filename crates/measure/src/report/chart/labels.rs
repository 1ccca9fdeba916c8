//! Where labels go, so that none lies on another.

/// Moves labels that are wanted at these heights so far apart that `gap` is between any two, and no
/// farther than that, within a range if they fit into it. The order of the result is that of `wanted`.
pub(super) fn spread_out(wanted: &[i32], gap: i32, (top, bottom): (i32, i32)) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|i| wanted[*i]);
    let mut placed = wanted.to_vec();
    let mut free = top;
    for i in &order {
        placed[*i] = placed[*i].max(free);
        free = placed[*i] + gap;
    }
    let mut free = bottom;
    for i in order.iter().rev() {
        placed[*i] = placed[*i].min(free);
        free = placed[*i] - gap;
    }
    placed
}

/// How wide a text gets, in the units of its size. A guess on the safe side, since nobody knows the
/// reader's font.
pub(super) fn width(text: &str, size: i32) -> i32 {
    let narrow = |c: char| matches!(c, 'i' | 'l' | 'j' | '.' | ',' | ' ' | '\'' | '|');
    let each = text.chars().map(|c| if narrow(c) { 0.36 } else { 0.63 });
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
        assert_eq!(spread_out(&[50, 52, 90], 10, (0, 100)), [50, 60, 90]);
        assert_eq!(spread_out(&[98, 99, 10], 10, (0, 100)), [90, 100, 10]);
        assert_eq!(spread_out(&[5, 5, 5], 10, (0, 100)), [5, 15, 25]);
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
