//! The digits of a numeric in groups of four, as PostgreSQL has them.

use std::fmt;
use std::ops::Deref;

/// Groups of four decimal digits, the most significant first, without a zero group at either end.
#[derive(Clone)]
pub(super) enum Groups {
    // Most numbers are short. Eleven groups take no more room than a pointer, a length and the tag.
    Few { len: u8, groups: [u16; FEW] },
    Many(Box<[u16]>),
}

const FEW: usize = 11;

impl Groups {
    pub(super) const NONE: Groups = Groups::Few { len: 0, groups: [0; FEW] };

    /// Makes groups in this order, without the zero groups at the ends. Returns how many were at
    /// the front.
    pub(super) fn stripped(
        groups: impl DoubleEndedIterator<Item = u16> + Clone,
    ) -> (Groups, usize) {
        let front = groups.clone().take_while(|group| *group == 0).count();
        let rest = groups.clone().skip(front);
        let back = groups.rev().take_while(|group| *group == 0).count();
        let len = rest.clone().count().saturating_sub(back);
        (Groups::of(rest.take(len), len), front)
    }

    fn of(source: impl Iterator<Item = u16>, len: usize) -> Groups {
        if len > FEW {
            return Groups::Many(source.collect());
        }
        let mut groups = [0; FEW];
        for (place, group) in groups.iter_mut().zip(source) {
            *place = group;
        }
        Groups::Few { len: len as u8, groups }
    }
}

impl Deref for Groups {
    type Target = [u16];

    fn deref(&self) -> &[u16] {
        match self {
            Groups::Few { len, groups } => &groups[..usize::from(*len)],
            Groups::Many(groups) => groups,
        }
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
