//! What can be wrong with values that are to be quantised.

/// What can be wrong with a matrix that is to be quantised.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QuantError {
    /// More or fewer values came than rows times columns.
    #[error("a {rows} x {cols} matrix has {} values, but {given} were given", rows * cols)]
    Length {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// How many values came.
        given: usize,
    },
    /// A value is infinite or not a number.
    #[error("a value in row {row} is not finite; such a matrix cannot be quantised")]
    NotFinite {
        /// The row the value is in, or the one its block begins in.
        row: usize,
    },
}
