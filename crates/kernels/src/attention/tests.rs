//! Every level and format against double precision, on lengths and head dimensions that fill no block.

mod case;

use std::ops::Range;

use half::{bf16, f16};

use self::case::{Case, assert_close};
use super::*;
use crate::{
    Sequences,
    gemm::{multiply::Multiply, operand::FromFormat},
    instruction_set::forced::at_each_level,
};

/// Samples, length, heads, heads of keys and values, dimensions.
const SHAPES: [(usize, usize, (usize, usize), usize); 9] = [
    (1, 1, (1, 1), 2),
    (2, 15, (4, 2), 6),
    (1, 17, (3, 3), 16),
    (2, 31, (2, 1), 64),
    (1, 33, (3, 1), 80),
    (1, 63, (4, 4), 6),
    (2, 130, (6, 2), 16),
    (1, 300, (2, 1), 33),
    (1, 600, (3, 1), 64),
];

#[test]
fn all_lengths_and_groups_agree_with_double_precision() {
    at_each_level(|level| {
        for (batch, len, heads, head_dim) in SHAPES {
            Case::<f32>::new(batch, len, heads, head_dim).check::<f32>(1e-5, &format!("{level:?} f32"));
            let in_bf16 = Case::<bf16>::new(batch, len, heads, head_dim);
            in_bf16.check::<f32>(0.005, &format!("{level:?} bf16 by f32"));
            if bf16::is_native(level) || len < 100 {
                in_bf16.check::<bf16>(0.02, &format!("{level:?} bf16"));
            }
        }
        Case::<f16>::new(2, 130, (6, 2), 16).check::<f32>(1e-3, &format!("{level:?} f16"));
    });
}

/// To the first keys of each sample, with and without dropout; and causal with dropout.
#[test]
fn other_patterns_agree_with_double_precision() {
    at_each_level(|level| {
        for (batch, len, heads, head_dim) in SHAPES {
            let new = || Case::<f32>::new(batch, len, heads, head_dim);
            let what = format!("{level:?} f32");
            new().bidirectional().check::<f32>(1e-5, &what);
            new().bidirectional().dropping(0.3).check::<f32>(2e-5, &what);
            new().dropping(0.3).check::<f32>(2e-5, &what);
            let in_bf16 = || Case::<bf16>::new(batch, len, heads, head_dim).bidirectional();
            in_bf16().check::<f32>(0.005, &format!("{level:?} bf16 by f32"));
            if bf16::is_native(level) || len < 100 {
                in_bf16().check::<bf16>(0.02, &format!("{level:?} bf16"));
                in_bf16()
                    .dropping(0.1)
                    .check::<bf16>(0.03, &format!("{level:?} bf16, dropping"));
            }
        }
        let case = Case::<f16>::new(2, 130, (6, 2), 16).bidirectional().dropping(0.1);
        case.check::<f32>(2e-3, &format!("{level:?} f16"));
    });
}

/// Windows within a block, over several, of a block's size, and longer than the sequence; and capped scores.
#[test]
fn windows_and_caps_agree_with_double_precision() {
    at_each_level(|level| {
        for (batch, len, heads, head_dim) in SHAPES {
            let new = || Case::<f32>::new(batch, len, heads, head_dim);
            let what = format!("{level:?} f32");
            for window in [2, 5, 31, 32, 33, 40, 64, 100, 1000] {
                let what = format!("{what}, window {window}");
                new().windowed(window).check::<f32>(1e-5, &what);
            }
            new().windowed(45).dropping(0.3).check::<f32>(2e-5, &what);
            new().capped().check::<f32>(1e-5, &what);
            new().capped().windowed(45).dropping(0.3).check::<f32>(2e-5, &what);
            new().capped().bidirectional().check::<f32>(1e-5, &what);
            let in_bf16 = || Case::<bf16>::new(batch, len, heads, head_dim).capped().windowed(45);
            in_bf16().check::<f32>(0.005, &format!("{level:?} bf16 by f32"));
            if bf16::is_native(level) || len < 100 {
                in_bf16().check::<bf16>(0.02, &format!("{level:?} bf16"));
            }
        }
    });
}

