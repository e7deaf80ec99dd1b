//! Errors of quantising.

/// The reason why a matrix cannot be quantised.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QuantError {
    /// The number of values is not rows times columns.
    #[error("a {rows} x {cols} matrix has {} values, but {given} were given", rows * cols)]
    Length {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Number of values that arrived.
        given: usize,
    },
    /// A value is infinite or not a number.
    #[error("a value in row {row} is not finite; such a matrix cannot be quantised")]
    NotFinite {
        /// The row of the value, or the row in which its block begins.
        row: usize,
    },
}
