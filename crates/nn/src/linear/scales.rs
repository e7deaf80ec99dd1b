//! What adapters multiply layers' inputs and outputs with.

use candle_core::Result;

use super::layer::Linear;
use crate::adapter::{InputMap, OutputScale};

/// What the adapters of at most `N` layers give now, by layer.
#[derive(Debug)]
pub(super) struct Scales<const N: usize> {
    /// The maps of the inputs.
    pub(super) inputs: [Option<Box<InputMap>>; N],
    /// The factors of the outputs.
    pub(super) outputs: [Option<Box<OutputScale>>; N],
}

impl<const N: usize> Scales<N> {
    pub(super) fn of(linears: &[Linear]) -> Result<Self> {
        let mut scales = Self {
            inputs: [const { None }; N],
            outputs: [const { None }; N],
        };
        for (at, linear) in linears.iter().enumerate() {
            if let Some(adapter) = &linear.adapter {
                scales.inputs[at] = adapter.input_map()?;
                scales.outputs[at] = adapter.output_scale(&linear.weight)?;
            }
        }
        Ok(scales)
    }
}
