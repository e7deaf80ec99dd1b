//! Every level and format against double precision, on lengths and head dimensions that fill no block.

use half::{bf16, f16};

use std::ops::Range;

use super::*;
use crate::kernels::{
    Element, Sequences,
    dropout::Mask,
    gemm::{multiply::Multiply, operand::FromFormat},
    instruction_set::forced::at_each_level,
};

struct Case<E> {
    sequences: Sequences,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Keys of each sequence; causal without.
    lengths: Option<Vec<u32>>,
    dropout: Option<Vec<Mask>>,
    q: Vec<E>,
    k: Vec<E>,
    v: Vec<E>,
    d_out: Vec<E>,
}

/// What a kernel gives, or double precision.
struct Outcome<T> {
    out: Vec<T>,
    lse: Vec<T>,
    dq: Vec<T>,
    dk: Vec<T>,
    dv: Vec<T>,
}

/// Values between -1 and 1 without a pattern.
fn values<E: Element>(count: usize, seed: u64) -> Vec<E> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            E::narrow((state >> 40) as f32 / (1 << 23) as f32 - 1.0)
        })
        .collect()
}

impl<E: Element> Case<E> {
    fn new(batch: usize, len: usize, heads: (usize, usize), head_dim: usize) -> Self {
        Self::of(Sequences::even(batch, len), heads, head_dim)
    }

    fn of(sequences: Sequences, (heads, kv_heads): (usize, usize), head_dim: usize) -> Self {
        let shape = Shape {
            sequences: &sequences,
            heads,
            kv_heads,
            head_dim,
        };
        // Scores of some size, so that weights differ.
        let q: Vec<E> = values(shape.queries(), 1);
        Self {
            heads,
            kv_heads,
            head_dim,
            lengths: None,
            dropout: None,
            q: q.iter().map(|q| E::narrow(q.widen() * 4.0)).collect(),
            k: values(shape.keys(), 2),
            v: values(shape.keys(), 3),
            d_out: values(shape.queries(), 4),
            sequences,
        }
    }

