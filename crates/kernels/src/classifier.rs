//! A classifier's last steps on a few rows: the activation after its dense layer, and cross-entropy over its labels.

use super::Element;

/// The activation after the dense layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// DistilBERT's `max(x, 0)`.
    Relu,
    /// BERT's hyperbolic tangent.
    Tanh,
}

/// The activation, in place.
pub fn activate<E: Element>(activation: Activation, x: &mut [E]) {
    for x in x {
        let value = x.widen();
        *x = E::narrow(match activation {
            Activation::Relu => value.max(0.0),
            Activation::Tanh => value.tanh(),
        });
    }
}

/// The gradient of the activation's input, from its value `y` and in the memory of the value's gradient.
pub fn activate_backward<E: Element>(activation: Activation, y: &[E], dy: &mut [f32]) {
    for (dy, y) in dy.iter_mut().zip(y) {
        let y = y.widen();
        *dy *= match activation {
            Activation::Relu => f32::from(u8::from(y > 0.0)),
            Activation::Tanh => 1.0 - y * y,
        };
    }
}

/// The sum of `logsumexp(row) - row[label]` over the rows, and `scale · (softmax(row) - one_hot(label))` in the place
/// of the logits.
pub fn cross_entropy(logits: &mut [f32], labels: &[u32], scale: f32) -> f64 {
    let mut loss = 0.0;
    for (row, &label) in logits.chunks_exact_mut(logits_of(labels, logits.len())).zip(labels) {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = row.iter().map(|logit| (logit - max).exp()).sum();
        let lse = total.ln() + max;
        loss += f64::from(lse - row[label as usize]);
        for logit in &mut *row {
            *logit = (*logit - lse).exp() * scale;
        }
        row[label as usize] -= scale;
    }
    loss
}

/// The number of rows whose highest logit, the first of equal ones, is at their label.
pub fn correct(logits: &[f32], labels: &[u32]) -> usize {
    let rows = logits.chunks_exact(logits_of(labels, logits.len())).zip(labels);
    let is_correct = |(row, label): &(&[f32], &u32)| {
        let highest = (0..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best });
        highest == **label as usize
    };
    rows.filter(is_correct).count()
}

/// Logits of a row; any number if there are no rows.
fn logits_of(labels: &[u32], logits: usize) -> usize {
    (logits / labels.len().max(1)).max(1)
}
