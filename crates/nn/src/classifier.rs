//! The last segment of an encoder that classifies: a dense layer over each sample's first token, dropout, the
//! classifier, and cross-entropy over the labels.

use candle_core::{DType, Result, Tensor as Candle};
use kernels::classifier;
use memory::Buffer;
use trace::Phase;

use super::{
    Pass, convert,
    dropout::Dropout,
    embedding::rows,
    linear::Projection,
    param::Param,
    tensor::{Tensor, for_format},
};

pub use kernels::classifier::Activation;

/// A sequence classifier's head.
#[derive(Debug)]
pub struct Classifier {
    /// BERT's pooler, DistilBERT's pre_classifier: `[hidden, hidden]`.
    pub dense: Projection<1>,
    /// Follows the dense layer.
    pub activation: Activation,
    /// Precedes the classifier.
    pub dropout: Dropout,
    /// `[labels, hidden]`.
    pub classifier: Projection<1>,
    /// The format of the inputs of products, if it is not that of hidden states.
    pub products: Option<DType>,
}

/// Results of a forward pass for a micro-batch, `[batch, …]`; kept until the loss is known.
struct Computed {
    first: Tensor,
    activated: Tensor,
    /// `None` if nothing is dropped.
    dropped: Option<Tensor>,
    /// Float32.
    logits: Tensor,
}

impl Classifier {
    /// The sum of the losses over the samples, and the gradient of `scale · sum` in `x [tokens, hidden]`, float32; adds
    /// the gradients of what is trained. `on_checkpoint` is called when all is kept that the backward pass needs.
    pub fn forward_backward(
        &mut self,
        x: &Tensor,
        labels: &Buffer<u32>,
        scale: f64,
        pass: &Pass,
        on_checkpoint: &mut dyn FnMut(),
    ) -> Result<(f64, Tensor)> {
        let Computed {
            first,
            activated,
            dropped,
            logits,
        } = self.forward(x, pass)?;
        on_checkpoint();
        memory::set_phase(Phase::Backward);
        let dtype = first.dtype();
        let (loss, d_logits) = cross_entropy(logits, labels, scale)?;
        let d_logits = convert::into_narrow(d_logits, dtype)?;
        let input = dropped.as_ref().unwrap_or(&activated);
        let d_dropped = self.classifier.backward(input, [&d_logits], pass)?;
        drop((dropped, d_logits));
        let d_activated = self
            .dropout
            .backward(&d_dropped, DType::F32, pass)?
            .copy()
            .unwrap_or(d_dropped);
        let d_dense = convert::into_narrow(activation_backward(self.activation, &activated, d_activated)?, dtype)?;
        drop(activated);
        let d_first = self.dense.backward(&first, [&d_dense], pass)?;
        drop((d_dense, first));
        Ok((loss, to_first_tokens(&d_first, pass)?))
    }

    /// The sum of the losses over the samples, and the number of those with their highest logit at their label.
    pub fn evaluate(&self, x: &Tensor, labels: &Buffer<u32>, pass: &Pass) -> Result<(f64, usize)> {
        let logits = self.logits(x, pass)?;
        let values = logits.to_vec_f32()?;
        let correct = classifier::correct(&values, labels.values());
        Ok((cross_entropy(logits, labels, 0.0)?.0, correct))
    }

    /// `[batch, labels]`, float32.
    pub fn logits(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        Ok(self.forward(x, pass)?.logits)
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.dense.trainable(params);
        self.classifier.trainable(params);
    }

    fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Computed> {
        let indices = Buffer::from_fn(pass.sequences.count(), |sample| pass.sequences.get(sample).start as u32);
        let first = rows(x, &indices, self.products.unwrap_or(x.dtype()))?.kept();
        let [dense] = self.dense.forward(&first, pass)?;
        let activated = activation_forward(self.activation, dense)?.kept();
        let dropped = if self.dropout.drops(pass) {
            Some(self.dropout.forward_of(&activated, pass)?.kept())
        } else {
            None
        };
        let [logits] = self.classifier.forward(dropped.as_ref().unwrap_or(&activated), pass)?;
        let logits = convert::widen(&logits)?.copy().unwrap_or(logits);
        Ok(Computed {
            first,
            activated,
            dropped,
            logits,
        })
    }
}

