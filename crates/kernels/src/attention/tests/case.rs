//! Attention problems, by the kernel and in double precision.

use crate::{
    Element, Sequences,
    attention::{Gradients, Keys, Number, Pattern, Saved, Scores, Shape, backward, forward},
    dropout::Mask,
    gemm::operand::FromFormat,
    softcap::SoftCap,
    testing::{narrowed, units},
};

/// An attention problem with its inputs.
pub(super) struct Case<E> {
    pub(super) sequences: Sequences,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    /// Keys of each sequence; causal without.
    pub(super) lengths: Option<Vec<u32>>,
    /// Keys that a causal query sees.
    pub(super) window: Option<usize>,
    pub(super) scores: Scores,
    pub(super) dropout: Option<Vec<Mask>>,
    pub(super) q: Vec<E>,
    pub(super) k: Vec<E>,
    pub(super) v: Vec<E>,
    pub(super) d_out: Vec<E>,
}

/// What a kernel gives, or double precision.
pub(super) struct Outcome<T> {
    pub(super) out: Vec<T>,
    pub(super) lse: Vec<T>,
    pub(super) dq: Vec<T>,
    pub(super) dk: Vec<T>,
    pub(super) dv: Vec<T>,
}

fn values<E: Element>(count: usize, seed: u64) -> Vec<E> {
    narrowed(&units(count, seed))
}

impl<E: Element> Case<E> {
    pub(super) fn new(batch: usize, len: usize, heads: (usize, usize), head_dim: usize) -> Self {
        Self::of(Sequences::even(batch, len), heads, head_dim)
    }

    pub(super) fn of(sequences: Sequences, (heads, kv_heads): (usize, usize), head_dim: usize) -> Self {
        let shape = Shape {
            sequences: &sequences,
            heads,
            kv_heads,
            head_dim,
            scores: Scores::of(head_dim),
        };
        // Scores of some size, so that weights differ.
        let q: Vec<E> = values(shape.queries(), 1);
        Self {
            heads,
            kv_heads,
            head_dim,
            lengths: None,
            window: None,
            scores: Scores::of(head_dim),
            dropout: None,
            q: q.iter().map(|q| E::narrow(q.widen() * 4.0)).collect(),
            k: values(shape.keys(), 2),
            v: values(shape.keys(), 3),
            d_out: values(shape.queries(), 4),
            sequences,
        }
    }

    pub(super) fn shape(&self) -> Shape<'_> {
        Shape {
            sequences: &self.sequences,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            scores: self.scores,
        }
    }

    /// A query sees so many keys at most.
    pub(super) fn windowed(self, window: usize) -> Self {
        Self {
            window: Some(window),
            ..self
        }
    }

    /// Scores have a scale of their own, and a cap that matters.
    pub(super) fn capped(self) -> Self {
        let cap = Some(SoftCap(1.25));
        Self {
            scores: Scores { scale: 0.3, cap },
            ..self
        }
    }

    /// Every query sees the first keys of its sequence: as many as there are, and fewer.
    pub(super) fn bidirectional(self) -> Self {
        let lengths = self.sequences.iter().enumerate();
        let lengths = lengths.map(|(index, tokens)| (tokens.len() - index % 3 * tokens.len() / 3) as u32);
        Self {
            lengths: Some(lengths.collect()),
            ..self
        }
    }

    pub(super) fn dropping(self, probability: f64) -> Self {
        let masks = (0..self.sequences.count()).map(|index| Mask::new(index as u64 * 77 + 5, probability));
        Self {
            dropout: Some(masks.collect()),
            ..self
        }
    }

    pub(super) fn pattern(&self) -> Pattern<'_> {
        Pattern {
            keys: match (&self.lengths, self.window) {
                (Some(lengths), _) => Keys::First(lengths),
                (None, Some(window)) => Keys::Window(window),
                (None, None) => Keys::Causal,
            },
            dropout: self.dropout.as_deref(),
        }
    }

    /// By products in `P`.
    pub(super) fn computed<P: Number + FromFormat<E>>(&self) -> Outcome<f32> {
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

    pub(super) fn wanted(&self) -> Outcome<f64> {
        let Self {
            sequences,
            heads,
            kv_heads,
            head_dim,
            ..
        } = self;
        let (heads, kv_heads, head_dim) = (*heads, *kv_heads, *head_dim);
        let scale = f64::from(self.scores.scale);
        let cap = self.scores.cap.map(|cap| f64::from(cap.0));
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
            let first = self.window.map_or(0, |window| seen.saturating_sub(window));
            let score = |key: usize| {
                let score = scale * dot(&row(&q, at), &row(&k, key_at(key)));
                cap.map_or(score, |cap| cap * (score / cap).tanh())
            };
            let scores: Vec<f64> = (first..seen).map(score).collect();
            let max = scores.iter().fold(f64::NEG_INFINITY, |max, score| max.max(*score));
            let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
            *lse = max + sum.ln();
            let weights: Vec<f64> = scores.iter().map(|score| (score - *lse).exp()).collect();
            for (key, weight) in (first..).zip(&weights) {
                for i in 0..head_dim {
                    outcome.out[at + i] += factor(key) * weight * v[key_at(key) + i];
                }
            }
            let delta = dot(&row(&d_out, at), &outcome.out[at..][..head_dim]);
            for (key, (weight, score)) in (first..).zip(weights.iter().zip(&scores)) {
                let slope = cap.map_or(1.0, |cap| 1.0 - (score / cap).powi(2));
                let (factor, key) = (factor(key), key_at(key));
                let d_score = weight * (factor * dot(&row(&d_out, at), &row(&v, key)) - delta) * slope * scale;
                for i in 0..head_dim {
                    outcome.dq[at + i] += d_score * k[key + i];
                    outcome.dk[key + i] += d_score * q[at + i];
                    outcome.dv[key + i] += factor * weight * d_out[at + i];
                }
            }
        }
        outcome
    }

    pub(super) fn check<P: Number + FromFormat<E>>(&self, tolerance: f64, what: &str) {
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
pub(super) fn assert_close(got: &[f32], want: &[f64], tolerance: f64, what: &str) {
    let largest = want.iter().fold(0.1f64, |max, value| max.max(value.abs()));
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let difference = (f64::from(*got) - want).abs();
        assert!(
            difference <= tolerance * largest,
            "{what}: {got} against {want} at {at}"
        );
    }
}
