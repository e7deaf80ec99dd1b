//! Every level against float64 sums, on shapes that fill no block.

use std::{collections::BTreeSet, ops::Range, sync::Mutex, time::Duration};

use half::bf16;

use super::{
    Dense, Epilogue, Operand, OperandReader, Segment, Term,
    block::Block,
    epilogue::{AddScaled, LinearCombination, Output, Replace},
    multiply::Multiply,
    product,
};
use crate::{Element, instruction_set::forced::at_each_level};

/// Small numbers that both formats hold exactly, so that sums of products do not depend on the order.
fn values<E: Element>(count: usize, seed: usize) -> Vec<E> {
    (0..count)
        .map(|i| E::narrow(((i * 2_654_435_761 + seed * 40_503) >> 7) as f32 % 17.0 / 8.0 - 1.0))
        .collect()
}

/// Element (i, j) of the sum over the depth of `left[i][k] · right[k][j]`.
fn dot(depth: usize, left: impl Fn(usize) -> f32, right: impl Fn(usize) -> f32) -> f32 {
    (0..depth)
        .map(|k| f64::from(left(k)) * f64::from(right(k)))
        .sum::<f64>() as f32
}

fn transposed<E: Copy>(values: &[E], rows: usize, cols: usize) -> Vec<E> {
    (0..cols)
        .flat_map(|col| (0..rows).map(move |row| values[row * cols + col]))
        .collect()
}

/// `P` the format that is multiplied, `E` the stored one.
fn shapes_and_orders<P: Multiply, E: Element>()
where
    for<'a> Dense<'a, E>: OperandReader<P>,
{
    for (rows, depth, cols) in [
        (1, 1, 1),
        (15, 17, 31),
        (33, 63, 15),
        (64, 32, 64),
        (16, 700, 33),
        (31, 1, 65),
        (300, 33, 47),
        (47, 49, 16),
        (49, 15, 17),
        (70, 96, 16),
        (40, 704, 300),
        (38, 1300, 12),
        (2, 0, 3),
        (2, 0, 64),
    ] {
        let (x, w): (Vec<E>, Vec<E>) = (values(rows * depth, 1), values(cols * depth, 2));
        let (x_t, w_t) = (transposed(&x, rows, depth), transposed(&w, cols, depth));
        let dense = |values, stride| Dense::<E>::new(values, stride);
        let (x, x_t, w_s, w_ts) = (dense(&x, depth), dense(&x_t, rows), dense(&w, depth), dense(&w_t, cols));
        let lefts: [Operand<P>; 2] = [Operand::depth_last(&x), Operand::depth_first(&x_t)];
        let rights: [Operand<P>; 2] = [Operand::depth_last(&w_s), Operand::depth_first(&w_ts)];
        for left in lefts {
            for right in rights {
                let mut out = vec![f32::NAN; rows * cols];
                let store = Replace {
                    out: Output::new(&mut out, cols),
                    scale: 0.5,
                };
                product(
                    rows,
                    &[Segment {
                        cols,
                        terms: vec![Term { left, right, depth }],
                        epilogue: &store,
                    }],
                );
                for (at, got) in out.iter().enumerate() {
                    let (i, j) = (at / cols, at % cols);
                    let want = dot(
                        depth,
                        |k| x_at::<E>(1, rows, depth, i, k),
                        |k| x_at::<E>(2, cols, depth, j, k),
                    );
                    assert!(
                        (got - want * 0.5).abs() <= 1e-5 * want.abs(),
                        "{rows} x {depth} x {cols}: {got}, {want} / 2"
                    );
                }
            }
        }
    }
}

/// Element (row, col) of `values(rows * cols, seed)`.
fn x_at<E: Element>(seed: usize, _rows: usize, cols: usize, row: usize, col: usize) -> f32 {
    let i = row * cols + col;
    E::narrow(((i * 2_654_435_761 + seed * 40_503) >> 7) as f32 % 17.0 / 8.0 - 1.0).widen()
}

