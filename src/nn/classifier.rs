//! The last segment of an encoder that classifies: a dense layer over each sample's first token, dropout, the classifier,
//! and cross-entropy over the labels.

use candle_core::{D, DType, Result, Tensor};

use super::{
    Pass,
    affine::{self, Affine},
    dropout::Dropout,
    host,
    param::Param,
};
use crate::memory::{self, Category, Phase};

/// A sequence classifier's head.
#[derive(Debug)]
pub struct Classifier {
    /// BERT's pooler, DistilBERT's pre_classifier: `[hidden, hidden]`.
    pub dense: Affine,
    /// Follows the dense layer.
    pub activation: Activation,
    /// Precedes the classifier.
    pub dropout: Dropout,
    /// `[labels, hidden]`.
    pub classifier: Affine,
}

/// The activation after the dense layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// DistilBERT's `max(x, 0)`.
    Relu,
    /// BERT's hyperbolic tangent.
    Tanh,
}

/// What a forward pass computes of a micro-batch, `[batch, …]`; kept until the loss is known.
struct Computed {
    first: Tensor,
    activated: Tensor,
    dropped: Tensor,
    /// Float32.
    logits: Tensor,
}

impl Classifier {
    /// The sum of the losses over the samples, and the gradient of `scale · sum` in `x [tokens, hidden]`, float32; adds the
    /// gradients of what is trained. `between` is called where all is kept that the backward pass needs.
    pub fn forward_backward(
        &mut self,
        x: &Tensor,
        labels: &Tensor,
        scale: f64,
        pass: &Pass,
        between: &mut dyn FnMut(),
    ) -> Result<(f64, Tensor)> {
        let Computed {
            first,
            activated,
            dropped,
            logits,
        } = self.forward(x, pass)?;
        let (loss, log_sums) = losses(&logits, labels)?;
        between();
        memory::set_phase(Phase::Backward);
        let dtype = x.dtype();
        let d_logits = host::narrow(&d_logits(&logits, &log_sums, labels, scale)?, dtype)?;
        drop((logits, log_sums));
        let (d_dropped, ranks) = affine::input_gradient([&self.classifier], [&d_logits], pass, DType::F32)?;
        affine::accumulate([&mut self.classifier], &dropped, [&d_logits], ranks, pass)?;
        drop((dropped, d_logits));
        let d_activated = self.dropout.backward(&d_dropped, DType::F32, pass)?;
        let d_dense = host::narrow(&(d_activated * self.activation.slope(&activated)?)?, dtype)?;
        let (d_first, ranks) = affine::input_gradient([&self.dense], [&d_dense], pass, DType::F32)?;
        affine::accumulate([&mut self.dense], &first, [&d_dense], ranks, pass)?;
        let hidden = x.dim(1)?;
        let d_first = d_first.reshape((pass.batch, 1, hidden))?;
        let dx = d_first.pad_with_zeros(1, 0, pass.len - 1)?.contiguous()?;
        Ok((loss, dx.reshape((pass.batch * pass.len, hidden))?))
    }

    /// The sum of the losses over the samples, and how many of them have their highest logit at their label.
    pub fn evaluate(&self, x: &Tensor, labels: &Tensor, pass: &Pass) -> Result<(f64, usize)> {
        let logits = self.forward(x, pass)?.logits;
        let found = logits.argmax(D::Minus1)?.eq(labels)?.to_vec1::<u8>()?;
        let correct = found.iter().filter(|&&found| found != 0).count();
        Ok((losses(&logits, labels)?.0, correct))
    }

    /// `[batch, labels]`, float32.
    pub fn logits(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        Ok(self.forward(x, pass)?.logits)
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable(&mut self) -> Vec<&mut Param> {
        let mut params = self.dense.trainable();
        params.extend(self.classifier.trainable());
        params
    }

    fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Computed> {
        let first = first_tokens(x, pass)?;
        let [dense] = affine::forward([&self.dense], &first, pass)?;
        let activated = self.activation.of(&dense)?;
        let dropped = match self.dropout.masks(pass) {
            None => activated.clone(),
            Some(_) => self.dropout.forward(activated.copy()?, pass)?,
        };
        let [logits] = affine::forward([&self.classifier], &dropped, pass)?;
        for kept in [&first, &activated, &dropped] {
            memory::label(kept, Category::Activation);
        }
        Ok(Computed {
            first,
            activated,
            dropped,
            logits: host::widen(&logits)?,
        })
    }
}

impl Activation {
    fn of(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Relu => x.relu(),
            Self::Tanh => x.to_dtype(DType::F32)?.tanh()?.to_dtype(x.dtype()),
        }
    }

    /// The derivative, float32, from the activation's own value.
    fn slope(self, y: &Tensor) -> Result<Tensor> {
        let y = y.to_dtype(DType::F32)?;
        match self {
            Self::Relu => y.gt(0f32)?.to_dtype(DType::F32),
            Self::Tanh => y.sqr()?.affine(-1.0, 1.0),
        }
    }
}

/// `[tokens, hidden]` to the first token of each sample.
fn first_tokens(x: &Tensor, pass: &Pass) -> Result<Tensor> {
    let x = x.reshape((pass.batch, pass.len, x.dim(1)?))?;
    // Memory of their own: what is kept of them is not kept of all, also where a view of them has no gaps.
    x.narrow(1, 0, 1)?.squeeze(1)?.force_contiguous()
}

