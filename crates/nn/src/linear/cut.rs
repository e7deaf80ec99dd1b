//! Cuts of outputs that lie side by side.

/// The rows of a layer's weight that give one output.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cut {
    /// The layer among those of the projection.
    pub(super) linear: usize,
    /// The first row.
    pub(super) first: usize,
    /// Rows, which are columns of the output.
    pub(super) width: usize,
}
