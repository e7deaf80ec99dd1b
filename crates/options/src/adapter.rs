//! The options that decide the adapters of a model.

use serde_json::Value;

use super::methods::interface::{Layer, Method};
use super::{
    Adapter, AdapterMethod, Bias, Dtype, ExcludedModules, InitLoraWeights, Lora, LoraATraining, TargetModules, ends_in,
    matching,
};

/// Adapters: of linear layers, virtual tokens, or trained norms.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterOptions {
    /// The method, with its own options.
    pub method: AdapterMethod,
    /// The rank of methods that have one.
    pub rank: usize,
    /// LoRA's alpha: its product is scaled by alpha / rank.
    pub lora_alpha: f64,
    /// Probability of dropout on the input of LoRA's adapters.
    pub lora_dropout: f64,
    /// The training of LoRA's A.
    pub lora_fa: LoraATraining,
    /// The linear layers that get an adapter; PEFT's for the method and the family without.
    pub target_modules: Option<TargetModules>,
    /// Those of them that get none.
    pub exclude_modules: Option<ExcludedModules>,
    /// The blocks in which they get one; all, and what lies outside, without.
    pub layers_to_transform: Option<Vec<usize>>,
    /// The modules that are trained and saved whole: their names, or the ends of them.
    pub modules_to_save: Vec<String>,
    /// Number format of what is trained, its gradients and its optimizer states.
    pub dtype: Dtype,
}

impl AdapterOptions {
    /// LoRA on every linear layer, with `scale = alpha / rank` and no options of its own.
    pub fn lora(rank: usize, alpha: f64) -> Self {
        Self {
            lora_alpha: alpha,
            ..Self::of_rank(AdapterMethod::Lora(Lora::default()), rank)
        }
    }

    /// The method on every linear layer, in float32, without a rank.
    pub fn new(method: AdapterMethod) -> Self {
        Self::of_rank(method, 0)
    }

    /// The method on every linear layer, in float32.
    pub fn of_rank(method: AdapterMethod, rank: usize) -> Self {
        Self {
            method,
            rank,
            lora_alpha: 0.0,
            lora_dropout: 0.0,
            lora_fa: LoraATraining::Trained,
            target_modules: Some(TargetModules::AllLinear),
            exclude_modules: None,
            layers_to_transform: None,
            modules_to_save: Vec::new(),
            dtype: Dtype::Float32,
        }
    }

    /// The method without its options.
    pub fn adapter(&self) -> Adapter {
        self.method.adapter()
    }

    /// True if the factors are taken out of the weight.
    pub fn changes_weight(&self) -> bool {
        matches!(&self.method, AdapterMethod::Lora(lora) if lora.init_lora_weights.changes_weight())
    }

    /// Lets the factors start apart from the weight.
    pub fn leave_weight(&mut self) {
        if let AdapterMethod::Lora(lora) = &mut self.method {
            lora.init_lora_weights = InitLoraWeights::Default;
        }
    }

    /// The value of a key of a cell that the method has, such as `rank` or `lora.use_rslora`; null for others.
    pub fn value(&self, key: &str) -> Value {
        match key {
            "rank" => self.rank.into(),
            "lora_alpha" => self.lora_alpha.into(),
            "lora_dropout" => self.lora_dropout.into(),
            _ => key.split_once('.').map_or(Value::Null, |(_, own)| {
                // A method's options are a map with text keys, so they can always be written.
                let options = serde_json::to_value(&self.method).unwrap_or_default();
                options.get(own).cloned().unwrap_or_default()
            }),
        }
    }

    /// Sets the value of such a key.
    ///
    /// # Errors
    /// If the key cannot have it.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), serde_json::Error> {
        match key {
            "rank" => self.rank = serde_json::from_value(value)?,
            "lora_alpha" => self.lora_alpha = serde_json::from_value(value)?,
            "lora_dropout" => self.lora_dropout = serde_json::from_value(value)?,
            _ => {
                let mut options = serde_json::to_value(&self.method)?;
                if let Some((_, own)) = key.split_once('.') {
                    options[own] = value;
                }
                self.method = self.adapter().with_options(options)?;
            }
        }
        Ok(())
    }

    fn options(&self) -> &dyn Method {
        self.method.options()
    }

    /// The options of LoRA and DoRA.
    pub fn lora_options(&self) -> Option<&Lora> {
        match &self.method {
            AdapterMethod::Lora(lora) | AdapterMethod::Dora(lora) => Some(lora),
            _ => None,
        }
    }

    /// The rank of the adapter of the module called `module` in full; 0 of a method without ranks.
    pub fn rank_of(&self, module: &str) -> usize {
        let patterns = self.options().rank_pattern();
        let own = patterns.and_then(|patterns| matching(patterns, module));
        own.unwrap_or(self.rank)
    }

    /// The factor of what is added to the weight of the module called `module` in full; 1 of methods without one.
    pub fn scale_of(&self, module: &str) -> f64 {
        self.options().scale(self.rank_of(module), self.lora_alpha, module)
    }

    /// A linear layer as the method sees it: its name in full, its outputs and inputs, and whether IA3 scales the inputs.
    pub fn layer<'a>(&self, name: &'a str, [rows, columns]: [usize; 2], is_feedforward: bool) -> Layer<'a> {
        Layer {
            facts: self.adapter().facts(),
            name,
            rank: self.rank_of(name),
            lora_fa: self.lora_fa,
            rows,
            columns,
            is_feedforward,
        }
    }

    /// Virtual tokens before each sequence, which have positions.
    pub fn virtual_tokens(&self) -> usize {
        self.options().virtual_tokens()
    }

    /// Those of them that go through the blocks as tokens do.
    pub fn prompt_tokens(&self) -> usize {
        match &self.method {
            AdapterMethod::PromptTuning(prompt) => prompt.num_virtual_tokens,
            _ => 0,
        }
    }

    /// True if the module called `module` in full, or one around it, is trained and saved whole.
    pub fn saves_whole(&self, module: &str) -> bool {
        saves_whole(&self.modules_to_save, module)
    }

    /// Probability of dropout on the adapters' inputs.
    pub fn dropout(&self) -> f64 {
        match self.lora_options() {
            Some(_) => self.lora_dropout,
            None => self.options().dropout(),
        }
    }

    /// The biases that are trained beside the adapters.
    pub fn bias(&self) -> Bias {
        self.options().bias()
    }

    /// The learning rate of trained vectors over the step's.
    pub fn lr_ratio(&self) -> f64 {
        self.options().lr_ratio()
    }
}

/// True if `block` is one of `blocks`, or there is no such list.
pub fn is_in(blocks: Option<&[usize]>, block: Option<usize>) -> bool {
    blocks.is_none_or(|blocks| block.is_some_and(|block| blocks.contains(&block)))
}

/// True if the module called `module` in full, or one around it, is called by one of `names`.
pub fn saves_whole(names: &[String], module: &str) -> bool {
    let ends = module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
    let mut outer = ends.map(|end| &module[..end]);
    outer.any(|outer| names.iter().any(|name| ends_in(outer, name)))
}
