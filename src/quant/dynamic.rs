//! bitsandbytes' signed dynamic 8-bit map: the codebook of the scales' second quantisation.
//!
//! It has seven decades of positive values, their negatives, 0 and 1. Decade `i` (from 1e-6 to 1) cuts (0.1, 1) into
//! `2^i` equal parts, whose midpoints are the values. See `bitsandbytes.functional.create_dynamic_map`, after Dettmers,
//! "8-Bit Approximations for Parallelism in Deep Learning", arXiv:1511.04561. The values equal torch's in float32, bit
//! for bit.

/// The 256 values in ascending order. The index is the code.
pub static MAP: [f32; 256] = map();

/// The midpoints between neighbours.
static BOUNDS: [f32; 255] = bounds();

/// The code of the value nearest to `x`. A tie goes down, and NaN gives 0.
///
/// bitsandbytes' CUDA kernel takes the nearest, too. Its CPU library looks codes up in 65536 equal bins, so within
/// 2^-16 of a bound it may take a neighbour. Near 0, where the map is finer than a bin, it may be a few codes off.
pub fn nearest(x: f32) -> u8 {
    BOUNDS.partition_point(|&bound| bound < x) as u8
}

const fn map() -> [f32; 256] {
    const DECADES: [f32; 7] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0];
    const ZERO: usize = 127;
    let mut map = [0.0; 256];
    map[255] = 1.0;
    let mut at = ZERO + 1;
    let mut decade = 0;
    while decade < DECADES.len() {
        let parts = 1 << decade;
        let mut part = 0;
        while part < parts {
            let middle = (edge(part, parts) + edge(part + 1, parts)) / 2.0;
            map[at] = DECADES[decade] * middle;
            map[2 * ZERO - at] = -map[at];
            at += 1;
            part += 1;
        }
        decade += 1;
    }
    map
}

/// Edge `index` of `parts` equal parts of (0.1, 1), as `torch.linspace` rounds it. It counts from the nearer end and
/// rounds product and sum once (both are exact in f64).
const fn edge(index: usize, parts: usize) -> f32 {
    let step = ((1.0f32 - 0.1f32) / parts as f32) as f64;
    if index < parts.div_ceil(2) {
        (0.1f32 as f64 + step * index as f64) as f32
    } else {
        (1.0 - step * (parts - index) as f64) as f32
    }
}

const fn bounds() -> [f32; 255] {
    let map = map();
    let mut bounds = [0.0; 255];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = (map[at] + map[at + 1]) / 2.0;
        at += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_its_own_nearest() {
        for (code, &value) in MAP.iter().enumerate() {
            assert_eq!(usize::from(nearest(value)), code);
        }
    }

    #[test]
    fn a_tie_goes_down() {
        for (code, &bound) in BOUNDS.iter().enumerate() {
            assert_eq!(usize::from(nearest(bound)), code);
            assert_eq!(usize::from(nearest(bound.next_up())), code + 1);
        }
    }
}
