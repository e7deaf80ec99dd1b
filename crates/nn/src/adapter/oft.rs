//! OFT (Qiu et al. 2023, arXiv:2306.07280): the inputs are rotated block by block. The blocks' rotations follow from
//! trained triangles by Cayley's transform. As in PEFT the triangles start at zero.

use std::ops::Range;

use arch::ModuleName;
use candle_core::{Device, Result};
use kernels::{Element, cayley};
use memory::Buffer;
use options::{AdapterOptions, Oft as Options};
use trace::Category;

use super::{
    change::{Change, Saved},
    interface::{Adapter, InputMap},
};
use crate::{
    convert::{self, Converted},
    param::Param,
    tensor::{Tensor, floating, for_format},
};

/// OFT's adapter of a linear layer.
#[derive(Debug)]
pub struct Oft {
    /// `[blocks, size · (size - 1) / 2]`.
    triangles: Param,
    size: usize,
    terms: Option<usize>,
}

impl Oft {
    /// The adapter of a layer with so many inputs before training.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn new(
        oft: &Options,
        options: &AdapterOptions,
        module: ModuleName,
        inputs: usize,
        device: &Device,
    ) -> Result<Self> {
        let size = oft.block_size(inputs);
        let blocks = if oft.block_share { 1 } else { inputs / size };
        let shape = (blocks, cayley::triangle(size));
        let _scope = memory::scope(Category::Adapter);
        let zeros = for_format!(floating(options.dtype), E => {
            let zeros = Buffer::<E>::from_fn(shape.0 * shape.1, |_| Element::narrow(0.0));
            Tensor::on_device(zeros, shape, device)
        })?;
        Ok(Self {
            triangles: Param::adapter(module.part(options::methods::OFT_R), zeros),
            size,
            terms: oft.terms(),
        })
    }

    /// How many matrices there are.
    fn blocks(&self) -> usize {
        self.triangles.value.rows()
    }
}

/// The elements in float32, in this process's memory.
fn in_memory(tensor: &Tensor) -> Result<Converted<'_>> {
    if tensor.has_kernels() {
        return convert::widen(tensor);
    }
    let values = Buffer::from(tensor.to_vec_f32()?);
    Ok(Converted::Copy(Tensor::new(values, tensor.shape())))
}

impl Adapter for Oft {
    fn input_map(&self) -> Result<Option<Box<InputMap>>> {
        let value = &self.triangles.value;
        let shape = (self.blocks() * self.size, self.size);
        let mut rotations = Buffer::<f32>::unwritten(shape.0 * shape.1);
        let triangles = in_memory(value)?;
        let mut scratch = Buffer::<f32>::unwritten(cayley::rotation_scratch(self.blocks(), self.size, self.terms));
        if !memory::is_dry_run() {
            cayley::rotations(
                triangles.values()?,
                self.size,
                self.terms,
                scratch.values_mut(),
                rotations.values_mut(),
            );
        }
        drop((triangles, scratch));
        let rotations = Tensor::on_device(rotations, shape, value.device())?;
        Ok(Some(Box::new(InputMap::Blocks(rotations))))
    }

    fn maps_blocks(&self) -> bool {
        true
    }

    fn accumulate_input_map(&mut self, gradient: Tensor) -> Result<()> {
        let shape = self.triangles.value.shape();
        let mut of_triangles = Buffer::<f32>::unwritten(shape.len());
        let (triangles, of_rotations) = (in_memory(&self.triangles.value)?, in_memory(&gradient)?);
        let mut scratch = Buffer::<f32>::unwritten(cayley::gradient_scratch(self.blocks(), self.size, self.terms));
        if !memory::is_dry_run() {
            cayley::triangle_gradients(
                triangles.values()?,
                self.size,
                self.terms,
                of_rotations.values()?,
                scratch.values_mut(),
                of_triangles.values_mut(),
            );
        }
        drop((triangles, of_rotations, scratch));
        drop(gradient);
        let device = self.triangles.value.device().clone();
        self.triangles
            .accumulate(Tensor::on_device(of_triangles, shape, &device)?)
    }

    fn params<'a>(&'a mut self, params: &mut Vec<&'a mut Param>) {
        params.push(&mut self.triangles);
    }
}

/// W with its columns rotated back, block by block: `W Rᵀ`.
pub(super) struct Rotated {
    /// `[blocks, size, size]`; a single one is that of all blocks. None of blocks with one feature.
    rotations: Vec<f32>,
    size: usize,
}