/// The sum of `logsumexp(row) - row[label]`, and the rows' log-sum-exps `[rows, 1]`.
fn losses(logits: &Tensor, labels: &Tensor) -> Result<(f64, Tensor)> {
    let max = logits.max_keepdim(D::Minus1)?;
    let log_sums = (logits.broadcast_sub(&max)?.exp()?.sum_keepdim(D::Minus1)?.log()? + max)?;
    let chosen = logits.gather(&labels.unsqueeze(1)?, 1)?;
    let losses = (&log_sums - chosen)?.flatten_all()?.to_dtype(DType::F64)?;
    Ok((losses.sum_all()?.to_scalar::<f64>()?, log_sums))
}

/// `scale · (softmax(logits) - one_hot(label))`.
fn d_logits(logits: &Tensor, log_sums: &Tensor, labels: &Tensor, scale: f64) -> Result<Tensor> {
    let probabilities = (logits.broadcast_sub(log_sums)?.exp()? * scale)?;
    let minus = (Tensor::ones((labels.dim(0)?, 1), DType::F32, labels.device())? * -scale)?;
    probabilities.scatter_add(&labels.unsqueeze(1)?, &minus, 1)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::nn::{
        DropoutPass,
        testing::{affine, assert_close, autograd, elements, pass, uniform, with_plain_ops},
    };

    fn classifier(activation: Activation, dropout: f64) -> Classifier {
        Classifier {
            dense: affine("dense", 6, 6, 0, true),
            activation,
            dropout: Dropout::new(0, "classifier", dropout),
            classifier: affine("classifier", 3, 6, 0, true),
        }
    }

    fn labels() -> Tensor {
        Tensor::new(&[2u32, 0], &Device::Cpu).unwrap()
    }

    #[test]
    fn agrees_with_autograd() {
        for activation in [Activation::Relu, Activation::Tanh] {
            let mut head = classifier(activation, 0.0);
            let (x, pass) = (uniform("x", &[10, 6]), pass(2, 5));
            let values: Vec<Tensor> = head.trainable().iter().map(|param| param.value.clone()).collect();
            let mut inputs = vec![&x];
            inputs.extend(&values);
            let oracle = |inputs: &[Tensor]| {
                let first = first_tokens(&inputs[0], &pass).unwrap();
                let product =
                    |x: &Tensor, w: &Tensor, b: &Tensor| x.matmul(&w.t().unwrap()).unwrap().broadcast_add(b).unwrap();
                let dense = product(&first, &inputs[1], &inputs[2]);
                let activated = match activation {
                    Activation::Relu => dense.relu(),
                    Activation::Tanh => dense.tanh(),
                }
                .unwrap();
                let logits = product(&activated, &inputs[3], &inputs[4]);
                let sums = logits.exp().unwrap().sum_keepdim(1).unwrap().log().unwrap();
                let chosen = logits.gather(&labels().unsqueeze(1).unwrap(), 1).unwrap();
                (sums - chosen).unwrap().sum_all().unwrap()
            };
            let owned: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
            let want = oracle(&owned).to_scalar::<f32>().unwrap();
            let scale = Tensor::new(0.2f32, &Device::Cpu).unwrap();
            let gradients = autograd(&inputs, &scale, |inputs| oracle(inputs));
            let mut check = || {
                let (loss, dx) = head.forward_backward(&x, &labels(), 0.2, &pass, &mut || ()).unwrap();
                assert!((loss as f32 - want).abs() < 1e-5, "{loss} against {want}");
                assert_close(&dx, &gradients[0], 1e-5, "dx");
                for (param, want) in head.trainable().into_iter().zip(&gradients[1..]) {
                    assert_close(param.gradient().unwrap(), want, 1e-5, &param.name);
                    param.release_gradient();
                }
                let (evaluated, _) = head.evaluate(&x, &labels(), &pass).unwrap();
                assert!((evaluated - loss).abs() < 1e-6);
            };
            check();
            with_plain_ops(check);
        }
    }

    #[test]
    fn correct_samples_are_counted() {
        let head = classifier(Activation::Tanh, 0.0);
        let (x, pass) = (uniform("x", &[10, 6]), pass(2, 5));
        let logits = elements(&head.logits(&x, &pass).unwrap());
        let highest = |row: &[f32]| (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as u32;
        let best = [highest(&logits[..3]), highest(&logits[3..])];
        let correct = |labels: [u32; 2]| {
            let labels = Tensor::new(&labels, &Device::Cpu).unwrap();
            head.evaluate(&x, &labels, &pass).unwrap().1
        };
        assert_eq!(correct(best), 2);
        assert_eq!(correct([best[0], (best[1] + 1) % 3]), 1);
    }

    /// With a mask held fixed, the loss is a function like any other.
    #[test]
    fn dropped_elements_have_no_gradient() {
        let mut head = classifier(Activation::Tanh, 0.5);
        let pass = Pass {
            dropout: Some(DropoutPass {
                step: 0,
                samples: vec![0, 1],
            }),
            ..pass(2, 5)
        };
        let x = uniform("x", &[10, 6]);
        let (_, dx) = head.forward_backward(&x, &labels(), 1.0, &pass, &mut || ()).unwrap();
        const STEP: f32 = 1e-2;
        for index in 0..6 {
            let mut loss = |by: f32| {
                let mut values = elements(&x);
                values[index] += by;
                let x = Tensor::from_vec(values, (10, 6), &Device::Cpu).unwrap();
                head.forward_backward(&x, &labels(), 1.0, &pass, &mut || ()).unwrap().0
            };
            let want = (loss(STEP) - loss(-STEP)) / f64::from(2.0 * STEP);
            let got = f64::from(elements(&dx)[index]);
            assert!((got - want).abs() < 1e-3 * want.abs().max(1.0), "{got} against {want}");
        }
    }
}
