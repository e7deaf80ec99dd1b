//! Cross-entropy over logits that are held: their log-softmax, and its gradient.

use super::{Element, rows::for_rows_by};

/// The label of a row that does not count.
pub const IGNORED: u32 = u32::MAX;

/// `x - log Σ exp(x)` of each row of `cols` logits.
pub fn forward<E: Element>(logits: &[E], cols: usize, out: &mut [f32]) {
    assert_eq!(logits.len(), out.len());
    for_rows_by(
        out,
        cols,
        #[inline(always)]
        |arithmetic, start, part| {
            let rows = logits[start..].chunks_exact(cols).zip(part.chunks_exact_mut(cols));
            for (logits, out) in rows {
                let max = logits
                    .iter()
                    .fold(f32::NEG_INFINITY, |max, logit| max.max(logit.widen()));
                let sum: f32 = logits.iter().map(|logit| arithmetic.exp(logit.widen() - max)).sum();
                let lse = max + sum.ln();
                for (out, logit) in out.iter_mut().zip(logits) {
                    *out = logit.widen() - lse;
                }
            }
        },
    );
}

/// The sum of the negative log-probabilities of the labels, one label a row.
pub fn loss(log_softmax: &[f32], cols: usize, labels: &[u32]) -> f64 {
    let rows = log_softmax.chunks_exact(cols).zip(labels);
    let counted = rows.filter(|(_, label)| **label != IGNORED);
    counted.map(|(row, &label)| -f64::from(row[label as usize])).sum()
}

/// The gradient of `scale · loss` in the logits: `scale · (softmax - one_hot(label))`, and 0 in rows that do not count.
pub fn backward(log_softmax: &[f32], cols: usize, labels: &[u32], scale: f32, out: &mut [f32]) {
    assert!(log_softmax.len() == out.len() && labels.len() * cols == out.len());
    for_rows_by(
        out,
        cols,
        #[inline(always)]
        |arithmetic, start, part| {
            let rows = log_softmax[start..].chunks_exact(cols).zip(part.chunks_exact_mut(cols));
            for ((log_softmax, out), &label) in rows.zip(&labels[start / cols..]) {
                if label == IGNORED {
                    out.fill(0.0);
                    continue;
                }
                for (out, log) in out.iter_mut().zip(log_softmax) {
                    *out = scale * arithmetic.exp(*log);
                }
                out[label as usize] -= scale;
            }
        },
    );
}
