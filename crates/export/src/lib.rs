//! A recording in the formats of other programs: PyTorch's memory snapshot, Chrome's and Perfetto's trace, CSV.

pub mod chrome;
pub mod csv;
mod lifetimes;
mod pickle;
pub mod pytorch;

use trace::Category;

/// The tensor categories, which are all that a recording has.
fn categories() -> impl Iterator<Item = Category> {
    Category::ALL.into_iter().filter(|category| category.is_tensor())
}

/// A made-up recording for tests.
#[cfg(test)]
pub(crate) mod sample {
    use results::timeline::Recording;
    use trace::recording::{Event, Kind, RANK_SHIFT};
    use trace::{Category, Phase};

    /// A parameter, and in step 1 an activation that begins as a temporary, and a temporary that is resized and moved.
    pub(crate) fn recording() -> Recording {
        let mut nanos = 0;
        let mut event = |kind, category, module, address, bytes| {
            nanos += 1500;
            Event {
                nanos,
                kind,
                category,
                module,
                address,
                bytes,
            }
        };
        let host = Category::Host;
        let events = vec![
            event(Kind::Alloc, Category::Parameter, 1, 0x1000, 4096),
            event(Kind::StepBegin, host, 0, 0, 1),
            event(Kind::Phase, host, 0, 0, Phase::Forward as u64),
            event(Kind::Module, host, 2, 0, 0),
            event(Kind::Module, host, 3, 0, 0),
            event(Kind::Alloc, Category::Temporary, 3, 0x3000, 48),
            event(Kind::Tensor, Category::Temporary, 3, 0x3000, 2 << RANK_SHIFT),
            event(Kind::Dimensions, Category::Temporary, 3, 4, 3),
            event(Kind::Relabel, Category::Activation, 3, 0x3000, 48),
            event(Kind::Alloc, Category::Temporary, 3, 0x4000, 100),
            event(Kind::Resize, Category::Temporary, 3, 0x4000, 160),
            event(Kind::Move, Category::Temporary, 3, 0x5000, 160),
            event(Kind::Module, host, 2, 0, 0),
            event(Kind::Module, host, 0, 0, 0),
            event(Kind::Phase, host, 0, 0, Phase::Backward as u64),
            event(Kind::Free, Category::Temporary, 0, 0x5000, 160),
            event(Kind::Free, Category::Activation, 0, 0x3000, 48),
            event(Kind::StepEnd, host, 0, 0, 1),
            event(Kind::Phase, host, 0, 0, Phase::Idle as u64),
        ];
        let names = ["", "model.embed_tokens", "model.layers.0", "model.layers.0.mlp"];
        Recording::of(names.map(str::to_owned).to_vec(), events).unwrap()
    }
}
