//! Sums of rows, in lanes that are put together in a fixed order.
//!
//! The lanes are an array that is gone through again and again by loops of unknown length: such loops the compiler
//! vectorises at every level, while it takes apart those whose length it knows.

use options::InstructionSet;
use rayon::prelude::*;

use super::{arithmetic::Arithmetic, element::Element, rows::PART};
use crate::Dispatch as _;

/// Enough vectors of any level for an addition not to wait for the one before it.
pub(super) const LANES: usize = 128;

/// The sum of `term(value)` over the values.
#[inline(always)]
pub(super) fn sum_over<T: Copy>(values: &[T], term: impl Fn(T) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    for block in values.chunks(LANES) {
        for (lane, value) in lanes.iter_mut().zip(block) {
            *lane += term(*value);
        }
    }
    total(lanes)
}

/// The sum of the products of two rows' elements.
#[inline(always)]
pub(super) fn products<E: Element>(a: &[E], b: &[E]) -> f32 {
    let mut lanes = [0.0; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a.widen() * b.widen();
        }
    }
    total(lanes)
}

/// The sum of the lanes.
#[inline(always)]
pub(super) fn total(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        let (first, second) = lanes.split_at_mut(width);
        for (a, b) in first.iter_mut().zip(second) {
            *a += *b;
        }
        width /= 2;
    }
    lanes[0]
}

/// The sum of the squares, in float64.
#[inline(always)]
pub(super) fn squares<E: Element>(values: &[E]) -> f64 {
    let mut lanes = [0f64; LANES];
    for block in values.chunks(LANES) {
        for (lane, value) in lanes.iter_mut().zip(block) {
            let value = f64::from(value.widen());
            *lane += value * value;
        }
    }
    lanes.iter().sum()
}

/// The sum of the squares, in float64, of parts that are cut at fixed places.
pub fn sum_of_squares<E: Element>(values: &[E]) -> f64 {
    let level = InstructionSet::current();
    let sums: Vec<f64> = values
        .par_chunks(PART)
        .map(|part| {
            level.run(
                #[inline(always)]
                || squares(part),
            )
        })
        .collect();
    sums.iter().sum()
}

/// The dot product of a row in any format with one in float32.
#[inline(always)]
pub(super) fn dot<E: Element>(arithmetic: Arithmetic, a: &[E], b: &[f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane = arithmetic.mul_add(a.widen(), *b, *lane);
        }
    }
    total(lanes)
}

/// The dot product in float64 of what `widen` makes of two rows.
#[inline(always)]
pub(super) fn dot_wide<T: Copy>(a: &[T], b: &[T], widen: impl Fn(T) -> f64) -> f64 {
    let mut lanes = [0f64; LANES / 2];
    for (a, b) in a.chunks(LANES / 2).zip(b.chunks(LANES / 2)) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += widen(*a) * widen(*b);
        }
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        instruction_set::forced::at_each_level,
        testing::{COUNTS, narrowed, values},
    };

    #[test]
    fn sums_leave_nothing_out() {
        at_each_level(|level| {
            for count in COUNTS {
                let values = values(count, 1);
                let want: f64 = values.iter().map(|value| f64::from(value * value)).sum();
                let squares = level.run(
                    #[inline(always)]
                    || sum_over(&values, |value| value * value),
                );
                assert!((f64::from(squares) - want).abs() <= 1e-6 * want, "{level:?}, {count}");
            }
        });
    }

    #[test]
    fn squares_of_parts_leave_nothing_out() {
        fn check<E: Element>() {
            for count in COUNTS {
                let values = narrowed::<E>(&values(count, 1));
                let want: f64 = values.iter().map(|value| f64::from(value.widen()).powi(2)).sum();
                assert!((sum_of_squares(&values) - want).abs() <= 1e-12 * want, "{count}");
            }
        }
        at_each_level(|_| {
            check::<f32>();
            check::<half::bf16>();
            assert!(sum_of_squares(&[1.0, f32::NAN]).is_nan());
            assert_eq!(sum_of_squares(&[1.0, f32::INFINITY]), f64::INFINITY);
        });
    }
}
