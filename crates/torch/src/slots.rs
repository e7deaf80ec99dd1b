//! Places for views that come and go.

use super::view::View;

/// Where a view is kept, if it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl Slot {
    pub(super) const EMPTY: Self = Self(u32::MAX);
}

/// Views that come and go. Few are there at a time, so that the nodes stay small.
#[derive(Default)]
pub(super) struct ViewSlots {
    views: Vec<View>,
    free: Vec<Slot>,
}

impl ViewSlots {
    pub(super) fn put(&mut self, view: View) -> Slot {
        if let Some(slot) = self.free.pop() {
            self.views[slot.0 as usize] = view;
            return slot;
        }
        self.views.push(view);
        Slot(self.views.len() as u32 - 1)
    }

    pub(super) fn take(&mut self, slot: &mut Slot) -> Option<View> {
        let taken = std::mem::replace(slot, Slot::EMPTY);
        if taken == Slot::EMPTY {
            return None;
        }
        self.free.push(taken);
        Some(self.views[taken.0 as usize])
    }
}
