//! Softmax over the rows of attention's scores, where these are held.

use super::{
    Element,
    attention::Pattern,
    dropout::Mask,
    rows::{for_rows, for_rows_by},
};

/// The matrix of scores or weights of a sequence: a row for each head and query, a column for each key.
#[derive(Debug, Clone, Copy)]
pub struct ScoreMatrix<'a> {
    /// The sequence among those of the micro-batch.
    pub sequence: usize,
    /// Its positions, padding included.
    pub len: usize,
    /// The keys that are seen, and the weights that are dropped.
    pub pattern: Pattern<'a>,
}

impl ScoreMatrix<'_> {
    /// Head and query of a row.
    #[inline(always)]
    fn place(&self, row: usize) -> (usize, usize) {
        (row / self.len, row % self.len)
    }

    /// The factor of a weight: 0 or 1 / (1 - p) with dropout, else 1.
    #[inline(always)]
    fn factor(&self, (head, query): (usize, usize), key: usize) -> f32 {
        let factor = |masks: &[Mask]| masks[self.sequence].factor(Pattern::index(head, query, key));
        self.pattern.dropout.map_or(1.0, factor)
    }
}

/// The softmax of each row over the keys that its query sees; 0 for the others.
pub fn forward<E: Element, O: Element>(scores: &[E], matrix: &ScoreMatrix, out: &mut [O]) {
    assert_eq!(scores.len(), out.len());
    let len = matrix.len;
    for_rows_by(
        out,
        len,
        #[inline(always)]
        |arithmetic, start, part| {
            let rows = scores[start..].chunks_exact(len).zip(part.chunks_exact_mut(len));
            for (row, (scores, out)) in (start / len..).zip(rows) {
                let (_, query) = matrix.place(row);
                let seen = matrix.pattern.seen(matrix.sequence, query);
                let scores = &scores[seen.clone()];
                let max = scores
                    .iter()
                    .fold(f32::NEG_INFINITY, |max, score| max.max(score.widen()));
                let exponential = |score: &E| arithmetic.exp(score.widen() - max);
                let sum: f32 = scores.iter().map(exponential).sum();
                out.fill(O::narrow(0.0));
                for (out, score) in out[seen].iter_mut().zip(scores) {
                    *out = O::narrow(exponential(score) / sum);
                }
            }
        },
    );
}

/// The weights with their dropped elements, in another format.
pub fn dropped<E: Element, O: Element>(weights: &[E], matrix: &ScoreMatrix, out: &mut [O]) {
    assert_eq!(weights.len(), out.len());
    let len = matrix.len;
    for_rows(
        out,
        len,
        #[inline(always)]
        |start, part| {
            let rows = weights[start..].chunks_exact(len).zip(part.chunks_exact_mut(len));
            for (row, (weights, out)) in (start / len..).zip(rows) {
                let place = matrix.place(row);
                for (key, (out, weight)) in out.iter_mut().zip(weights).enumerate() {
                    *out = O::narrow(weight.widen() * matrix.factor(place, key));
                }
            }
        },
    );
}

/// From the gradients of the weights after dropout to those of the scores, in their memory: with the softmax `p` and
/// the gradient `dp` of a row, `p ∘ (dp - p · dp)`.
pub fn backward<E: Element, O: Element>(softmax: &[O], matrix: &ScoreMatrix, gradients: &mut [E]) {
    assert_eq!(softmax.len(), gradients.len());
    let len = matrix.len;
    for_rows(
        gradients,
        len,
        #[inline(always)]
        |start, part| {
            let rows = softmax[start..].chunks_exact(len).zip(part.chunks_exact_mut(len));
            for (row, (softmax, gradients)) in (start / len..).zip(rows) {
                let place = matrix.place(row);
                let seen = matrix.pattern.seen(matrix.sequence, place.1);
                let gradient = |key: usize, gradient: E| gradient.widen() * matrix.factor(place, key);
                let products = seen
                    .clone()
                    .map(|key| softmax[key].widen() * gradient(key, gradients[key]));
                let delta: f32 = products.sum();
                for (key, (value, softmax)) in gradients.iter_mut().zip(softmax).enumerate() {
                    // A hidden key's weight is 0, and its gradient may be anything.
                    *value = E::narrow(if seen.contains(&key) {
                        softmax.widen() * (gradient(key, *value) - delta)
                    } else {
                        0.0
                    });
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attention::Keys, instruction_set::forced::at_each_level};

    /// The second sequence, of five positions with two heads; three of them are not padding.
    fn matrix(pattern: Pattern) -> ScoreMatrix {
        ScoreMatrix {
            sequence: 1,
            len: 5,
            pattern,
        }
    }

    const LENGTHS: [u32; 2] = [7, 3];
    const SIZE: usize = 2 * 5 * 5;

    fn scores() -> Vec<f32> {
        (0..SIZE).map(|at| ((at * 37 % 23) as f32 - 11.0) / 4.0).collect()
    }

    #[test]
    fn hidden_keys_have_no_weight_and_the_others_sum_to_one() {
        at_each_level(|level| {
            for keys in [Keys::Causal, Keys::First(&LENGTHS)] {
                let pattern = Pattern { keys, dropout: None };
                let mut out = vec![f32::NAN; SIZE];
                forward(&scores(), &matrix(pattern), &mut out);
                for (row, weights) in out.chunks(5).enumerate() {
                    let seen = pattern.seen(1, row % 5);
                    let sum: f32 = weights.iter().sum();
                    assert!((sum - 1.0).abs() < 1e-6, "{level:?}: {weights:?}");
                    let mut hidden = weights.iter().enumerate().filter(|(key, _)| !seen.contains(key));
                    assert!(hidden.all(|(_, weight)| *weight == 0.0), "{level:?}: {weights:?}");
                }
            }
        });
    }

    #[test]
    fn gradients_agree_with_differences() {
        let masks = [Mask::new(3, 0.4), Mask::new(4, 0.4)];
        for (keys, dropout) in [(Keys::Causal, None), (Keys::First(&LENGTHS), Some(&masks[..]))] {
            let matrix = matrix(Pattern { keys, dropout });
            let d_weights: Vec<f32> = (0..SIZE).map(|at| ((at * 53 % 31) as f32 - 15.0) / 9.0).collect();
            let weights = |scores: &[f32]| {
                let (mut softmax, mut out) = (vec![0f32; SIZE], vec![0f32; SIZE]);
                forward(scores, &matrix, &mut softmax);
                dropped(&softmax, &matrix, &mut out);
                (softmax, out)
            };
            let objective = |scores: &[f32]| -> f64 {
                let products = weights(scores).1.into_iter().zip(&d_weights);
                products.map(|(weight, d)| f64::from(weight) * f64::from(*d)).sum()
            };
            let mut gradients = d_weights.clone();
            backward(&weights(&scores()).0, &matrix, &mut gradients);
            for (at, gradient) in gradients.iter().enumerate() {
                let moved = |by: f32| {
                    let mut scores = scores();
                    scores[at] += by;
                    objective(&scores)
                };
                let want = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                assert!((f64::from(*gradient) - want).abs() < 1e-4, "{at}: {gradient}, {want}");
            }
        }
    }
}
