//! A feed-forward layer: projections to the intermediate size, an activation, and the projection back.

use candle_core::{DType, Result};
use memory::tiers::Slot;

use super::{Pass, activation::Activation, dropout::Dropout, linear::Projection, param::Param, tensor::Tensor};

/// A feed-forward layer with an activation of `N` inputs.
#[derive(Debug)]
pub struct FeedForward<const N: usize> {
    /// The modules that a timeline knows the two halves by.
    pub modules: [&'static str; 2],
    /// Names of the layers that give the activation's inputs, within the first module; empty if it is the layer.
    pub names: [&'static str; N],
    /// Projections to the activation's inputs, `[intermediate, hidden]` each.
    pub inner: Projection<N>,
    /// Projection of the output, `[hidden, intermediate]`.
    pub output: Projection<1>,
    /// Dropout of the output, before the residual is added.
    pub output_dropout: Dropout,
    /// The activation.
    pub activation: &'static dyn Activation<N>,
}

/// The activation's inputs, `[n, intermediate]` in the hidden dtype.
#[derive(Debug)]
pub struct Saved<const N: usize>([Tensor; N]);

impl<const N: usize> FeedForward<N> {
    /// Everything but activation and output, which [`Self::output`] computes.
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<Saved<N>> {
        let _module = memory::module(self.modules[0]);
        let inner = self.inner.forward(x, pass)?;
        for (name, inner) in self.names.iter().zip(&inner) {
            let _part = (!name.is_empty()).then(|| memory::part(name));
            inner.label(trace::Category::Activation);
        }
        Ok(Saved(inner))
    }

    /// The output added to `residual`, in its dtype; without one the output alone, in the dtype of products.
    pub fn output(&self, saved: &Saved<N>, residual: Option<&Tensor>, pass: &Pass) -> Result<Tensor> {
        let activated = within(self.modules[0], || self.activation.forward(&saved.0))?;
        within(self.modules[1], || {
            self.output
                .forward_dropped(&activated, residual, &self.output_dropout, pass)
        })
    }

    /// The gradient of `x`, float32, from that of the output, without that of the residual; the output's is float32 or
    /// in the dtype of `x`. Takes what the forward pass saved.
    pub fn backward(&mut self, x: &Tensor, saved: Saved<N>, dy: &Tensor, pass: &Pass) -> Result<Tensor> {
        let (d_inner, column_dots) = within(self.modules[1], || {
            let dy = self.output_dropout.backward(dy, x.dtype(), pass)?;
            let (d_activated, carried) = self.output.input_gradient([&dy], pass, dy.dtype())?;
            let column_dots = match self.inner.takes_column_dots() {
                true => self.activation.column_dots(&saved.0, &d_activated)?,
                false => None,
            };
            let (d_inner, activated) = self.activation.backward(saved.0, d_activated)?;
            self.output.accumulate(&activated, [&dy], carried, pass)?;
            Ok::<_, candle_core::Error>((d_inner, column_dots))
        })?;
        within(self.modules[0], || {
            let dys = d_inner.each_ref();
            let (dx, carried) = self.inner.input_gradient(dys, pass, DType::F32)?;
            self.inner
                .accumulate(x, dys, carried.with_column_dots(column_dots), pass)?;
            Ok(dx)
        })
    }

    /// The parameters that are trained, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        self.inner.trainable(params);
        self.output.trainable(params);
    }

    /// The places of the weights that are not trained, in a fixed order.
    pub fn frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        self.inner.frozen(slots);
        self.output.frozen(slots);
    }
}

/// Computes for a module, which a timeline then knows by its name.
pub(super) fn within<T>(module: &str, compute: impl FnOnce() -> T) -> T {
    let _module = memory::module(module);
    compute()
}
