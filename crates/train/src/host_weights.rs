//! The way of blocks' frozen weights, of checkpoints and of gradients between the two tiers of memory, around the walk
//! through the chain.

use candle_core::Result;
use memory::tiers::{HostCopy, Slot};
use model::Chain;
use nn::{param::Param, tensor::Tensor};
use trace::Category;

/// Fetches and frees the frozen weights of blocks that wait in the host's memory. Others stay as they are.
pub(super) trait Fetch: Chain + Sized {
    /// Begins to copy a block's weights to the device, if it has a block of this index.
    fn prefetch(&mut self, index: usize) {
        if self.host_blocks().is_away(index) {
            let _entered = memory::enter_layer(index);
            let _module = memory::module(format_args!("{}.{index}", self.names().blocks));
            self.host_blocks().begin(index);
        }
    }

    /// Waits until a block's weights are on the device.
    fn fetch(&mut self, index: usize) -> Result<()> {
        self.prefetch(index);
        if self.host_blocks().is_on_the_way(index) {
            let weights = self.host_blocks().wait(index)?;
            for (slot, weight) in slots(self, index).into_iter().zip(weights) {
                slot.put(weight);
            }
        }
        Ok(())
    }

    /// Brings the gradients of a block back from the host.
    fn fetch_gradients(&mut self, index: usize) -> Result<()> {
        let mut params = Vec::new();
        self.block_trainable(index, &mut params);
        params.into_iter().try_for_each(Param::bring_gradient_back)
    }

    /// Moves the gradients of a block to the host.
    fn send_gradients(&mut self, index: usize) -> Result<()> {
        let mut params = Vec::new();
        self.block_trainable(index, &mut params);
        params.into_iter().try_for_each(Param::send_gradient_away)
    }

    /// Frees a block's weights on the device, which the host still has.
    fn release(&mut self, index: usize) {
        if let Some(copies) = self.host_blocks().leave(index) {
            for (copy, slot) in copies.iter().zip(slots(self, index)) {
                copy.release(slot);
            }
        }
    }
}

impl<C: Chain> Fetch for C {}

fn slots<C: Chain>(chain: &mut C, index: usize) -> Vec<&mut dyn Slot> {
    let mut slots = Vec::new();
    chain.frozen(index, &mut slots);
    slots
}

/// The input of a block that recomputes, in the host's memory.
pub(super) struct HostInput {
    /// Its shape, without elements.
    x: Tensor,
    copy: HostCopy,
}

impl HostInput {
    /// Moves an input to the host.
    pub(super) fn of(mut x: Tensor) -> Result<Self> {
        let copy = HostCopy::of(x.slot())?;
        Ok(Self { x, copy })
    }

    /// Brings it back to the device.
    pub(super) fn fetch(mut self) -> Result<Tensor> {
        let mut storage = self.copy.reserve(Category::Activation);
        self.copy.copy_to(&mut storage)?;
        self.x.slot().put(storage);
        Ok(self.x)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use candle_core::Device;
    use kernels::Sequences;
    use memory::tiers::copy_aside;
    use model::{Model, Source};
    use nn::Pass;
    use options::{
        AdapterOptions, Attention, Autocast, DEFAULT_BLOCK_SIZE, Dtype, Loss, ModelOptions, OffloadedBlocks, QuantType,
        Task, Upcast, Weights,
    };

    use super::*;

    /// While the copying thread is held up with the second block's weights before it, the first block is computed.
    #[test]
    fn a_block_is_computed_while_the_next_ones_weights_are_copied() {
        let options = ModelOptions {
            name: "tiny".into(),
            weights: Weights::Random,
            task: Task::CausalLm,
            num_labels: 2,
            dtype: Dtype::Int4,
            bnb_4bit_quant_type: QuantType::Nf4,
            bnb_4bit_blocksize: DEFAULT_BLOCK_SIZE,
            bnb_4bit_use_double_quant: true,
            bnb_4bit_compute_dtype: Dtype::Bfloat16,
            llm_int8_threshold: None,
            upcast: Upcast::None,
            autocast: Autocast::None,
            attn_implementation: Attention::Sdpa,
            loss: Loss::Chunked,
            adapter: Some(AdapterOptions::lora(2, 4.0)),
            trainable: None,
            offloaded_blocks: Some(OffloadedBlocks::Ratio(1.0)),
            offloads_embeddings: false,
            max_seq_length: 8,
            seed: 0,
        };
        let source = Source::open(&options, &"".into()).unwrap();
        let Model::Decoder(mut decoder) = model::load(&options, &source, &Device::Cpu).unwrap() else {
            panic!("tiny is a decoder");
        };
        decoder.fetch(0).unwrap();
        let (computed, wait_for_computing) = channel();
        let held_up = copy_aside(move || wait_for_computing.recv_timeout(Duration::from_secs(60)).is_ok());
        decoder.prefetch(1);
        let pass = Pass {
            sequences: Sequences::even(1, 8),
            lengths: vec![8],
            dropout: None,
        };
        let ids = (0..8).collect::<Vec<u32>>().into();
        let x = decoder.embed(&ids, &pass).unwrap();
        let (x, _) = decoder.block(0, x, &pass).unwrap();
        computed.send(()).unwrap();
        decoder.fetch(1).unwrap();
        assert!(held_up.wait(), "computing waited for the copies");
        decoder.release(0);
        decoder.block(1, x, &pass).unwrap();
    }
}
