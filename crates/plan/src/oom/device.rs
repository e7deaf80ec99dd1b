//! The GPU that a message is of, by its memory.

use torch::gpu::Gpu;

use super::message::Amount;

/// GPUs of a kind differ by less than this share in the memory that drivers report.
const SAME: f64 = 0.03;

/// True if a GPU with `total_bytes` may be the one that a message is of.
pub fn has_memory(total_bytes: u64, total: Amount) -> bool {
    difference(total_bytes, total) < SAME
}

/// The GPUs that a message may be of, those with the most alike memory first.
pub fn gpus_with(total: Amount) -> Vec<&'static Gpu> {
    let all = Gpu::all().iter();
    let mut gpus: Vec<&Gpu> = all.filter(|gpu| has_memory(gpu.total_bytes, total)).collect();
    gpus.sort_by(|one, other| difference(one.total_bytes, total).total_cmp(&difference(other.total_bytes, total)));
    gpus
}

fn difference(total_bytes: u64, total: Amount) -> f64 {
    total_bytes.abs_diff(total.bytes) as f64 / total.bytes as f64
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::*;

    #[test]
    fn a_gpu_is_known_by_its_memory() {
        let message =
            Message::read_all("Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of").unwrap();
        let names: Vec<&str> = gpus_with(message[0].total.unwrap())
            .iter()
            .map(|gpu| gpu.name)
            .collect();
        assert!(names.contains(&"rtx-4090") && names.contains(&"rtx-3090"), "{names:?}");
        assert!(!names.contains(&"a10") && !names.contains(&"rtx-4060"), "{names:?}");
    }
}
