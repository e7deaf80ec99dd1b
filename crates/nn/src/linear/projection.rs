//! Linear layers that share an input. Their outputs, side by side, are cut into the tensors that a layer works with:
//! three layers give queries, keys and values, or one fused layer does.

use candle_core::{DType, Result};
use memory::tiers::Slot;

use super::{carried::Carried, cpu, cut::Cut, layer::Linear, plain};
use crate::{
    dropout::{self, Dropout},
    param::Param,
    pass::Pass,
    tensor::Tensor,
    weight::Weight,
};

/// Layers with one input and `N` outputs.
#[derive(Debug)]
pub struct Projection<const N: usize> {
    linears: Vec<Linear>,
    cuts: [Cut; N],
}

impl Projection<1> {
    /// One layer.
    pub fn of(linear: Linear) -> Self {
        let rows = linear.weight.rows();
        Self::new(vec![linear], [rows])
    }

    /// The weight, if it is dense.
    ///
    /// # Errors
    /// If it is quantised.
    pub fn dense_weight(&self) -> Result<&Param> {
        match self.linears.first().map(|linear| &linear.weight) {
            Some(Weight::Dense(weight)) => Ok(weight),
            _ => candle_core::bail!("the weight is not dense"),
        }
    }

    /// The weight, to be changed, if it is dense.
    ///
    /// # Errors
    /// If it is quantised.
    pub fn dense_weight_mut(&mut self) -> Result<&mut Param> {
        match self.linears.first_mut().map(|linear| &mut linear.weight) {
            Some(Weight::Dense(weight)) => Ok(weight),
            _ => candle_core::bail!("the weight is not dense"),
        }
    }

    /// The output added to `residual`, of the output's shape, in the residual's dtype.
    pub fn forward_onto(&self, x: &Tensor, residual: &Tensor, pass: &Pass) -> Result<Tensor> {
        let [y] = self.compute(x, Some(residual), residual.dtype(), pass)?;
        Ok(y)
    }

    /// The output with its dropped elements, added to `residual`, in the residual's dtype. Without a residual nothing
    /// is dropped, and the dtype is that of `x`.
    pub fn forward_dropped(
        &self,
        x: &Tensor,
        residual: Option<&Tensor>,
        dropout: &Dropout,
        pass: &Pass,
    ) -> Result<Tensor> {
        let Some(residual) = residual else {
            let [y] = self.forward(x, pass)?;
            return Ok(y);
        };
        let Some(masks) = dropout.masks(pass) else {
            return self.forward_onto(x, residual, pass);
        };
        let [y] = self.compute(x, None, residual.dtype(), pass)?;
        dropout::add_dropped(y, residual, &masks)
    }
}

impl<const N: usize> Projection<N> {
    /// Layers whose outputs side by side have these widths. An output lies within one layer.
    pub fn new(linears: Vec<Linear>, widths: [usize; N]) -> Self {
        let mut next = Cut::default();
        let cuts = widths.map(|width| {
            if linears
                .get(next.linear)
                .is_some_and(|linear| linear.weight.rows() == next.first)
            {
                next = Cut {
                    linear: next.linear + 1,
                    ..Cut::default()
                };
            }
            let cut = Cut { width, ..next };
            next.first += width;
            cut
        });
        for (at, linear) in linears.iter().enumerate() {
            let widths = cuts.iter().filter(|cut| cut.linear == at).map(|cut| cut.width);
            assert_eq!(
                widths.sum::<usize>(),
                linear.weight.rows(),
                "the outputs of a layer are cut up"
            );
        }
        Self { linears, cuts }
    }

    /// The outputs, `[n, in] → [n, width]` each, in the dtype of `x`. Keeps nothing: the backward pass is given `x`
    /// again.
    pub fn forward(&self, x: &Tensor, pass: &Pass) -> Result<[Tensor; N]> {
        self.compute(x, None, x.dtype(), pass)
    }

    fn compute(&self, x: &Tensor, residual: Option<&Tensor>, dtype: DType, pass: &Pass) -> Result<[Tensor; N]> {
        if x.has_kernels() {
            cpu::forward(&self.linears, &self.cuts, x, residual, dtype, pass)
        } else {
            plain::forward(&self.linears, &self.cuts, x, residual, dtype, pass)
        }
    }

    /// The gradient of the input, `[n, in]` in `dtype`, from those of the outputs.
    pub fn input_gradient(&self, dys: [&Tensor; N], pass: &Pass, dtype: DType) -> Result<(Tensor, Carried<N>)> {
        if dys[0].has_kernels() {
            cpu::input_gradient(&self.linears, &self.cuts, dys, pass, dtype)
        } else {
            plain::input_gradient(&self.linears, &self.cuts, dys, pass, dtype)
        }
    }

    /// The gradient of the input, `[n, in]` in float32, from those of the outputs. Adds the gradients of what is
    /// trained.
    pub fn backward(&mut self, x: &Tensor, dys: [&Tensor; N], pass: &Pass) -> Result<Tensor> {
        let (dx, carried) = self.input_gradient(dys, pass, DType::F32)?;
        self.accumulate(x, dys, carried, pass)?;
        Ok(dx)
    }

    /// Adds the gradients of what is trained, and computes none of the input.
    pub fn accumulate_alone(&mut self, x: &Tensor, dys: [&Tensor; N], pass: &Pass) -> Result<()> {
        let carried = if x.has_kernels() {
            cpu::without_input_gradient(&self.linears, &self.cuts, dys)?
        } else {
            plain::without_input_gradient(&self.linears)?
        };
        self.accumulate(x, dys, carried, pass)
    }

    /// True if [`Carried::with_column_dots`] is of use: the layers with an adapter have factors that can be divided by,
    /// and no bias that would have to be subtracted before.
    pub fn takes_column_dots(&self) -> bool {
        let takes = |linear: &Linear| match &linear.adapter {
            Some(adapter) => linear.bias.is_none() && adapter.can_undo_output_scale(),
            None => true,
        };
        self.linears.iter().any(|linear| linear.adapter.is_some()) && self.linears.iter().all(takes)
    }

    /// Adds the gradients of what is trained.
    pub fn accumulate(&mut self, x: &Tensor, dys: [&Tensor; N], carried: Carried<N>, pass: &Pass) -> Result<()> {
        if x.has_kernels() {
            cpu::accumulate(&mut self.linears, &self.cuts, x, dys, carried, pass)
        } else {
            plain::accumulate(&mut self.linears, &self.cuts, x, dys, carried, pass)
        }
    }

    /// What is trained of the layers, and what their adapters keep frozen, in a fixed order.
    pub fn trainable<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        for linear in &mut self.linears {
            linear.trainable(params);
        }
    }

    /// The places of the weights that are not trained, in a fixed order.
    pub fn frozen<'a>(&'a mut self, slots: &mut Vec<&'a mut dyn Slot>) {
        for linear in &mut self.linears {
            linear.frozen(slots);
        }
    }
}
