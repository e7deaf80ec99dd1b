//! Releases of TRL.

use base::text::Mistake;
use options::Loss;

use super::version::{Version, planned, studied};

/// How a release of TRL's SFTTrainer computes the loss by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trl {
    /// The causal loss: the model's own before 1.7, a loop over chunks from then on (`_chunked_cross_entropy_loss` in
    /// `trainer/sft_trainer.py`), tiles from 1.15 on (`kernels/chunked_logprob.py`).
    pub loss: Loss,
}

impl Trl {
    const OLDEST: Version = Version(0, 7, 0);

    /// The behaviour of the release `text`.
    ///
    /// # Errors
    /// The text is not a version, or one that has not been studied.
    pub fn of(text: &str) -> Result<Self, Mistake> {
        let loss = match studied("trl", text, Self::OLDEST)? {
            version if version < Version(1, 7, 0) => Loss::Full,
            version if version < Version(1, 15, 0) => Loss::Chunked,
            _ => Loss::Tiled,
        };
        Ok(Self { loss })
    }

    /// The release that is planned for `text`, if that is one with `nearest` before it.
    pub fn planned(text: &str) -> Option<String> {
        planned(text, || studied("trl", text, Self::OLDEST))
    }
}
