//! Seeded random weights.
//!
//! Value `i` of a tensor is a function of word `i` of the ChaCha8 stream that belongs to (seed, the tensor's name), so
//! that any range gives the same values in any order and on any number of threads. Only exact IEEE operations are used
//! (no libm, no fused multiply-add): the weights are the same on every machine, at each level.

use base::random;
use kernels::Dispatch as _;
use options::InstructionSet;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::RngCore;
use rayon::prelude::*;

/// Values a task of the thread pool makes.
const TASK: usize = 1 << 15;

/// Values made at a time, in buffers that stay in the first-level cache.
const BLOCK: usize = 512;

/// Fills `out` with the values of matrix `name` from flat index `start` on: normal(0, `deviation`²).
pub(super) fn normal(seed: u64, name: &str, deviation: f32, start: usize, out: &mut [f32]) {
    let stream = random::stream(seed, &format!("weights {name}"));
    let level = InstructionSet::current();
    out.par_chunks_mut(TASK).enumerate().for_each(|(task, out)| {
        let mut stream = stream.clone();
        stream.set_word_pos((start + task * TASK) as u128);
        out.chunks_mut(BLOCK)
            .for_each(|block| fill(level, &mut stream, deviation, block));
    });
}

fn fill(level: InstructionSet, stream: &mut ChaCha8Rng, deviation: f32, out: &mut [f32]) {
    let mut bytes = [0u8; 4 * BLOCK];
    let bytes = &mut bytes[..4 * out.len()];
    stream.fill_bytes(bytes);
    level.run(
        #[inline(always)]
        || from_words(bytes.as_chunks().0, deviation, out),
    );
}

/// The values of as many words.
#[inline(always)]
fn from_words(words: &[[u8; 4]], deviation: f32, out: &mut [f32]) {
    let scale = deviation * std::f32::consts::SQRT_2;
    let mut tail = [0f32; BLOCK];
    for ((word, out), tail) in words.iter().zip(&mut *out).zip(&mut tail) {
        let x = uniform(u32::from_le_bytes(*word));
        let w = -ln((1.0 - x) * (1.0 + x));
        *tail = w;
        *out = scale * x * erfinv_centre(w);
    }
    // One value in 300: apart, so that the loop above has no branch and is vectorised.
    for ((word, out), &w) in words.iter().zip(out).zip(&tail) {
        if w >= TAIL {
            let x = uniform(u32::from_le_bytes(*word));
            *out = scale * x * erfinv_tail(w);
        }
    }
}

/// The odd multiples of 2^-23 in (-1, 1), each with the same probability: symmetric, and never 0 or 1.
#[inline(always)]
fn uniform(word: u32) -> f32 {
    let odd = ((word >> 9) << 1 | 1) as i32 - (1 << 23);
    odd as f32 * (1.0 / (1 << 23) as f32)
}

/// Where [`erfinv_tail`] takes over from [`erfinv_centre`].
const TAIL: f32 = 5.0;

/// `erfinv(x) / x` from `w = -ln(1 - x²) < 5`. M. Giles, "Approximating the erfinv function", GPU Computing Gems 2011.
#[inline(always)]
fn erfinv_centre(w: f32) -> f32 {
    polynomial(
        w - 2.5,
        [
            2.810_226_4e-8,
            3.432_739_4e-7,
            -3.523_387_7e-6,
            -4.391_506_5e-6,
            2.185_808_7e-4,
            -1.253_725_e-3,
            -4.177_681_6e-3,
            2.466_407_3e-1,
            1.501_409_4,
        ],
    )
}

/// `erfinv(x) / x` from `w = -ln(1 - x²) >= 5`.
fn erfinv_tail(w: f32) -> f32 {
    polynomial(
        w.sqrt() - 3.0,
        [
            -2.002_142_6e-4,
            1.009_505_6e-4,
            1.349_343_2e-3,
            -3.673_428_4e-3,
            5.739_507_7e-3,
            -7.622_461_3e-3,
            9.438_870_5e-3,
            1.001_674,
            2.832_976_8,
        ],
    )
}

