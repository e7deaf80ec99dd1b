//! What a plan cannot know of a run, as the runs that are possible.

use crate::spec::cell::{Cell, Upcast};
use crate::torch::{Configuration, LoadOrder};

/// Loads that are as possible as the one that is planned.
#[derive(Default)]
pub(super) struct OtherLoads {
    pub(super) configurations: Vec<Configuration>,
    /// The fact that would decide between them.
    pub(super) reason: &'static str,
}

/// The other ways in which the weights of `cell` may come onto the GPU; none if its keys leave one alone.
pub(super) fn other_loads(cell: &Cell, configuration: &Configuration) -> OtherLoads {
    let mut others = OtherLoads::default();
    if !cell.dtype.is_quantised() {
        if cell.torch.device_map.is_none() {
            others.reason = "way of loading, by a device_map or by model.to";
            others.configurations.push(Configuration {
                device_map: true,
                ..configuration.clone()
            });
        }
        return others;
    }
    if configuration.transformers.load_order == LoadOrder::THREADS {
        others.reason = "order of loading by threads";
        others.configurations.extend(LoadOrder::OTHER_THREADS.map(|order| {
            let mut other = configuration.clone();
            other.transformers.load_order = order;
            other
        }));
        return others;
    }
    let mut older = configuration.clone();
    if cell.torch.transformers_version.is_none() {
        older.transformers.load_order = LoadOrder::THREADS;
    }
    if cell.torch.peft_version.is_none() && cell.upcast != Upcast::None {
        older.peft.empties_cache = false;
    }
    if older != *configuration {
        others.reason = "order of loading, by the releases of transformers and PEFT";
        others.configurations.push(older);
    }
    others
}
