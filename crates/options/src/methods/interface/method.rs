//! What the options of any method say.

use std::fmt::Debug;

use super::{Facts, OwnScales};
use crate::{Bias, Invalid, LoraATraining, ModelOptions, Patterns, Stack};

/// The options of a method.
pub trait Method: Debug {
    /// The tensors of the adapter of one linear layer.
    fn tensors(&self, layer: &Layer<'_>) -> Vec<Tensor> {
        let _ = layer;
        Vec::new()
    }

    /// Ranks and alphas of some modules, of methods that have them.
    fn own_scales(&self) -> Option<OwnScales<'_>> {
        None
    }

    /// The shorter side of the largest matrix that is trained, of adapters of this rank.
    fn shorter_side(&self, rank: usize) -> usize {
        let ranks = self.rank_pattern().map(Patterns::values);
        ranks.map_or(1, |ranks| ranks.fold(rank, |most, of| most.max(*of)))
    }

    /// Other ranks of some modules.
    fn rank_pattern(&self) -> Option<&Patterns<usize>> {
        self.own_scales().map(|own| own.ranks)
    }

    /// Another alpha of some modules.
    fn alpha_pattern(&self) -> Option<&Patterns<f64>> {
        self.own_scales().map(|own| own.alphas)
    }

    /// Probability of dropout on the adapters' inputs, where it is one of these options.
    fn dropout(&self) -> f64 {
        0.0
    }

    /// The factor of what is added to the weight of the module called `module` in full, whose adapter has this rank.
    fn scale(&self, rank: usize, lora_alpha: f64, module: &str) -> f64 {
        let own = self.own_scales();
        own.map_or(1.0, |own| own.alpha_of(module, lora_alpha) / rank as f64)
    }

    /// The biases that are trained beside the adapters.
    fn bias(&self) -> Bias {
        Bias::None
    }

    /// The learning rate of trained vectors over the step's.
    fn lr_ratio(&self) -> f64 {
        1.0
    }

    /// Virtual tokens before each sequence.
    fn virtual_tokens(&self) -> usize {
        0
    }

    /// The layers that one of these options names, with its key.
    fn named_layers(&self) -> Option<(&'static str, &[String])> {
        None
    }

    /// Checks that the adapter suits a layer.
    ///
    /// # Errors
    /// What does not, with its key.
    fn check_layer(&self, layer: &Layer<'_>) -> Result<(), String> {
        let _ = layer;
        Ok(())
    }

    /// Adds the values that are out of their range or contradict another of these options.
    fn check_values(&self, found: &mut Vec<Invalid>) {
        if let Some(own) = self.own_scales() {
            own.check_values(found);
        }
    }

    /// Adds the patterns that say what all modules have already, with adapters of this rank.
    fn check_patterns(&self, rank: usize, lora_alpha: f64, found: &mut Vec<Invalid>) {
        if let Some(own) = self.own_scales() {
            own.check_idle(rank, lora_alpha, found);
        }
    }

    /// Adds what does not go with the rest of a cell.
    fn check(&self, context: &Context<'_>, found: &mut Vec<Invalid>) {
        let _ = (context, found);
    }
}

/// A tensor of a layer's adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// What follows the module's name in a file.
    pub name: &'static str,
    /// Its shape.
    pub shape: Vec<usize>,
    /// True unless it is frozen.
    pub is_trained: bool,
}

impl Tensor {
    /// A tensor that is trained.
    pub(crate) fn new<const D: usize>(name: &'static str, shape: [usize; D]) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            is_trained: true,
        }
    }

    /// Its elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A linear layer that gets an adapter.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// What is known of the method.
    pub facts: &'static Facts,
    /// The layer's name in full.
    pub name: &'a str,
    /// The rank of its adapter.
    pub rank: usize,
    /// The training of LoRA's A.
    pub lora_fa: LoraATraining,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
    /// True if the inputs are scaled by IA3, and not the outputs.
    pub is_feedforward: bool,
}

/// What a method's checks see of a cell.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// What is known of the method.
    pub facts: &'static Facts,
    /// The method's name in specs.
    pub name: &'static str,
    /// The rank of methods that have one.
    pub rank: usize,
    /// LoRA's alpha.
    pub lora_alpha: f64,
    /// Probability of dropout on the input of LoRA's adapters.
    pub lora_dropout: f64,
    /// The training of LoRA's A.
    pub lora_fa: LoraATraining,
    /// The blocks in which layers get an adapter, if not all.
    pub layers_to_transform: Option<&'a [usize]>,
    /// The modules that are trained and saved whole.
    pub modules_to_save: &'a [String],
    /// The model.
    pub model: &'a ModelOptions,
    /// The stack.
    pub stack: Stack,
    /// True if our trainer computes on a GPU.
    pub is_on_gpu: bool,
    /// True if samples share a row.
    pub is_packed: bool,
    /// True if a block recomputes its forward pass.
    pub has_checkpoints: bool,
    /// Decoupled weight decay.
    pub weight_decay: f64,
}
