//! Multiranges.

use super::Range;

/// A multirange of PostgreSQL (14 and later): any number of ranges. The server returns them in
/// order, and none of them overlap or touch; it accepts them in any order.
///
/// ```
/// use onetrip::types::{Multirange, Range};
///
/// let open: Multirange<i32> = [Range::from(8..12), Range::from(13..17)].into_iter().collect();
/// assert_eq!(open.to_string(), "{[8,12),[13,17)}");
/// assert!(open.contains(&9) && !open.contains(&12));
/// # Ok::<_, onetrip::types::ValueError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Multirange<T>(Vec<Range<T>>);

impl<T> Multirange<T> {
    /// The ranges.
    pub fn ranges(&self) -> &[Range<T>] {
        &self.0
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no range.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the ranges.
    pub fn iter(&self) -> std::slice::Iter<'_, Range<T>> {
        self.0.iter()
    }

    /// Whether one of the ranges contains a value.
    pub fn contains(&self, value: &T) -> bool
    where
        T: PartialOrd,
    {
        self.0.iter().any(|range| range.contains(value))
    }
}

impl<T> Default for Multirange<T> {
    fn default() -> Multirange<T> {
        Multirange(Vec::new())
    }
}

impl<T> From<Vec<Range<T>>> for Multirange<T> {
    fn from(ranges: Vec<Range<T>>) -> Multirange<T> {
        Multirange(ranges)
    }
}

impl<T> From<Multirange<T>> for Vec<Range<T>> {
    fn from(multirange: Multirange<T>) -> Vec<Range<T>> {
        multirange.0
    }
}

impl<T> FromIterator<Range<T>> for Multirange<T> {
    fn from_iter<I: IntoIterator<Item = Range<T>>>(ranges: I) -> Multirange<T> {
        Multirange(ranges.into_iter().collect())
    }
}

impl<T> IntoIterator for Multirange<T> {
    type Item = Range<T>;
    type IntoIter = std::vec::IntoIter<Range<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Multirange<T> {
    type Item = &'a Range<T>;
    type IntoIter = std::slice::Iter<'a, Range<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