impl Rotated {
    pub(super) fn of(oft: &Options, saved: &Saved<'_>) -> Self {
        let size = oft.block_size(saved.columns);
        let triangles = saved.values(options::methods::OFT_R);
        let blocks = triangles.len().checked_div(cayley::triangle(size)).unwrap_or(0);
        let mut rotations = vec![0f32; blocks * size * size];
        let mut scratch = vec![0f32; cayley::rotation_scratch(blocks, size, oft.terms())];
        cayley::rotations(triangles, size, oft.terms(), &mut scratch, &mut rotations);
        Self { rotations, size }
    }
}

impl Change for Rotated {
    fn apply(&self, values: &mut [f32], columns: usize, _: Range<usize>) {
        // A block of one feature is not rotated.
        if self.size < 2 {
            return;
        }
        let blocks = self.rotations.chunks(self.size * self.size);
        let mut rotated = vec![0f32; columns];
        for row in values.chunks_mut(columns) {
            let parts = row.chunks(self.size).zip(rotated.chunks_mut(self.size));
            for ((part, out), block) in parts.zip(blocks.clone().cycle()) {
                for (out, of_block) in out.iter_mut().zip(block.chunks(self.size)) {
                    let products = part.iter().zip(of_block).map(|(a, b)| f64::from(*a) * f64::from(*b));
                    *out = products.sum::<f64>() as f32;
                }
            }
            row.copy_from_slice(&rotated);
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Tensor as Candle;
    use options::AdapterMethod;

    use super::*;
    use crate::{
        linear::{Linear, Projection},
        testing::{assert_close, biased, pass, take_gradients, tensor, uniform, with_plain_ops},
    };

    const INPUTS: usize = 24;
    const WIDTHS: [usize; 2] = [20, 12];

    fn options(block_share: bool, use_cayley_neumann: bool) -> Options {
        Options {
            oft_block_size: 8,
            block_share,
            use_cayley_neumann,
            ..Options::default()
        }
    }

    /// A fused layer with rotations that are not those of the start.
    fn layer(own: &Options) -> Projection<2> {
        let outputs = WIDTHS.iter().sum();
        let options = AdapterOptions::new(AdapterMethod::Oft(own.clone()));
        let mut oft = Oft::new(own, &options, ModuleName::new("qk"), INPUTS, &Device::Cpu).unwrap();
        let dims = oft.triangles.value.dims().to_vec();
        oft.triangles.set(tensor(&(uniform("w", &dims) * 0.2).unwrap()));
        let linear = Linear {
            adapter: Some(Box::new(oft)),
            ..biased("qk", outputs, INPUTS, 0, false)
        };
        Projection::new(vec![linear], WIDTHS)
    }

    /// Outputs, the gradient of the input, and that of the triangles.
    fn results(mut layer: Projection<2>, x: &Candle, dys: &[Candle; 2]) -> Vec<Candle> {
        let pass = pass(1, 7);
        let x = tensor(x);
        let dys = dys.each_ref().map(tensor);
        let ys = layer.forward(&x, &pass).unwrap();
        let dx = layer.backward(&x, dys.each_ref(), &pass).unwrap();
        let mut results: Vec<Candle> = ys.iter().map(|y| y.to_candle_f32().unwrap()).collect();
        results.push(dx.to_candle_f32().unwrap());
        results.extend(take_gradients(&mut layer));
        results
    }

    #[test]
    fn plain_ops_and_kernels_agree_and_gradients_are_slopes() {
        let x = uniform("x", &[7, INPUTS]);
        let dys = WIDTHS.map(|width| uniform("dy", &[7, width]));
        for own in [options(false, true), options(true, true), options(false, false)] {
            let ours = results(layer(&own), &x, &dys);
            let plain = with_plain_ops(|| results(layer(&own), &x, &dys));
            assert_eq!(ours.len(), plain.len());
            for (ours, plain) in ours.iter().zip(&plain) {
                assert_close(&tensor(ours), plain, 1e-4, &format!("{own:?}"));
            }
            // The value whose gradients these are, with inputs moved along their gradient.
            let value = |x: &Candle| -> f32 {
                let outputs = results(layer(&own), x, &dys);
                let products = outputs[..2]
                    .iter()
                    .zip(&dys)
                    .map(|(y, dy)| (y * dy).unwrap().sum_all().unwrap());
                products.map(|sum| sum.to_scalar::<f32>().unwrap()).sum()
            };
            let dx = &ours[2];
            let square = dx.sqr().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
            let moved = |by: f64| value(&(&x + (dx * by).unwrap()).unwrap());
            let slope = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((slope - square).abs() < 1e-3 * square, "{slope} {square}");
        }
    }
}
