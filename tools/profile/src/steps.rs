//! What repeats in a unit: loops are one step each, however often they run.

use crate::exchange::TextId;

/// A place in the compressed form of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Its number. The exchanges of a loop have the same for each round.
    pub(crate) place: u16,
    /// The round, from 0; 0 for what is in no loop.
    pub(crate) round: u32,
    /// The first place of its loop, and how many places that has; 0 for what is in no loop.
    pub(crate) loop_begin: u16,
    pub(crate) loop_len: u16,
    /// Of all places in front of it.
    pub(crate) prefix: u64,
}

/// The longest body of a loop.
const BODY_MAX: usize = 8;

/// The steps of a sequence of texts, and the number of all of them.
pub(crate) fn steps(texts: &[TextId]) -> (Vec<Step>, u64) {
    let mut steps = Vec::with_capacity(texts.len());
    let (mut at, mut place, mut prefix) = (0, 0_u16, SEED);
    while at < texts.len() {
        let (body, rounds) = longest_loop(&texts[at..]);
        let mut inside = prefix;
        let prefixes: Vec<u64> = texts[at..at + body]
            .iter()
            .map(|text| {
                let before = inside;
                inside = mixed(before, *text);
                before
            })
            .collect();
        for round in 0..rounds {
            steps.extend(prefixes.iter().enumerate().map(|(offset, prefix)| Step {
                place: place.saturating_add(offset as u16),
                round: round as u32,
                loop_begin: place,
                loop_len: if rounds > 1 { body as u16 } else { 0 },
                prefix: *prefix,
            }));
        }
        prefix = inside;
        place = place.saturating_add(body as u16);
        at += body * rounds;
    }
    (steps, prefix)
}

/// The body and the rounds of the loop that a sequence begins with; one step and one round if there
/// is none. Of several the one that covers most, and of those the shortest.
fn longest_loop(texts: &[TextId]) -> (usize, usize) {
    let (mut best, mut covered) = ((1, 1), 1);
    for body in 1..=BODY_MAX.min(texts.len() / 2) {
        let rounds =
            1 + texts[body..].chunks_exact(body).take_while(|it| *it == &texts[..body]).count();
        if rounds > 1 && rounds * body > covered {
            (best, covered) = ((body, rounds), rounds * body);
        }
    }
    best
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number for a sequence that goes on with this text.
pub(crate) fn mixed(before: u64, text: TextId) -> u64 {
    let mixed = (before ^ u64::from(text.0)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb).rotate_left(17)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(texts: &str) -> String {
        let texts: Vec<_> = texts.bytes().map(|it| TextId(it.into())).collect();
        let digit = |it: &Step| char::from(b'0' + it.place as u8);
        steps(&texts).0.iter().map(digit).collect()
    }

    #[test]
    fn the_rounds_of_a_loop_have_the_same_places() {
        for (texts, expected) in [
            ("", ""),
            ("abc", "012"),
            ("abbbc", "01112"),
            ("abcbcbcd", "01212123"),
            ("aaaa", "0000"),
            ("abab", "0101"),
        ] {
            assert_eq!(places(texts), expected, "{texts}");
        }
    }

    #[test]
    fn what_is_in_front_is_the_same_however_often_a_loop_ran() {
        let of = |texts: &[u32]| {
            let texts: Vec<_> = texts.iter().map(|it| TextId(*it)).collect();
            let (steps, whole) = steps(&texts);
            (steps.last().map(|it| it.prefix), whole)
        };
        assert_eq!(of(&[1, 2, 2, 2, 3]), of(&[1, 2, 3]));
        assert_ne!(of(&[1, 2, 3]), of(&[2, 1, 3]));
    }
}
