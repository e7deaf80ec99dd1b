//! bitsandbytes' dynamic 8-bit maps: the signed one is the codebook of the scales' second quantisation and of an
//! optimizer's first moment, the unsigned one that of its second moment.
//!
//! The signed map has seven decades of positive values, their negatives, 0 and 1. Decade `i` (from 1e-6 to 1) cuts
//! (0.1, 1) into `2^i` equal parts, whose midpoints are the values. The unsigned map has twice as many parts, and no
//! negatives. See `bitsandbytes.functional.create_dynamic_map`, after Dettmers, "8-Bit Approximations for Parallelism
//! in Deep Learning", arXiv:1511.04561. The values equal torch's in float32, bit for bit.
//!
//! A value has the nearest code, as with bitsandbytes' CUDA kernel. Its CPU library looks codes up in 65536 equal bins,
//! so within 2^-16 of a bound it may take a neighbour. Near 0, where the map is finer than a bin, it may be a few codes
//! off.

use std::sync::LazyLock;

use kernels::codebook::Codebook8;

/// The map with negative values.
pub static SIGNED: LazyLock<Codebook8> = LazyLock::new(|| Codebook8::new(map(true)));

/// The map without.
pub static UNSIGNED: LazyLock<Codebook8> = LazyLock::new(|| Codebook8::new(map(false)));

fn map(is_signed: bool) -> [f32; 256] {
    const DECADES: [f32; 7] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];
    let zero = if is_signed { 127 } else { 0 };
    let mut map = [0.0; 256];
    map[255] = 1.0;
    let mut at = zero + 1;
    for (decade, power) in DECADES.into_iter().enumerate() {
        let parts = if is_signed { 1 << decade } else { 2 << decade };
        for part in 0..parts {
            let middle = (edge(part, parts) + edge(part + 1, parts)) / 2.0;
            map[at] = power * middle;
            if is_signed {
                map[2 * zero - at] = -map[at];
            }
            at += 1;
        }
    }
    map
}

/// Edge `index` of `parts` equal parts of (0.1, 1), as `torch.linspace` rounds it. It counts from the nearer end and
/// rounds product and sum once (both are exact in f64).
fn edge(index: usize, parts: usize) -> f32 {
    let step = f64::from((1.0f32 - 0.1f32) / parts as f32);
    if index < parts.div_ceil(2) {
        (f64::from(0.1f32) + step * index as f64) as f32
    } else {
        (1.0 - step * (parts - index) as f64) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_its_own_nearest_and_a_tie_goes_down() {
        for map in [&*SIGNED, &*UNSIGNED] {
            assert!(map.values().is_sorted());
            for (code, &value) in map.values().iter().enumerate() {
                assert_eq!(usize::from(map.nearest(value)), code);
            }
            for (code, &bound) in map.bounds()[..255].iter().enumerate() {
                assert_eq!(usize::from(map.nearest(bound)), code);
                assert_eq!(usize::from(map.nearest(bound.next_up())), code + 1);
            }
        }
    }
}
