//! How a unit becomes whole, and is let go.

use trace::Category;

use super::{IN_FLIGHT, Units, stream};
use crate::tape::Tape;
use crate::view::{StorageId, UnitId};

impl Units {
    /// Makes the unit whole (`_unshard`).
    pub(super) fn gather(&mut self, tape: &Tape, id: UnitId) {
        let offload = self.fsdp.offload_params;
        let unit = self.unit(id);
        let converts = unit.gathered_dtype != unit.dtype;
        if unit.gathered.is_some() || !unit.is_shared() && !converts {
            return;
        }
        let (shard, whole) = (unit.shard_elements, unit.whole_bytes());
        let (dtype, gathered_dtype, is_shared) = (unit.dtype, unit.gathered_dtype, unit.is_shared());
        // The shard as it is sent: on the GPU, and in the format of the whole.
        let mut sent = Vec::new();
        tape.on(stream::PRE_UNSHARD, || {
            if offload {
                sent.push(tape.alloc(shard * dtype.size(), Category::Temporary));
            }
            if converts && is_shared {
                sent.push(tape.alloc(shard * gathered_dtype.size(), Category::Temporary));
            }
        });
        if self.fsdp.limit_all_gathers
            && self.let_go.len() >= IN_FLIGHT
            && let Some(before) = self.let_go.pop_front()
        {
            tape.wait_for(before);
        }
        let gathered = tape.on(stream::UNSHARD, || tape.alloc(whole, Category::Parameter));
        self.unit(id).gathered = Some(gathered);
        for shard in sent {
            self.record_stream(tape, shard);
            tape.release(shard);
        }
    }

    /// Another stream uses the storage.
    pub(super) fn record_stream(&self, tape: &Tape, storage: StorageId) {
        if self.fsdp.cpu_leads {
            tape.record_stream(storage);
        }
    }

    /// Lets the whole unit go, but for its shard, if `frees` (`_reshard`).
    pub(super) fn let_go(&mut self, tape: &Tape, id: UnitId, frees: bool) {
        self.unit(id).is_prefetched = false;
        if frees && let Some(gathered) = self.unit(id).gathered.take() {
            self.record_stream(tape, gathered);
            tape.release(gathered);
            if self.fsdp.limit_all_gathers {
                self.let_go.push_back(gathered);
            }
        }
    }
}