/// Sequences of other lengths side by side, as packing makes them.
#[test]
fn sequences_of_other_lengths_agree_with_double_precision() {
    at_each_level(|level| {
        for lengths in [&[1, 33, 2][..], &[70, 5, 31, 32], &[300, 1, 1, 65, 129]] {
            let new = || Case::<f32>::of(Sequences::of(lengths.iter().copied()), (4, 2), 6);
            let what = format!("{level:?} f32");
            new().check::<f32>(1e-5, &what);
            new().dropping(0.3).check::<f32>(2e-5, &what);
            new().bidirectional().dropping(0.3).check::<f32>(2e-5, &what);
            let case = Case::<bf16>::of(Sequences::of(lengths.iter().copied()), (6, 2), 16);
            case.check::<f32>(0.005, &format!("{level:?} bf16 by f32"));
        }
    });
}

/// A sequence gives the same as if it were alone, whatever its neighbours are: to the bit.
#[test]
fn neighbours_do_not_reach_a_sequence() {
    fn check<E: Number + FromFormat<E> + PartialEq>() {
        let (lengths, heads, dim) = ([40, 67, 9], 2, 6);
        let packed = |neighbour: f32| {
            let mut case = Case::<E>::of(Sequences::of(lengths), (heads, 1), dim);
            for (start, end) in [(0, 40), (107, 116)] {
                for (values, width) in [
                    (&mut case.q, heads * dim),
                    (&mut case.k, dim),
                    (&mut case.v, dim),
                    (&mut case.d_out, heads * dim),
                ] {
                    values[start * width..end * width].fill(E::narrow(neighbour));
                }
            }
            case
        };
        let case = packed(0.5);
        let mut alone = Case::<E>::new(1, 67, (heads, 1), dim);
        alone.q = case.q[40 * heads * dim..107 * heads * dim].to_vec();
        alone.d_out = case.d_out[40 * heads * dim..107 * heads * dim].to_vec();
        alone.k = case.k[40 * dim..107 * dim].to_vec();
        alone.v = case.v[40 * dim..107 * dim].to_vec();
        let alone = alone.computed::<E>();
        for neighbour in [0.5, 100.0, f32::NAN] {
            let got = packed(neighbour).computed::<E>();
            let part = |values: &[f32], width: usize| values[40 * width..107 * width].to_vec();
            assert_eq!(part(&got.out, heads * dim), alone.out);
            assert_eq!(part(&got.lse, heads), alone.lse);
            assert_eq!(part(&got.dq, heads * dim), alone.dq);
            assert_eq!(part(&got.dk, dim), alone.dk);
            assert_eq!(part(&got.dv, dim), alone.dv);
        }
    }
    at_each_level(|_| {
        check::<f32>();
        check::<bf16>();
    });
}

/// More keys and queries than a round takes.
#[test]
fn rounds_go_together() {
    Case::<bf16>::new(1, 1100, (2, 1), 16).check::<bf16>(0.02, "bf16");
    Case::<f32>::new(1, 1100, (2, 1), 16).check::<f32>(1e-5, "f32");
    let case = Case::<f32>::new(2, 1100, (2, 1), 16).bidirectional().dropping(0.1);
    case.check::<f32>(2e-5, "bidirectional f32");
    for window in [20, 300, 700] {
        let case = Case::<f32>::new(1, 1400, (2, 1), 16).windowed(window);
        case.check::<f32>(1e-5, &format!("window {window}"));
    }
}

#[test]
fn a_result_does_not_depend_on_the_number_of_threads() {
    let causal = Case::<bf16>::new(1, 700, (4, 2), 16);
    let dropping = Case::<bf16>::new(1, 700, (4, 2), 16).bidirectional().dropping(0.1);
    for case in [causal, dropping] {
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| case.computed::<bf16>())
        };
        let (one, many) = (run(1), run(5));
        assert!(one.out == many.out && one.lse == many.lse);
        assert!(one.dq == many.dq && one.dk == many.dk && one.dv == many.dv);
    }
}

