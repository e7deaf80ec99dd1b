//! Several streams: whose pools a block is taken from, and who else uses it.

use super::{Allocation, CachingAllocator};

impl CachingAllocator {
    /// Takes the next blocks for this stream: those of others are not given to it.
    pub fn use_stream(&mut self, stream: u8) {
        self.pools.open(stream);
        self.stream = stream;
    }

    /// Another stream uses the memory (`Tensor.record_stream`): freed, it waits for that stream. `name` is for
    /// [`Self::done_up_to`].
    pub fn record_stream(&mut self, allocation: &Allocation, name: u32) {
        if let Allocation(Some(id)) = *allocation {
            self.blocks[id].other_use = Some(name);
        }
    }

    /// The other streams are done with all that was freed up to the memory of this name, which is free from the next
    /// [`Self::malloc`] on (`process_events`).
    pub fn done_up_to(&mut self, name: u32) {
        self.awaited.done_up_to(name);
    }

    /// The other streams are done with all that was freed.
    pub fn synchronize(&mut self) {
        self.awaited.done();
    }

    /// Bytes that are freed and wait for other streams.
    pub fn awaited_bytes(&self) -> u64 {
        self.awaited.bytes
    }
}
