//! The inputs of a training that another engine runs.

use cell::Cell;
use hub::Roots;
use records::store::CellDir;
use runner::protocol::InputsArguments;
use runner::provenance;
use serde_json::{Value, json};
use train::Places;

use super::train::{read_cell, read_snapshots};
use super::{WorkerError, environment};

/// Writes the inputs of a folder's cell. Returns what to print: where they are, every key of the cell with the values that
/// defaults come to, and what the record will say of the program.
///
/// # Errors
/// If the cell cannot be read, or its inputs cannot be written.
pub(crate) fn write_inputs(arguments: &InputsArguments) -> Result<String, WorkerError> {
    environment::die_with(arguments.parent)?;
    let dir = CellDir::new(&arguments.dir);
    let cell = read_cell(&dir)?;
    let roots = Roots::new(&arguments.base_dir).with_snapshots(read_snapshots(&dir)?);
    let places = Places {
        own: &arguments.own,
        shared: &arguments.shared,
    };
    // Nothing is computed here.
    let on_cpu = Cell {
        device: Some("cpu".to_owned()),
        ..cell.clone()
    };
    let mut options = on_cpu.train_options();
    options.data = cell.of_all_ranks(options.data);
    let inputs = train::write_inputs(&options, &roots, places, arguments.trial)?;
    let adapter_config = arguments.adapter_config_sha256.clone();
    let mut answer = json!(inputs);
    answer["cell"] = Value::Object(cell.resolved().to_map());
    answer["cell"]["device_memory"] = json!(cell.device_memory.map(|budget| budget.0));
    answer["provenance"] = json!(provenance(&cell, &roots, adapter_config, |name| std::env::var(name).ok()));
    Ok(answer.to_string())
}
