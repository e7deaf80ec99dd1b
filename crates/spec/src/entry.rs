//! The trait of what `published` and `claims` list.

use base::text::Mistake;

use super::origin::Origin;
use super::selection::Selection;

/// An entry of a list. It picks cells by their keys, and is not part of them.
pub(crate) trait Entry {
    /// The section's name.
    const SECTION: &'static str;
    /// The key with the values that pick cells.
    const PICKED_BY: &'static str;
    /// True if it must pick one cell, repeats aside.
    const NEEDS_ONE: bool;

    /// False if its file says which cells it is about.
    fn picks(&self) -> bool {
        true
    }

    /// The mistakes in its values, each with its key; the key of the entry itself is empty.
    fn check(&self) -> Vec<(String, Mistake)>;

    /// The values that pick cells.
    fn selection(&mut self) -> &mut Selection;

    /// The place where it was written.
    fn origin(&mut self) -> &mut Origin;
}