/// The activation, in place on the CPU.
fn activation_forward(activation: Activation, mut x: Tensor) -> Result<Tensor> {
    if !x.has_kernels() {
        let y = match activation {
            Activation::Relu => x.to_candle()?.relu()?,
            Activation::Tanh => x.to_candle_f32()?.tanh()?.to_dtype(x.dtype())?,
        };
        return Tensor::from_candle(y);
    }
    for_format!(x.dtype(), E => {
        classifier::activate(activation, x.values_mut::<E>()?);
        Ok(())
    })?;
    Ok(x)
}

/// The gradient of the activation's input from that of its value `y`, float32, on the CPU in its memory.
fn activation_backward(activation: Activation, y: &Tensor, mut dy: Tensor) -> Result<Tensor> {
    if !dy.has_kernels() {
        let y = y.to_candle_f32()?;
        let slope = match activation {
            Activation::Relu => y.gt(0f32)?.to_dtype(DType::F32)?,
            Activation::Tanh => y.sqr()?.affine(-1.0, 1.0)?,
        };
        return Tensor::from_candle((dy.to_candle()? * slope)?);
    }
    for_format!(y.dtype(), E => {
        classifier::activate_backward(activation, y.values::<E>()?, dy.values_mut()?);
        Ok(())
    })?;
    Ok(dy)
}

/// `[batch, hidden]` in the rows of the samples' first tokens, and zeros in the others.
fn to_first_tokens(d_first: &Tensor, pass: &Pass) -> Result<Tensor> {
    let (batch, len, hidden) = (pass.sequences.count(), pass.sequences.longest(), d_first.cols());
    let rows = batch * len;
    if !d_first.has_kernels() {
        let dx = d_first.to_candle()?.reshape((batch, 1, hidden))?;
        let dx = dx.pad_with_zeros(1, 0, len - 1)?.contiguous()?;
        return Tensor::from_candle(dx.reshape((rows, hidden))?);
    }
    let mut dx = Tensor::zeros((rows, hidden), DType::F32, d_first.device())?;
    let samples = dx.values_mut::<f32>()?.chunks_exact_mut(len * hidden);
    for (sample, d_first) in samples.zip(d_first.values::<f32>()?.chunks_exact(hidden)) {
        sample[..hidden].copy_from_slice(d_first);
    }
    Ok(dx)
}

/// The sum of `logsumexp(row) - row[label]`, and `scale · (softmax(logits) - one_hot(label))`, on the CPU in the memory
/// of the logits.
fn cross_entropy(mut logits: Tensor, labels: &Buffer<u32>, scale: f64) -> Result<(f64, Tensor)> {
    if !logits.has_kernels() {
        let labels = Candle::from_slice(labels.values(), labels.len(), logits.device())?;
        let (loss, d_logits) = cross_entropy_plain(&logits.to_candle()?, &labels, scale)?;
        return Ok((loss, Tensor::from_candle(d_logits)?));
    }
    let loss = classifier::cross_entropy(logits.values_mut()?, labels.values(), scale as f32);
    Ok((loss, logits))
}

