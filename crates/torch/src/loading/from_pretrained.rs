//! `from_pretrained` straight to the GPU, as with weights that are quantised on the way.

use trace::Category;

use super::checkpoint::{self, Entry, Part};
use super::order::{Arrival, WarmUp};
use crate::configuration::Configuration;
use crate::dtype::Dtype;
use crate::layout::Layout;
use crate::peft::Base;
use crate::tape::{Tape, Tensor};

/// The weights on the GPU that no module has taken yet.
pub(crate) struct Loaded<'t> {
    /// Weight and bias of each module: those outside of the blocks, then those of each block, as the family lists them.
    slots: Vec<[Option<Weight<'t>>; 2]>,
}

/// A weight as it was loaded.
pub(crate) enum Weight<'t> {
    Plain(Tensor<'t>),
    Quantised(Base<'t>),
}

impl<'t> Loaded<'t> {
    /// Loads the checkpoint, unless the model is moved to the GPU module by module instead.
    pub(crate) fn load(tape: &'t Tape, configuration: &Configuration) -> Self {
        let mut loaded = Self { slots: Vec::new() };
        if configuration.dtype.is_quantised() || configuration.device_map {
            loaded.read_checkpoint(tape, configuration);
        }
        loaded
    }

    fn read_checkpoint(&mut self, tape: &'t Tape, configuration: &Configuration) {
        let config = &configuration.model;
        let dtype = configuration.unquantised();
        // Older releases of bitsandbytes make it float16 on the CPU.
        let is_half = match configuration.dtype {
            options::Dtype::Int4 => configuration.bitsandbytes.quantises_float16,
            _ => configuration.bitsandbytes.has_tiled_int8,
        };
        let source = if is_half { Dtype::Float16 } else { dtype };
        let is_quantised = |entry: &Entry| configuration.dtype.is_quantised() && entry.is_quantised();
        let entries = checkpoint::sorted(config);
        let dims: Vec<Vec<u32>> = entries.iter().map(|entry| entry.dims(config)).collect();
        let elements = dims.iter().map(|dims| dims.iter().map(|&dim| u64::from(dim)).product());
        let elements: Vec<u64> = elements.collect();
        let bytes: Vec<u64> = elements.iter().map(|elements| elements * dtype.size()).collect();

        let unquantised: u64 = bytes.iter().sum();
        let quantised = || {
            let sizes = entries.iter().zip(&elements).zip(&bytes);
            let size =
                |((entry, elements), bytes): ((&Entry, &u64), &u64)| match (configuration.dtype, is_quantised(entry)) {
                    (_, false) => *bytes,
                    (options::Dtype::Int4, _) => elements / 2,
                    _ => *elements,
                };
            sizes.map(size).sum()
        };
        let warm_up = match configuration.transformers.warm_up {
            _ if tape.is_sharded => 0,
            WarmUp::None => 0,
            WarmUp::Unquantised => unquantised,
            WarmUp::Half if configuration.dtype.is_quantised() => unquantised / 2,
            WarmUp::Half => unquantised,
            WarmUp::Quantised => quantised(),
        };
        let largest = configuration
            .free_bytes
            .map(|free| configuration.transformers.warm_up.largest(free));
        drop(tape.bytes(warm_up.min(largest.unwrap_or(u64::MAX)), Category::Temporary));

        let family = config.family.description();
        let outside = family.embeddings.len() + family.head.len();
        let modules = outside + config.num_hidden_layers * family.block.len();
        self.slots.resize_with(modules, Default::default);
        let mut arrived: Vec<Option<Tensor<'t>>> = Vec::new();
        arrived.resize_with(entries.len(), || None);
        for arrival in configuration.transformers.load_order.arrivals(&bytes) {
            match arrival {
                // What is not quantised stays on the CPU until it is sharded.
                Arrival::Arrives(at) if tape.is_sharded && !is_quantised(&entries[at]) => {}
                Arrival::Arrives(at) => {
                    let (category, dtype) = match is_quantised(&entries[at]) {
                        true => (Category::Temporary, source),
                        false => (Category::Parameter, dtype),
                    };
                    arrived[at] = Some(tape.empty_as(Layout::contiguous(&dims[at]), dtype, category));
                }
                Arrival::Taken(at) => {
                    let (Some(tensor), entry) = (arrived[at].take(), &entries[at]) else {
                        continue;
                    };
                    let weight = match is_quantised(entry) {
                        true => Weight::Quantised(tape.quantised(tensor, configuration)),
                        false => Weight::Plain(tensor),
                    };
                    if let Some(slot) = slot(configuration, entry.module.path, entry.block) {
                        self.slots[slot][entry.part as usize] = Some(weight);
                    }
                }
            }
        }
    }

    /// Gives a tensor to its module; nothing if it was not loaded, or is given already.
    pub(crate) fn take(
        &mut self,
        configuration: &Configuration,
        path: &str,
        block: Option<usize>,
        part: Part,
    ) -> Option<Weight<'t>> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[slot(configuration, path, block)?][part as usize].take()
    }
}

/// The place of a module among the slots.
fn slot(configuration: &Configuration, path: &str, block: Option<usize>) -> Option<usize> {
    let family = configuration.model.family.description();
    let outside = family.embeddings.iter().chain(family.head);
    match block {
        None => outside
            .enumerate()
            .find(|(_, module)| module.path == path)
            .map(|(at, _)| at),
        Some(block) => {
            let inside = family.block.iter().position(|module| module.path == path)?;
            Some(family.embeddings.len() + family.head.len() + block * family.block.len() + inside)
        }
    }
}

impl Tape {
    /// The weight as bitsandbytes quantises it on the GPU, where it is in half precision.
    fn quantised<'t>(&'t self, weight: Tensor<'t>, configuration: &Configuration) -> Base<'t> {
        match configuration.dtype {
            options::Dtype::Int4 => Base::FourBit(self.four_bit(
                weight,
                configuration.bnb_4bit_compute_dtype,
                (
                    configuration.bnb_4bit_blocksize,
                    configuration.bnb_4bit_use_double_quant,
                ),
                configuration.bitsandbytes,
            )),
            _ => {
                self.eight_bit.borrow_mut().push([0, 1].map(|axis| weight.dims()[axis]));
                Base::EightBit(self.eight_bit(weight, configuration.finds_outliers, configuration.bitsandbytes))
            }
        }
    }
}
