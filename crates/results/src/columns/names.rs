//! Names of columns, and the dimension that a name implies.

use base::text::Dimension;

/// The column of a category's live bytes at the instant of the peak.
pub fn category_column(category: &str) -> String {
    format!("allocated_peak_{category}_bytes")
}

/// The column of a profile's figure: a component, their `total`, `allocated` after the backward pass, the `peak`, or
/// the sum of `module_outputs`.
pub fn profile_column(figure: &str) -> String {
    format!("profile_{figure}_bytes")
}

/// The column of the highest live bytes within a phase.
pub fn phase_column(phase: &str) -> String {
    format!("allocated_peak_in_{phase}_bytes")
}

/// The dimension of a column of numbers, by its name.
pub fn dimension(column: &str) -> Dimension {
    if column.ends_with("_bytes") {
        Dimension::Memory
    } else if column.ends_with("_spread") {
        // Relative, whatever it is of.
        Dimension::Number
    } else if column.contains("seconds") {
        Dimension::Time
    } else if column.ends_with("_per_second") {
        Dimension::Speed
    } else {
        Dimension::Number
    }
}
