//! A line in which everyone has a number: first come, first served, and anyone may leave.

use std::collections::VecDeque;

/// Whoever leaves from the middle leaves a gap, which is stepped over when its turn comes. When
/// there are more gaps than anything else they are closed, so that a line that does not move holds
/// no more than those who stand in it.
pub(crate) struct Line<T> {
    /// Numbers ascend.
    places: VecDeque<(u64, Option<T>)>,
    next: u64,
    /// Places that are not gaps.
    live: usize,
}

/// So many gaps are never worth closing.
const GAPS_MIN: usize = 32;

impl<T> Line<T> {
    pub(crate) fn new() -> Line<T> {
        Line { places: VecDeque::new(), next: 1, live: 0 }
    }

    #[inline]
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// The number that the next one gets; none is given twice, and none is zero.
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

    /// The last place's, unless it is a gap.
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.places.back_mut()?.1.as_mut()
    }

    /// Where the one with this number stands, counting gaps.
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

    /// Takes out who stands at `index` and leaves a gap.
    pub(crate) fn take(&mut self, index: usize) -> Option<T> {
        let item = self.places.get_mut(index)?.1.take()?;
        self.live -= 1;
        Some(item)
    }

    /// Closes the gaps if there are many; positions change then. Returns whether it did.
    pub(crate) fn close_gaps(&mut self) -> bool {
        let many = self.places.len() - self.live > self.live + GAPS_MIN;
        if many {
            self.places.retain(|(_, item)| item.is_some());
        }
        many
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|(_, item)| item.as_mut())
    }

    /// Steps over the gaps at the front; positions change then.
    #[inline]
    pub(crate) fn skip_gaps(&mut self) {
        while let Some((_, None)) = self.places.front() {
            self.places.pop_front();
        }
    }

    /// Gives up the gaps at the end; their numbers are not given again.
    fn drop_last_gaps(&mut self) {
        while let Some((_, None)) = self.places.back() {
            self.places.pop_back();
        }
    }
}
