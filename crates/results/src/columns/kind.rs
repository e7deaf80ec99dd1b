//! Types of columns.

/// The type of a column. It does not depend on the values, so that frames of different studies have the same types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number, signed in the frame, so that differences of two columns do not wrap.
    Int,
    /// The whole range of a u64, for seeds.
    Unsigned,
    /// Any number.
    Float,
    /// Text.
    Text,
}

/// The columns that identify a row. They come before the keys of the cell.
pub const IDENTITY: [(&str, Kind); 5] = [
    ("cell_id", Kind::Text),
    ("group_id", Kind::Text),
    ("status", Kind::Text),
    ("attempt", Kind::Int),
    ("seed", Kind::Unsigned),
];

/// The status of a cell that is planned and not run. No record has it.
pub const PLANNED: &str = "planned";

/// The column with the program that planned the memory of a row again; null for a row that is as it was measured. No record
/// fills it.
pub const REPLANNED: &str = "replanned_by";
