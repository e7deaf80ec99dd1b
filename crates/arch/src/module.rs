//! The modules of a model that have weights, as a family lists them: names, and sizes by what they depend on.

/// An embedding, a norm or a linear layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// Hugging Face's name, from the block on for a block's modules: `self_attn.q_proj`.
    pub path: &'static str,
    /// Shape of the weight: rows and columns of a matrix, or a norm's width.
    pub shape: &'static [Size],
    /// The bias, `[rows]`.
    pub bias: Bias,
    /// The module's part in the model.
    pub kind: Kind,
}

/// A dimension of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// `vocab_size`.
    Vocabulary,
    /// `max_position_embeddings`.
    Positions,
    /// `type_vocab_size`.
    TokenTypes,
    /// `num_labels`.
    Labels,
    /// `hidden_size`.
    Hidden,
    /// `intermediate_size`.
    Intermediate,
    /// Gate and up projections in one.
    GateAndUp,
    /// `head_dim`.
    Head,
    /// All query heads.
    Queries,
    /// All key heads, or all value heads.
    Keys,
    /// Query, key and value heads in one.
    QueriesKeysValues,
}

/// The condition for a module's bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bias {
    /// The module has a bias.
    Always,
    /// The module has none.
    Never,
    /// `attention_bias` decides.
    Attention,
    /// `mlp_bias` decides.
    Mlp,
}

/// A module's part in the model, which decides how it starts and how it is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A table of vectors.
    Embedding,
    /// The table of tokens' vectors, which are multiplied by the root of their width.
    ScaledEmbedding,
    /// The table of tokens' vectors, in which the padding token's is zero.
    PaddedEmbedding,
    /// RMSNorm or LayerNorm; its weight starts as ones.
    Norm,
    /// RMSNorm that multiplies by 1 more than its weight, which starts as zeros.
    CenteredNorm,
    /// A linear layer, which can have an adapter.
    Linear,
    /// The linear layer that predicts tokens; it may be tied to the embedding, and has no adapter.
    TokenHead,
    /// A linear layer of a classifier's head. Adapters do not replace it: it is trained whole, as PEFT's
    /// `modules_to_save`.
    Classifier,
}

/// An embedding of hidden vectors.
pub(super) const fn embedding(path: &'static str, shape: &'static [Size]) -> Module {
    module(path, shape, Bias::Never, Kind::Embedding)
}

impl Kind {
    /// True for a table of vectors (`nn.Embedding`).
    pub fn is_embedding(self) -> bool {
        matches!(self, Self::Embedding | Self::ScaledEmbedding | Self::PaddedEmbedding)
    }

    /// True for RMSNorm and LayerNorm.
    pub fn is_norm(self) -> bool {
        matches!(self, Self::Norm | Self::CenteredNorm)
    }

    /// A norm's factor less its weight.
    pub fn norm_offset(self) -> f32 {
        if self == Self::CenteredNorm { 1.0 } else { 0.0 }
    }
}

/// An embedding whose vectors are multiplied by the root of their width.
pub(super) const fn scaled_embedding(path: &'static str, shape: &'static [Size]) -> Module {
    module(path, shape, Bias::Never, Kind::ScaledEmbedding)
}

/// RMSNorm whose weight starts as zeros.
pub(super) const fn centered_norm(path: &'static str, shape: &'static [Size]) -> Module {
    module(path, shape, Bias::Never, Kind::CenteredNorm)
}

/// The embedding of tokens, with zeros for the padding token.
pub(super) const fn padded_embedding(path: &'static str, shape: &'static [Size]) -> Module {
    module(path, shape, Bias::Never, Kind::PaddedEmbedding)
}

/// RMSNorm.
pub(super) const fn rms_norm(path: &'static str, shape: &'static [Size]) -> Module {
    module(path, shape, Bias::Never, Kind::Norm)
}

/// LayerNorm.
pub(super) const fn layer_norm(path: &'static str, shape: &'static [Size]) -> Module {
    module(path, shape, Bias::Always, Kind::Norm)
}

/// A linear layer that can have an adapter; its weight is `[outputs, inputs]`.
pub(super) const fn linear(path: &'static str, shape: &'static [Size], bias: Bias) -> Module {
    module(path, shape, bias, Kind::Linear)
}

/// The head that predicts tokens.
pub(super) const fn token_head(path: &'static str, shape: &'static [Size]) -> Module {
    module(path, shape, Bias::Never, Kind::TokenHead)
}

/// A layer of a classifier's head.
pub(super) const fn classifier(path: &'static str, shape: &'static [Size]) -> Module {
    module(path, shape, Bias::Always, Kind::Classifier)
}

const fn module(path: &'static str, shape: &'static [Size], bias: Bias, kind: Kind) -> Module {
    Module {
        path,
        shape,
        bias,
        kind,
    }
}
