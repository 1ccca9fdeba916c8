//! Finds a command's row by its name, in a hash table that is built at compile time.

use super::{Spec, generated, later};

/// The row of this name, in any case of letters; for a container, its own row.
pub(super) fn named(name: &[u8]) -> Option<&'static Spec> {
    find(hash(SEED, name), |spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The row of a subcommand.
pub(super) fn subcommand(container: &'static Spec, sub: &[u8]) -> Option<&'static Spec> {
    let name = container.name.as_bytes();
    let hash = hash(hash(hash(SEED, name), b" "), sub);
    find(hash, |spec| {
        let (front, back) = spec.name.as_bytes().split_at_checked(name.len()).unwrap_or_default();
        front == name && back.first() == Some(&b' ') && back[1..].eq_ignore_ascii_case(sub)
    })
}

fn find(hash: u32, is_it: impl Fn(&Spec) -> bool) -> Option<&'static Spec> {
    let mut at = hash as usize % PLACES;
    loop {
        let spec = row(PLACE_OF[at].checked_sub(1)?);
        if is_it(spec) {
            return Some(spec);
        }
        at = (at + 1) % PLACES;
    }
}

const fn row(number: u16) -> &'static Spec {
    let number = number as usize;
    match number < generated::ROWS.len() {
        true => &generated::ROWS[number],
        false => &later::ROWS[number - generated::ROWS.len()],
    }
}

/// FNV-1a, over the bytes without the bit that distinguishes small letters.
const fn hash(mut hash: u32, name: &[u8]) -> u32 {
    let mut at = 0;
    while at < name.len() {
        hash = (hash ^ (name[at] & !0x20) as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

const SEED: u32 = 0x811C_9DC5;

/// More than twice as many as there are rows, so that most names are found at the first look.
const PLACES: usize = 1024;

/// By hash: the number of a row plus 1, or 0 if there is none. A row whose place is taken is in the
/// next free place.
static PLACE_OF: [u16; PLACES] = {
    let mut places = [0; PLACES];
    let mut number = 0;
    while number < generated::ROWS.len() + later::ROWS.len() {
        let mut at = hash(SEED, row(number as u16).name_bytes()) as usize % PLACES;
        while places[at] != 0 {
            at = (at + 1) % PLACES;
        }
        number += 1;
        places[at] = number as u16;
    }
    places
};
