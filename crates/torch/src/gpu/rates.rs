//! How fast GPUs compute: peak rates of those that are asked for most, from `rates.csv`.

use std::sync::LazyLock;

use super::capability::ComputeCapability;
use super::card::Gpu;

/// Peak rates of a GPU, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Operations in float32 outside tensor cores.
    pub float32: f64,
    /// Operations of dense products in 16 bits with sums in float32, as the board's power sustains them.
    pub tensor: f64,
    /// Bytes of memory.
    pub bandwidth: f64,
    /// True if tensor cores run at half rate with sums in float32, as in GeForce since Turing.
    pub is_half_rate: bool,
    /// Clocks of all multiprocessors together.
    pub clocks: f64,
    /// The source.
    pub source: &'static str,
}

const TERA: f64 = 1e12;

static ROWS: LazyLock<Vec<(&'static str, Rates)>> = LazyLock::new(|| {
    let rows = include_str!("rates.csv").lines();
    rows.filter(|line| !line.starts_with('#')).filter_map(read).collect()
});

/// A row of the table.
fn read(row: &'static str) -> Option<(&'static str, Rates)> {
    let mut columns = row.splitn(7, ',');
    let mut next = || columns.next();
    let name = next()?;
    let float32: f64 = next()?.parse().ok()?;
    let _peak: f64 = next()?.parse().ok()?;
    let sustained: f64 = next()?.parse().ok()?;
    let bandwidth: f64 = next()?.parse().ok()?;
    let is_half_rate = next()? == "half";
    let capability = Gpu::named(name).ok()?.capability;
    Some((
        name,
        Rates {
            float32: float32 * TERA,
            tensor: sustained * TERA,
            bandwidth: bandwidth * 1e9,
            is_half_rate,
            // A lane adds and multiplies in a clock.
            clocks: float32 * TERA / (2.0 * lanes(capability)),
            source: next()?,
        },
    ))
}

/// Float32 lanes of a multiprocessor (the CUDA C++ Programming Guide's table of arithmetic instructions).
fn lanes(capability: ComputeCapability) -> f64 {
    match capability {
        ComputeCapability(6, 0) | ComputeCapability(7, _) | ComputeCapability(8, 0) => 64.0,
        _ => 128.0,
    }
}

impl Gpu {
    /// Its peak rates, if they are known.
    pub fn rates(&self) -> Option<&'static Rates> {
        ROWS.iter().find(|(name, _)| *name == self.name).map(|(_, rates)| rates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_gpu_with_plausible_rates() {
        let rows = include_str!("rates.csv").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(ROWS.len(), rows.count(), "a row cannot be read");
        for (name, rates) in ROWS.iter() {
            let gpu = Gpu::named(name).unwrap();
            assert_eq!(gpu.name, *name);
            assert!(rates.tensor >= rates.float32 && !rates.source.is_empty(), "{name}");
            if let Some(count) = gpu.multiprocessors {
                let clock = rates.clocks / count as f64;
                assert!((0.9e9..2.8e9).contains(&clock), "{name}: {clock:e} a second");
            }
        }
    }
}