#[test]
fn all_shapes_orders_and_formats_agree_with_plain_sums() {
    at_each_level(|_| {
        shapes_and_orders::<f32, f32>();
        shapes_and_orders::<f32, bf16>();
        shapes_and_orders::<bf16, bf16>();
        shapes_and_orders::<bf16, f32>();
    });
}

/// Segments that share a left operand, a second term each, and destinations that add.
#[test]
fn segments_terms_and_stores_go_together() {
    at_each_level(|_| {
        let (rows, depth, rank) = (70, 130, 5);
        let (x, h): (Vec<bf16>, Vec<bf16>) = (values(rows * depth, 3), values(rows * rank, 4));
        let (x, h) = (Dense::new(&x, depth), Dense::new(&h, rank));
        let widths = [40, 33];
        let weights: Vec<(Vec<bf16>, Vec<f32>)> = widths
            .iter()
            .map(|&n| (values(n * depth, n), values(n * rank, n + 1)))
            .collect();
        let weights: Vec<_> = weights
            .iter()
            .map(|(w, b)| (Dense::new(w, depth), Dense::new(b, rank)))
            .collect();
        let residual: Vec<bf16> = values(rows * widths[0], 9);
        let mut first = vec![bf16::ZERO; rows * widths[0]];
        let mut second = vec![1f32; rows * widths[1]];
        {
            let residual = LinearCombination {
                out: Output::new(&mut first, widths[0]),
                scale: None,
                bias: None,
                residual: Some(&residual),
            };
            let add = AddScaled {
                out: Output::new(&mut second, widths[1]),
                factors: |row, cols: Range<usize>| std::array::from_fn(|at| (row % 3 * ((cols.start + at) % 2)) as f32),
            };
            let stores: [&dyn super::Epilogue; 2] = [&residual, &add];
            let segments: Vec<Segment<bf16>> = widths
                .iter()
                .zip(&weights)
                .zip(stores)
                .map(|((&cols, (w, b)), store)| Segment {
                    cols,
                    terms: vec![
                        Term {
                            left: Operand::depth_last(&x),
                            right: Operand::depth_last(w),
                            depth,
                        },
                        Term {
                            left: Operand::depth_last(&h),
                            right: Operand::depth_last(b),
                            depth: rank,
                        },
                    ],
                    epilogue: store,
                })
                .collect();
            product(rows, &segments);
        }
        let sum = |row: usize, col: usize, n: usize| {
            dot(
                depth,
                |k| x_at::<bf16>(3, rows, depth, row, k),
                |k| x_at::<bf16>(n, n, depth, col, k),
            ) + dot(
                rank,
                |k| x_at::<bf16>(4, rows, rank, row, k),
                |k| x_at::<f32>(n + 1, n, rank, col, k),
            )
        };
        for row in 0..rows {
            for col in 0..widths[0] {
                let want = sum(row, col, widths[0]) + x_at::<bf16>(9, rows, widths[0], row, col);
                assert_eq!(first[row * widths[0] + col], bf16::from_f32(want), "{row}, {col}");
            }
            for col in 0..widths[1] {
                let want = 1.0 + sum(row, col, widths[1]) * (row % 3 * (col % 2)) as f32;
                let got = second[row * widths[1] + col];
                assert!((got - want).abs() <= 1e-5 * want.abs(), "{row}, {col}: {got}, {want}");
            }
        }
    });
}

/// Writes `x · wᵀ` through a store.
fn product_to(rows: usize, depth: usize, cols: usize, epilogue: &dyn Epilogue) {
    let (x, w): (Vec<bf16>, Vec<bf16>) = (values(rows * depth, 1), values(cols * depth, 2));
    let (x, w) = (Dense::new(&x, depth), Dense::new(&w, depth));
    let term = Term::<bf16> {
        left: Operand::depth_last(&x),
        right: Operand::depth_last(&w),
        depth,
    };
    let terms = vec![term];
    product(rows, &[Segment { cols, terms, epilogue }]);
}