fn cross_entropy_plain(logits: &Candle, labels: &Candle, scale: f64) -> Result<(f64, Candle)> {
    use candle_core::D;
    let max = logits.max_keepdim(D::Minus1)?;
    let lse = (logits.broadcast_sub(&max)?.exp()?.sum_keepdim(D::Minus1)?.log()? + max)?;
    let chosen = logits.gather(&labels.unsqueeze(1)?, 1)?;
    let losses = (&lse - chosen)?.flatten_all()?.to_dtype(DType::F64)?;
    let probabilities = (logits.broadcast_sub(&lse)?.exp()? * scale)?;
    let minus = (Candle::ones((labels.dim(0)?, 1), DType::F32, labels.device())? * -scale)?;
    let d_logits = probabilities.scatter_add(&labels.unsqueeze(1)?, &minus, 1)?;
    Ok((losses.sum_all()?.to_scalar::<f64>()?, d_logits))
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::testing::{
        assert_close, assert_gradients, autograd, biased, dropout_pass, elements, moved, pass, take_gradients, tensor,
        uniform, uniform_tensor, values_of, with_plain_ops,
    };

    fn classifier(activation: Activation, dropout: f64) -> Classifier {
        Classifier {
            dense: Projection::of(biased("dense", 6, 6, 0, true)),
            activation,
            dropout: Dropout::new(0, "classifier", dropout),
            classifier: Projection::of(biased("classifier", 3, 6, 0, true)),
            products: None,
        }
    }

    fn labels() -> Buffer<u32> {
        vec![2, 0].into()
    }

    #[test]
    fn agrees_with_autograd() {
        for activation in [Activation::Relu, Activation::Tanh] {
            let mut head = classifier(activation, 0.0);
            let (x, pass) = (uniform("x", &[10, 6]), pass(2, 5));
            let mut inputs = vec![x.clone()];
            inputs.extend(values_of(&mut head));
            let labels = labels();
            let chosen = Candle::new(&[[2u32], [0]], &Device::Cpu).unwrap();
            let oracle = |inputs: &[Candle]| {
                let rows = Candle::new(&[0u32, 5], &Device::Cpu).unwrap();
                let first = inputs[0].index_select(&rows, 0).unwrap();
                let product =
                    |x: &Candle, w: &Candle, b: &Candle| x.matmul(&w.t().unwrap()).unwrap().broadcast_add(b).unwrap();
                let dense = product(&first, &inputs[1], &inputs[2]);
                let activated = match activation {
                    Activation::Relu => dense.relu(),
                    Activation::Tanh => dense.tanh(),
                }
                .unwrap();
                let logits = product(&activated, &inputs[3], &inputs[4]);
                let sums = logits.exp().unwrap().sum_keepdim(1).unwrap().log().unwrap();
                let chosen = logits.gather(&chosen, 1).unwrap();
                (sums - chosen).unwrap().sum_all().unwrap()
            };
            let want = oracle(&inputs).to_scalar::<f32>().unwrap();
            let scale = Candle::new(0.2f32, &Device::Cpu).unwrap();
            let inputs: Vec<&Candle> = inputs.iter().collect();
            let gradients = autograd(&inputs, &scale, oracle);
            let mut check = || {
                let x = tensor(&x);
                let (loss, dx) = head.forward_backward(&x, &labels, 0.2, &pass, &mut || ()).unwrap();
                assert!((loss as f32 - want).abs() < 1e-5, "{loss} against {want}");
                assert_close(&dx, &gradients[0], 1e-5, "dx");
                assert_gradients(&mut head, &gradients[1..], 1e-5);
                let (evaluated, _) = head.evaluate(&x, &labels, &pass).unwrap();
                assert!((evaluated - loss).abs() < 1e-6);
            };
            check();
            with_plain_ops(check);
        }
    }

    #[test]
    fn correct_samples_are_counted() {
        let head = classifier(Activation::Tanh, 0.0);
        let (x, pass) = (uniform_tensor("x", &[10, 6]), pass(2, 5));
        let logits = elements(&head.logits(&x, &pass).unwrap());
        let highest = |row: &[f32]| (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as u32;
        let best = [highest(&logits[..3]), highest(&logits[3..])];
        let correct = |labels: [u32; 2]| head.evaluate(&x, &labels.to_vec().into(), &pass).unwrap().1;
        assert_eq!(correct(best), 2);
        assert_eq!(correct([best[0], (best[1] + 1) % 3]), 1);
    }

    /// With a mask held fixed, the loss is a function like any other.
    #[test]
    fn dropped_elements_have_no_gradient() {
        let mut head = classifier(Activation::Tanh, 0.5);
        let pass = dropout_pass(2, 5, 0);
        let x = uniform("x", &[10, 6]);
        let mut run = |x: &Candle| {
            let outcome = head.forward_backward(&tensor(x), &labels(), 1.0, &pass, &mut || ());
            outcome.unwrap()
        };
        let (_, dx) = run(&x);
        const STEP: f32 = 1e-2;
        for index in 0..6 {
            let mut loss = |by: f32| run(&moved(&x, index, by)).0;
            let want = (loss(STEP) - loss(-STEP)) / f64::from(2.0 * STEP);
            let got = f64::from(elements(&dx)[index]);
            assert!((got - want).abs() < 1e-3 * want.abs().max(1.0), "{got} against {want}");
        }
    }

    #[test]
    fn kernels_and_plain_ops_drop_the_same() {
        let run = || {
            let mut head = classifier(Activation::Relu, 0.5);
            let x = uniform_tensor("x", &[10, 6]);
            let pass = dropout_pass(2, 5, 0);
            let (loss, dx) = head.forward_backward(&x, &labels(), 1.0, &pass, &mut || ()).unwrap();
            (loss, dx, take_gradients(&mut head))
        };
        let (kernels, plain) = (run(), with_plain_ops(run));
        assert!((kernels.0 - plain.0).abs() < 1e-5);
        assert_close(&kernels.1, &plain.1, 1e-5, "dx");
        for (kernel, plain) in kernels.2.iter().zip(&plain.2) {
            assert_close(kernel, plain, 1e-5, "gradient");
        }
    }
}
