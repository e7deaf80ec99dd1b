//! Measured columns that a plan of our trainer has to the byte.

use trace::{Category, Phase};

use super::names::{category_column, phase_column};
use super::prediction::{PREDICTED, Predicted, predictions};

/// The measured columns that a plan of our trainer has to the byte, each with the plan's value.
pub fn exact() -> Vec<Predicted> {
    let of_measured = |column: Predicted| {
        let name = measured_name(column.name.strip_prefix(PREDICTED)?)?;
        Some(Predicted { name, ..column })
    };
    predictions().into_iter().filter_map(of_measured).collect()
}

/// The measured column that a prediction's column has exactly.
fn measured_name(predicted: &str) -> Option<String> {
    let name = match predicted {
        "binding_phase" => "allocated_peak_phase",
        "binding_module" => "allocated_peak_module",
        "allocated_peak_bytes"
        | "allocated_mean_bytes"
        | "host_allocated_peak_bytes"
        | "parameter_count"
        | "trainable_count"
        | "adapter_file_bytes" => predicted,
        part if is_part(part) => part,
        _ => return None,
    };
    Some(name.to_owned())
}

/// True for the column of a category of tensors on the device, or of a phase.
fn is_part(name: &str) -> bool {
    let on_device = |category: &Category| category.is_tensor() && *category != Category::Offloaded;
    let mut categories = Category::ALL.into_iter().filter(on_device);
    categories.any(|category| category_column(category.name()) == name)
        || Phase::ALL.iter().any(|phase| phase_column(phase.name()) == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::outcomes;

    #[test]
    fn every_exact_column_is_measured() {
        let measured: Vec<(String, _)> = outcomes()
            .into_iter()
            .map(|column| (column.name, column.kind))
            .collect();
        for column in exact() {
            assert!(
                measured.contains(&(column.name.clone(), column.kind)),
                "{}",
                column.name
            );
        }
        let names: Vec<String> = exact().into_iter().map(|column| column.name).collect();
        for name in [
            "allocated_peak_bytes",
            "allocated_peak_phase",
            "allocated_peak_temporary_bytes",
            "allocated_peak_in_load_bytes",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        for name in [
            "process_peak_bytes",
            "allocated_peak_host_bytes",
            "allocated_peak_rounding_bytes",
        ] {
            assert!(!names.iter().any(|known| known == name), "{name}");
        }
    }
}