fn combinations_agree_with_a_plain_loop<E: Element + PartialEq + std::fmt::Debug>() {
    at_each_level(|level| {
        for (rows, depth, cols) in [(1, 1, 1), (33, 17, 31), (2, 0, 3), (40, 64, 65), (31, 33, 96)] {
            let (scale, bias): (Vec<f32>, Vec<f32>) = (values(cols, 3), values(cols, 4));
            let residual: Vec<E> = values(rows * cols, 5);
            let mut sums = vec![f32::NAN; rows * cols];
            let out = Output::new(&mut sums, cols);
            product_to(rows, depth, cols, &Replace { out, scale: 1.0 });
            for present in 0..8 {
                let scale = (present & 1 != 0).then_some(&scale[..]);
                let bias = (present & 2 != 0).then_some(&bias[..]);
                let residual = (present & 4 != 0).then_some(&residual[..]);
                let want: Vec<E> = (0..rows * cols)
                    .map(|at| {
                        let mut value = sums[at];
                        if let Some(scale) = scale {
                            value *= scale[at % cols];
                        }
                        if let Some(bias) = bias {
                            value += bias[at % cols];
                        }
                        if let Some(residual) = residual {
                            value += residual[at].widen();
                        }
                        E::narrow(value)
                    })
                    .collect();
                let mut combined = vec![E::narrow(7.0); rows * cols];
                let out = Output::new(&mut combined, cols);
                let store = LinearCombination {
                    out,
                    scale,
                    bias,
                    residual,
                };
                product_to(rows, depth, cols, &store);
                assert_eq!(combined, want, "{level:?}, {rows} x {depth} x {cols}, {present}");
            }
        }
    });
}

#[test]
fn scales_biases_and_residuals_are_applied_where_there_are_any() {
    combinations_agree_with_a_plain_loop::<f32>();
    combinations_agree_with_a_plain_loop::<bf16>();
}

/// Terms of whole steps are summed as one product over their joined depth is, however many there are, and an empty one
/// adds nothing.
#[test]
fn terms_are_summed_as_their_joined_depth_is() {
    at_each_level(|level| {
        let (rows, depth) = (70, 288);
        let depths = [64, 32, 0, 96, 32, 32, 32];
        for cols in [9, 40, 300] {
            let (x, w): (Vec<bf16>, Vec<bf16>) = (values(rows * depth, 1), values(cols * depth, 2));
            let mut want = vec![f32::NAN; rows * cols];
            let out = Output::new(&mut want, cols);
            product_to(rows, depth, cols, &Replace { out, scale: 1.0 });

            let mut start = 0;
            let parts = depths.map(|part| {
                let places = start..start + part;
                start = places.end;
                let cut = |matrix: &[bf16]| {
                    matrix
                        .chunks(depth)
                        .flat_map(|row| row[places.clone()].to_vec())
                        .collect()
                };
                let (x, w): (Vec<bf16>, Vec<bf16>) = (cut(&x), cut(&w));
                (x, w, part)
            });
            let readers = parts
                .each_ref()
                .map(|(x, w, part)| (Dense::new(x, *part), Dense::new(w, *part), *part));
            let terms = readers.iter().map(|(x, w, depth)| Term::<bf16> {
                left: Operand::depth_last(x),
                right: Operand::depth_last(w),
                depth: *depth,
            });
            let mut got = vec![f32::NAN; rows * cols];
            let out = Output::new(&mut got, cols);
            let epilogue = &Replace { out, scale: 1.0 };
            let terms = terms.collect();
            product(rows, &[Segment { cols, terms, epilogue }]);
            assert_eq!(got, want, "{level:?}, {cols} columns");
        }
    });
}

