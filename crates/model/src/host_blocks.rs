//! Blocks whose frozen weights wait in the host's memory. The device has those of the block that computes and of the
//! next one, which a thread copies meanwhile.

use std::mem;
use std::sync::Arc;

use candle_core::Result;
use memory::tiers::{HostCopy, Pending, Slot, Storage, copy_aside};
use trace::Category;

/// A model's blocks, each with its weights in the host's memory if they wait there.
#[derive(Debug, Default)]
pub struct HostBlocks(Vec<Option<HostBlock>>);

#[derive(Debug)]
struct HostBlock {
    copies: Arc<Vec<HostCopy>>,
    state: State,
}

/// The weights on the device.
#[derive(Debug)]
enum State {
    /// There are none.
    Away,
    /// They are being copied.
    OnTheWay(Pending<Result<Vec<Storage>>>),
    /// They are in their places.
    Here,
}

impl HostBlocks {
    /// Adds the next block, whose weights stay on the device.
    pub(super) fn push_resident(&mut self) {
        self.0.push(None);
    }

    /// Adds the next block and moves its weights from these places to the host.
    ///
    /// # Errors
    /// Errors of candle.
    pub(super) fn push(&mut self, slots: Vec<&mut dyn Slot>) -> Result<()> {
        let copies = slots.into_iter().map(HostCopy::of).collect::<Result<Vec<_>>>()?;
        self.0.push(Some(HostBlock {
            copies: Arc::new(copies),
            state: State::Away,
        }));
        Ok(())
    }

    /// True if the block's weights are neither on the device nor on their way.
    pub fn is_away(&self, index: usize) -> bool {
        matches!(self.state(index), Some(State::Away))
    }

    /// True if the block's weights are on their way to the device.
    pub fn is_on_the_way(&self, index: usize) -> bool {
        matches!(self.state(index), Some(State::OnTheWay(_)))
    }

    /// Begins to copy a block's weights to the device, which counts them from now on.
    pub fn begin(&mut self, index: usize) {
        let Some(block) = self.block(index) else { return };
        let copies = Arc::clone(&block.copies);
        let mut reserved: Vec<Storage> = copies.iter().map(|copy| copy.reserve(Category::Parameter)).collect();
        block.state = State::OnTheWay(copy_aside(move || {
            for (copy, reserved) in copies.iter().zip(&mut reserved) {
                copy.copy_to(reserved)?;
            }
            Ok(reserved)
        }));
    }

    /// Waits for weights that are on their way. They are the device's from now on.
    ///
    /// # Errors
    /// Errors of candle.
    pub fn wait(&mut self, index: usize) -> Result<Vec<Storage>> {
        let Some(block) = self.block(index) else {
            return Ok(Vec::new());
        };
        match mem::replace(&mut block.state, State::Here) {
            State::OnTheWay(pending) => pending.wait(),
            state => {
                block.state = state;
                Ok(Vec::new())
            }
        }
    }

    /// The host's copies of weights that are on the device, and that shall leave it now.
    pub fn leave(&mut self, index: usize) -> Option<Arc<Vec<HostCopy>>> {
        let block = self.block(index)?;
        matches!(block.state, State::Here).then(|| {
            block.state = State::Away;
            Arc::clone(&block.copies)
        })
    }

    fn state(&self, index: usize) -> Option<&State> {
        Some(&self.0.get(index)?.as_ref()?.state)
    }

    fn block(&mut self, index: usize) -> Option<&mut HostBlock> {
        self.0.get_mut(index)?.as_mut()
    }
}