    fn shape(&self) -> Shape<'_> {
        Shape {
            sequences: &self.sequences,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
        }
    }

    /// Every query sees the first keys of its sequence: as many as there are, and fewer.
    fn bidirectional(self) -> Self {
        let lengths = self.sequences.iter().enumerate();
        let lengths = lengths.map(|(index, tokens)| (tokens.len() - index % 3 * tokens.len() / 3) as u32);
        Self {
            lengths: Some(lengths.collect()),
            ..self
        }
    }

    fn dropping(self, probability: f64) -> Self {
        let masks = (0..self.sequences.count()).map(|index| Mask::new(index as u64 * 77 + 5, probability));
        Self {
            dropout: Some(masks.collect()),
            ..self
        }
    }

    fn pattern(&self) -> Pattern<'_> {
        Pattern {
            keys: self.lengths.as_deref().map_or(Keys::Causal, Keys::First),
            dropout: self.dropout.as_deref(),
        }
    }

    /// By products in `P`.
    fn computed<P: Number + FromFormat<E>>(&self) -> Outcome<f32> {
        let mut out = vec![E::narrow(f32::NAN); self.q.len()];
        let mut lse = vec![f32::NAN; self.sequences.tokens() * self.heads];
        forward::<P, E>(
            &self.q,
            &self.k,
            &self.v,
            self.shape(),
            self.pattern(),
            &mut out,
            &mut lse,
        );
        let (mut dq, mut dk, mut dv) = (
            vec![E::narrow(f32::NAN); self.q.len()],
            vec![E::narrow(f32::NAN); self.k.len()],
            vec![E::narrow(f32::NAN); self.k.len()],
        );
        let saved = Saved {
            q: &self.q,
            k: &self.k,
            v: &self.v,
            out: &out,
            lse: &lse,
        };
        let gradients = Gradients {
            q: &mut dq,
            k: &mut dk,
            v: &mut dv,
        };
        backward::<P, E>(&saved, &self.d_out, self.shape(), self.pattern(), gradients);
        let wide = |values: &[E]| values.iter().map(|value| value.widen()).collect();
        Outcome {
            out: wide(&out),
            lse,
            dq: wide(&dq),
            dk: wide(&dk),
            dv: wide(&dv),
        }
    }

    fn wanted(&self) -> Outcome<f64> {
        let Self {
            sequences,
            heads,
            kv_heads,
            head_dim,
            ..
        } = self;
        let (heads, kv_heads, head_dim) = (*heads, *kv_heads, *head_dim);
        let scale = 1.0 / (head_dim as f64).sqrt();
        let mut outcome = Outcome {
            out: vec![0.0; self.q.len()],
            lse: vec![0.0; sequences.tokens() * heads],
            dq: vec![0.0; self.q.len()],
            dk: vec![0.0; self.k.len()],
            dv: vec![0.0; self.k.len()],
        };
        let wide = |values: &[E]| -> Vec<f64> { values.iter().map(|value| f64::from(value.widen())).collect() };
        let (q, k, v, d_out) = (wide(&self.q), wide(&self.k), wide(&self.v), wide(&self.d_out));
        for (index, lse) in outcome.lse.iter_mut().enumerate() {
            let (sequence, _) = sequences.locate(index / heads);
            let tokens = sequences.get(sequence);
            let (start, len) = (tokens.start, tokens.len());
            let (head, query) = ((index - start * heads) / len, (index - start * heads) % len);
            let at = ((start + query) * heads + head) * head_dim;
            let key_at = |key: usize| ((start + key) * kv_heads + head / (heads / kv_heads)) * head_dim;
            let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
            let row = |values: &'_ [f64], at: usize| -> Vec<f64> { values[at..][..head_dim].to_vec() };
            let seen = self
                .lengths
                .as_ref()
                .map_or(query + 1, |lengths| lengths[sequence] as usize);
            let factor = |key: usize| match &self.dropout {
                None => 1.0,
                Some(masks) => f64::from(masks[sequence].factor(Pattern::index(head, query, key))),
            };
            let scores: Vec<f64> = (0..seen)
                .map(|key| scale * dot(&row(&q, at), &row(&k, key_at(key))))
                .collect();
            let max = scores.iter().fold(f64::NEG_INFINITY, |max, score| max.max(*score));
            let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
            *lse = max + sum.ln();
            let weights: Vec<f64> = scores.iter().map(|score| (score - *lse).exp()).collect();
            for (key, weight) in weights.iter().enumerate() {
                for i in 0..head_dim {
                    outcome.out[at + i] += factor(key) * weight * v[key_at(key) + i];
                }
            }
            let delta = dot(&row(&d_out, at), &outcome.out[at..][..head_dim]);
            for (key, weight) in weights.iter().enumerate() {
                let (factor, key) = (factor(key), key_at(key));
                let d_score = weight * (factor * dot(&row(&d_out, at), &row(&v, key)) - delta) * scale;
                for i in 0..head_dim {
                    outcome.dq[at + i] += d_score * k[key + i];
                    outcome.dk[key + i] += d_score * q[at + i];
                    outcome.dv[key + i] += factor * weight * d_out[at + i];
                }
            }
        }
        outcome
    }

    fn check<P: Number + FromFormat<E>>(&self, tolerance: f64, what: &str) {
        let (got, want) = (self.computed::<P>(), self.wanted());
        let what = format!("{what}, {:?}", self.shape());
        assert_close(&got.out, &want.out, tolerance, &format!("out, {what}"));
        assert_close(&got.lse, &want.lse, tolerance, &format!("lse, {what}"));
        assert_close(&got.dq, &want.dq, tolerance, &format!("dq, {what}"));
        assert_close(&got.dk, &want.dk, tolerance, &format!("dk, {what}"));
        assert_close(&got.dv, &want.dv, tolerance, &format!("dv, {what}"));
    }
}

/// Differences are at most `tolerance` of the largest magnitude, or of 0.1 where all is small.
fn assert_close(got: &[f32], want: &[f64], tolerance: f64, what: &str) {
    let largest = want.iter().fold(0.1f64, |max, value| max.max(value.abs()));
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let difference = (f64::from(*got) - want).abs();
        assert!(
            difference <= tolerance * largest,
            "{what}: {got} against {want} at {at}"
        );
    }
}

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

/// What is no number at a position reaches neither the outputs of earlier positions nor the gradients that do not depend
/// on it.
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
