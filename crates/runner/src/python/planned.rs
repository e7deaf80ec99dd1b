//! Plans of cells as the interpreter that is there runs them.

use base::text::format;
use cell::{Cell, Device};
use records::prediction::Prediction;
use records::{FoundGpu, WorkerMachine};
use torch::TODAY_SINCE;
use torch::gpu::Gpu;

use super::{Python, offer};

/// What a process of PyTorch and transformers takes before its first tensor; on the CPU, where no plan has it.
const IMPORTED_BYTES: u64 = 1 << 30;
/// The share of the CPU's free memory that a cell may take.
const CPU_SHARE: f64 = 0.95;

impl Python {
    /// A cell with the releases and the GPU that are there, where it names none.
    pub(in super::super) fn planned(&self, cell: &Cell) -> Cell {
        let Some(machine) = self.machine(cell) else {
            return cell.clone();
        };
        let mut planned = cell.clone();
        for (package, _) in TODAY_SINCE {
            let key = format!("torch.{package}_version");
            let release = machine.releases.get(package).map(|installed| offer::release(installed));
            if let Some(release) = release.filter(|_| planned.value(&key).is_null() && planned.heeds(&key)) {
                // A release that no plan knows leaves the plan to today's.
                let with = planned
                    .with(&key, &release.into())
                    .filter(|cell| cell.validate().is_ok());
                planned = with.unwrap_or(planned);
            }
        }
        if planned.gpu.is_none()
            && let Some(gpu) = self.gpu(cell).and_then(of_driver)
        {
            planned.gpu = Some(gpu.name.to_owned());
        }
        planned
    }

    /// The GPU that a cell runs on; `None` if it is the CPU.
    fn gpu(&self, cell: &Cell) -> Option<&FoundGpu> {
        let gpus = &self.machine(cell)?.gpus;
        match cell.device() {
            Some(Device::Cpu) => None,
            Some(Device::Cuda(index)) => gpus.get(index),
            // As the worker chooses: the ranks have one each, or none has.
            None => gpus.first().filter(|_| cell.world_size <= gpus.len()),
        }
    }

    /// A prediction without what PyTorch has of a GPU alone, if the cell runs on the CPU.
    pub(in super::super) fn as_run(&self, cell: &Cell, predicted: Prediction) -> Prediction {
        if self.gpu(cell).is_some() {
            return predicted;
        }
        Prediction {
            verdict: None,
            budget_bytes: None,
            needed_bytes: predicted.allocated_peak_bytes,
            needed_low_bytes: None,
            needed_high_bytes: None,
            range_reason: None,
            fits_with: Vec::new(),
            fits_with_bytes: None,
            reserved_peak_bytes: None,
            reserved_low_bytes: None,
            reserved_high_bytes: None,
            reserved_after_first_step_bytes: None,
            reserved_after_last_step_bytes: None,
            fragmentation_bytes: None,
            segments: None,
            process_peak_bytes: None,
            context_bytes: None,
            context_low_bytes: None,
            context_high_bytes: None,
            reserved_with_room_bytes: None,
            ..predicted
        }
    }

    /// The reason why a cell would not fit where it runs.
    pub(in super::super) fn oversize(&self, cell: &Cell, predicted: &Prediction) -> Option<String> {
        let size = |bytes: u64| format::bytes((bytes as f64).into());
        if let Some(gpu) = self.gpu(cell) {
            let [needed, _] = predicted.possible_bytes();
            if needed > gpu.memory_bytes {
                let room = size(gpu.memory_bytes);
                return Some(format!("predicted {}, past the {room} of {}", size(needed), gpu.name));
            }
            // The budget is the allocator's, which does not have the context of CUDA.
            let reserved = predicted.reserved_low_bytes.or(predicted.reserved_peak_bytes)?;
            let budget = cell
                .device_memory
                .map(|budget| budget.0)
                .filter(|budget| reserved > *budget)?;
            return Some(format!(
                "predicted {} reserved, past the budget of {}",
                size(reserved),
                size(budget)
            ));
        }
        let free = self.machine(cell).and_then(WorkerMachine::free_bytes)?;
        let room = (free as f64 * CPU_SHARE) as u64;
        let needed = (predicted.allocated_peak_bytes + IMPORTED_BYTES) * cell.world_size as u64;
        (needed > room).then(|| {
            format!(
                "predicted {} for the processes, and the CPU has {} free",
                size(needed),
                size(free)
            )
        })
    }
}

/// The GPU that the driver calls so. A name that is sold with several memories needs its size.
fn of_driver(found: &FoundGpu) -> Option<&'static Gpu> {
    let with_size = || {
        let gib = found.memory_bytes.div_ceil(1 << 30);
        Gpu::named(&format!("{} {gib}GB", found.name))
    };
    Gpu::named(&found.name).or_else(|_| with_size()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_names_lead_to_gpus() {
        let named = |name: &str, gib: u64| {
            let found = FoundGpu {
                name: name.into(),
                memory_bytes: gib << 30,
            };
            of_driver(&found).map(|gpu| gpu.name)
        };
        assert_eq!(named("NVIDIA A100-SXM4-80GB", 79), Some("a100-80gb"));
        assert_eq!(named("NVIDIA A100-SXM4-40GB", 39), Some("a100-40gb"));
        assert_eq!(named("Tesla T4", 15), Some("t4"));
        assert_eq!(named("NVIDIA GeForce RTX 4090", 24), Some("rtx-4090"));
        assert_eq!(named("NVIDIA GeForce RTX 4070 Ti", 12), Some("rtx-4070-ti"));
        assert_eq!(named("Some other card", 12), None);
    }
}