/// Natural logarithm of a normal positive number, to about one unit in the last place: Cephes' `logf`.
#[inline(always)]
fn ln(x: f32) -> f32 {
    const SQRT_HALF: i32 = 0x3f35_04f3;
    let bits = x.to_bits() as i32;
    let exponent = (bits - SQRT_HALF) >> 23;
    let z = f32::from_bits((bits - (exponent << 23)) as u32) - 1.0;
    let exponent = exponent as f32;
    let series = polynomial(
        z,
        [
            7.037_683_6e-2,
            -1.151_461e-1,
            1.167_699_9e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    );
    // ln 2 in two parts; the first, 355/512, times the exponent is exact.
    let small = z * z * z * series + exponent * -2.121_944_4e-4 - 0.5 * z * z;
    z + small + exponent * (355.0 / 512.0)
}

/// Horner's rule, highest power first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(seed: u64, name: &str, start: usize, count: usize) -> Vec<f32> {
        let mut out = vec![0.0; count];
        normal(seed, name, 0.02, start, &mut out);
        out
    }

    #[test]
    fn any_range_gives_the_same_values() {
        let all = values(7, "a", 0, 3 * TASK + 123);
        for (start, count) in [(0, 1), (1, 700), (TASK - 3, 10), (TASK + 5, 2 * TASK)] {
            assert_eq!(values(7, "a", start, count), all[start..start + count]);
        }
        assert_ne!(values(7, "b", 0, 8), all[..8]);
        assert_ne!(values(8, "a", 0, 8), all[..8]);
    }

    /// Pinned, so that results do not move by accident.
    #[test]
    fn values_stay_what_they_are() {
        let values = values(0, "model.embed_tokens.weight", 0, 4);
        assert_eq!(values, [-0.032421496, 0.016844044, -0.024983576, 0.00089399156]);
    }

    #[test]
    fn each_level_makes_the_same_values() {
        let at = |level| {
            let mut out = vec![0.0; BLOCK - 3];
            fill(level, &mut random::stream(1, "words"), 0.02, &mut out);
            out
        };
        for level in InstructionSet::ALL.into_iter().filter(|level| level.is_available()) {
            assert_eq!(at(level), at(InstructionSet::Portable), "{level:?}");
        }
    }

    #[test]
    fn the_range_scales_every_value() {
        let (one, other) = (values(1, "range", 0, 4096), {
            let mut out = vec![0.0; 4096];
            normal(1, "range", 0.08, 0, &mut out);
            out
        });
        for (one, other) in one.iter().zip(&other) {
            assert!((4.0 * one - other).abs() <= 1e-6 * other.abs(), "{one} and {other}");
        }
    }

    #[test]
    fn moments_are_those_of_a_normal() {
        let values = values(3, "moments", 0, 1 << 20);
        let moment =
            |power: i32| values.iter().map(|&v| (f64::from(v) / 0.02).powi(power)).sum::<f64>() / values.len() as f64;
        assert!(moment(1).abs() < 4e-3);
        assert!((moment(2) - 1.0).abs() < 6e-3);
        assert!(moment(3).abs() < 2e-2);
        assert!((moment(4) - 3.0).abs() < 5e-2);
        assert!(values.iter().all(|v| v.is_finite() && v.abs() < 0.02 * 6.0));
    }

    #[test]
    fn logarithm_and_quantiles_are_accurate() {
        for x in [
            f32::MIN_POSITIVE,
            1e-6,
            0.1,
            0.499,
            0.5,
            0.7,
            0.71,
            0.999,
            1.0,
            3.0,
            1e9,
        ] {
            let exact = f64::from(x).ln();
            assert!((f64::from(ln(x)) - exact).abs() <= 3e-7 * exact.abs().max(0.1), "{x}");
        }
        // erfinv at 0.5 and 0.999, from a table.
        let erfinv = |x: f32| {
            let w = -ln((1.0 - x) * (1.0 + x));
            x * if w < TAIL { erfinv_centre(w) } else { erfinv_tail(w) }
        };
        assert!((erfinv(0.5) - 0.476_936_28).abs() < 1e-6);
        assert!((erfinv(0.999) - 2.326_753_8).abs() < 1e-5);
    }
}
