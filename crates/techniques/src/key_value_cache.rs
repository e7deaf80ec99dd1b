//! Training without a key-value cache, which only generation needs.

use super::technique::Technique;
use super::toggle::toggle;

pub(super) const KEY_VALUE_CACHE: Technique = toggle!(
    "torch.use_cache", use_cache: false,
    does: "Does not build the key-value cache of generation in training.",
    avoid: "Never: training does not read the cache.",
    meaning: "no key-value cache, which training does not need"
);