/// A depth that does not fit the cache is taken in rounds.
#[test]
fn large_depths_are_summed_in_rounds() {
    at_each_level(|_| {
        let (rows, depth, cols) = (40, 9000, 600);
        let x: Vec<bf16> = (0..rows * depth)
            .map(|i| bf16::from_f32((i % 7) as f32 - 3.0))
            .collect();
        let w: Vec<bf16> = (0..cols * depth)
            .map(|i| bf16::from_f32((i % 5) as f32 - 2.0))
            .collect();
        let (x_s, w_s) = (Dense::new(&x, depth), Dense::new(&w, depth));
        let mut out = vec![0f32; rows * cols];
        let store = Replace {
            out: Output::new(&mut out, cols),
            scale: 1.0,
        };
        let term = Term::<f32> {
            left: Operand::depth_last(&x_s),
            right: Operand::depth_last(&w_s),
            depth,
        };
        product(
            rows,
            &[Segment {
                cols,
                terms: vec![term],
                epilogue: &store,
            }],
        );
        for (row, col) in [(0, 0), (39, 599), (17, 300), (31, 31), (32, 32)] {
            let want = dot(depth, |k| x[row * depth + k].to_f32(), |k| w[col * depth + k].to_f32());
            assert_eq!(out[row * cols + col], want);
        }
    });
}

/// Keeps who stored the blocks of the first columns, slowly.
struct Slow<'a> {
    store: Replace<'a, f32>,
    stored: Mutex<BTreeSet<Option<usize>>>,
}

impl Epilogue for Slow<'_> {
    unsafe fn store(&self, rows: Range<usize>, cols: Range<usize>, block: &Block) {
        if cols.start == 0 {
            self.stored.lock().unwrap().insert(rayon::current_thread_index());
            std::thread::sleep(Duration::from_millis(2));
        }
        // SAFETY: the caller's promise.
        unsafe { self.store.store(rows, cols, block) };
    }
}

#[test]
fn a_thread_that_is_done_takes_rows_of_another() {
    let (rows, depth, cols) = (20 * 32 + 5, 40, 8 * 32);
    let threads = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut out = vec![f32::NAN; rows * cols];
    let slow = Slow {
        store: Replace {
            out: Output::new(&mut out, cols),
            scale: 1.0,
        },
        stored: Mutex::default(),
    };
    threads.install(|| product_to(rows, depth, cols, &slow));
    assert_eq!(slow.stored.into_inner().unwrap().len(), 2);
    let mut alone = vec![f32::NAN; rows * cols];
    let store = Replace {
        out: Output::new(&mut alone, cols),
        scale: 1.0,
    };
    product_to(rows, depth, cols, &store);
    assert_eq!(out, alone);
}

#[test]
fn not_a_number_and_infinity_come_through_and_stay_in_their_rows() {
    at_each_level(|_| {
        let (rows, depth, cols) = (33, 40, 33);
        let mut x = vec![bf16::ONE; rows * depth];
        x[3 * depth + 39] = bf16::NAN;
        x[32 * depth] = bf16::INFINITY;
        let w = vec![bf16::ONE; cols * depth];
        let (x, w) = (Dense::new(&x, depth), Dense::new(&w, depth));
        let mut out = vec![0f32; rows * cols];
        for native in [false, true] {
            let store = Replace {
                out: Output::new(&mut out, cols),
                scale: 1.0,
            };
            if native {
                let term = Term::<bf16> {
                    left: Operand::depth_last(&x),
                    right: Operand::depth_last(&w),
                    depth,
                };
                product(
                    rows,
                    &[Segment {
                        cols,
                        terms: vec![term],
                        epilogue: &store,
                    }],
                );
            } else {
                let term = Term::<f32> {
                    left: Operand::depth_last(&x),
                    right: Operand::depth_last(&w),
                    depth,
                };
                product(
                    rows,
                    &[Segment {
                        cols,
                        terms: vec![term],
                        epilogue: &store,
                    }],
                );
            }
            for (row, out) in out.chunks(cols).enumerate() {
                for value in out {
                    match row {
                        3 => assert!(value.is_nan()),
                        32 => assert_eq!(*value, f32::INFINITY),
                        _ => assert_eq!(*value, 40.0),
                    }
                }
            }
        }
    });
}