/// What is no number at a position reaches neither the outputs of earlier positions nor the gradients that do not
/// depend on it.
#[test]
fn later_positions_do_not_reach_earlier_ones() {
    fn check<E: Number + FromFormat<E>>() {
        let (len, at) = (70, 41);
        let case = Case::<E>::new(1, len, (2, 1), 6);
        let clean = case.computed::<E>();
        let position = |values: &mut [E]| {
            let row = values.len() / len;
            values[at * row..][..row].fill(E::narrow(f32::NAN));
        };
        let same = |what: &str, got: &[f32], want: &[f32], positions: Range<usize>| {
            let row = got.len() / len;
            let part = positions.start * row..positions.end * row;
            let want: Vec<f64> = want[part.clone()].iter().map(|want| f64::from(*want)).collect();
            // Not in the same order: the block with the hole in it is summed up apart.
            assert_close(&got[part], &want, 0.01, what);
        };
        let mut poisoned = Case::<E>::new(1, len, (2, 1), 6);
        position(&mut poisoned.k);
        position(&mut poisoned.v);
        let got = poisoned.computed::<E>();
        same("out", &got.out, &clean.out, 0..at);
        same("dq", &got.dq, &clean.dq, 0..at);
        assert!(
            got.out[at * 12..]
                .iter()
                .chain(&got.dq[at * 12..])
                .all(|value| value.is_nan())
        );

        // A query reaches the gradients of the keys up to it.
        let mut poisoned = Case::<E>::new(1, len, (2, 1), 6);
        position(&mut poisoned.q);
        position(&mut poisoned.d_out);
        let got = poisoned.computed::<E>();
        same("out before", &got.out, &clean.out, 0..at);
        same("out after", &got.out, &clean.out, at + 1..len);
        same("dq before", &got.dq, &clean.dq, 0..at);
        same("dq after", &got.dq, &clean.dq, at + 1..len);
        same("dk", &got.dk, &clean.dk, at + 1..len);
        same("dv", &got.dv, &clean.dv, at + 1..len);
        assert!(
            got.dk[..at * 6]
                .iter()
                .chain(&got.dv[..at * 6])
                .all(|value| value.is_nan())
        );
    }
    at_each_level(|_| {
        check::<f32>();
        check::<bf16>();
    });
}

/// What is no number in the padding reaches nothing but the padding's own outputs, and padding has no gradients.
#[test]
fn padding_does_not_reach_what_counts() {
    fn check<E: Number + FromFormat<E>>() {
        let (len, heads, dim) = (70, 2, 6);
        let padded = |poison: f32| {
            let mut case = Case::<E>::new(1, len, (heads, 1), dim).dropping(0.2);
            case.lengths = Some(vec![41]);
            case.k[41 * dim..].fill(E::narrow(poison));
            case.v[41 * dim..].fill(E::narrow(poison));
            case.computed::<E>()
        };
        let (clean, poisoned) = (padded(0.5), padded(f32::NAN));
        assert!(clean.out == poisoned.out && clean.dq == poisoned.dq);
        assert!(clean.dk == poisoned.dk && clean.dv == poisoned.dv);
        assert!(
            clean.dk[41 * dim..]
                .iter()
                .chain(&clean.dv[41 * dim..])
                .all(|value| *value == 0.0)
        );
    }
    at_each_level(|_| {
        check::<f32>();
        check::<bf16>();
    });
}

/// A key of which the score is minus infinity has no weight, even where it comes first.
#[test]
fn a_score_of_minus_infinity_is_no_weight() {
    at_each_level(|_| {
        let mut case = Case::<f32>::new(1, 600, (1, 1), 2);
        case.q.fill(1.0);
        case.k[..2 * 520].fill(f32::NEG_INFINITY);
        let mut out = vec![0.0; case.q.len()];
        let mut lse = vec![0.0; 600];
        forward::<f32, f32>(
            &case.q,
            &case.k,
            &case.v,
            case.shape(),
            Pattern::CAUSAL,
            &mut out,
            &mut lse,
        );
        assert!(out[..2 * 520].iter().all(|value| value.is_nan()));
        assert_eq!(out[2 * 520..2 * 521], case.v[2 * 520..2 * 521]);
        assert!(out[2 * 521..].iter().chain(&lse[520..]).all(|value| value.is_finite()));
    });
}
