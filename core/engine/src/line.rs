//! A first-come, first-served line with a number for each entry. Any entry may leave.

use std::collections::VecDeque;

/// An entry that leaves from the middle leaves a gap, which is skipped when its turn comes. When
/// gaps are more than half of the line they are removed, so that a line that does not move stays
/// small.
pub(crate) struct Line<T> {
    /// Numbers ascend.
    places: VecDeque<(u64, Option<T>)>,
    next: u64,
    /// Places that are not gaps.
    live: usize,
}

/// Up to this many more gaps than entries are kept: removing them is not worth it.
const GAPS_MIN: usize = 32;

impl<T> Line<T> {
    pub(crate) fn new() -> Line<T> {
        Line { places: VecDeque::new(), next: 1, live: 0 }
    }

    #[inline]
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// The number of the next entry. No number is given twice, and none is zero.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    pub(crate) fn push(&mut self, item: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.live += 1;
        self.places.push_back((number, Some(item)));
        number
    }

    #[inline]
    pub(crate) fn first(&mut self) -> Option<&T> {
        self.skip_gaps();
        self.places.front()?.1.as_ref()
    }

    /// The number of the first entry.
    pub(crate) fn first_number(&mut self) -> Option<u64> {
        self.skip_gaps();
        self.places.front().map(|(number, _)| *number)
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.skip_gaps();
        let (_, item) = self.places.pop_front()?;
        self.live -= 1;
        item
    }

    pub(crate) fn last(&mut self) -> Option<&T> {
        self.drop_last_gaps();
        self.places.back()?.1.as_ref()
    }

    pub(crate) fn pop_last(&mut self) -> Option<T> {
        self.drop_last_gaps();
        let (_, item) = self.places.pop_back()?;
        self.live -= 1;
        item
    }

    /// The last place's entry, unless the place is a gap.
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.places.back_mut()?.1.as_mut()
    }

    /// The index of the entry with this number, counting gaps.
    pub(crate) fn position(&self, number: u64) -> Option<usize> {
        self.places.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    /// Places, counting gaps.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn at(&self, index: usize) -> Option<&T> {
        self.places.get(index)?.1.as_ref()
    }

    pub(crate) fn at_mut(&mut self, index: usize) -> Option<&mut T> {
        self.places.get_mut(index)?.1.as_mut()
    }

    /// Takes out the entry at `index` and leaves a gap.
    pub(crate) fn take(&mut self, index: usize) -> Option<T> {
        let item = self.places.get_mut(index)?.1.take()?;
        self.live -= 1;
        Some(item)
    }

    /// Removes the gaps if there are many, which changes positions. Returns whether it did.
    pub(crate) fn close_gaps(&mut self) -> bool {
        let many = self.places.len() - self.live > self.live + GAPS_MIN;
        if many {
            self.places.retain(|(_, item)| item.is_some());
        }
        many
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|(_, item)| item.as_ref())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|(_, item)| item.as_mut())
    }

    /// Removes the gaps at the front, which changes positions.
    #[inline]
    pub(crate) fn skip_gaps(&mut self) {
        while let Some((_, None)) = self.places.front() {
            self.places.pop_front();
        }
    }

    /// Removes the gaps at the end. Their numbers are not given again.
    fn drop_last_gaps(&mut self) {
        while let Some((_, None)) = self.places.back() {
            self.places.pop_back();
        }
    }
}
