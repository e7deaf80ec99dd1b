//! The keys of a cell, with their defaults.

use std::collections::BTreeMap;

use arch::{Family, Preset, check, target_modules};
use options::{
    Adapter, Attention, AutoBatchSize, Autocast, BLOCK_SIZES, ByteSize, Checkpointing, DEFAULT_BLOCK_SIZE,
    DEFAULT_LABELS, Data, Dtype, Engine, Ia3, InstructionSetChoice, Loha, Lokr, Lora, LoraATraining, Loss, LossScaling,
    LrScheduler, Measure, Miss, NamePattern, Offload, Oft, Optimizer, PackingAttention, PackingSeparator, Padding,
    PrefixTuning, PromptTuning, QuantType, Stack, Synthetic, TargetModules, Task, Upcast, Vera, Weights,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::allocator::{Allocator, Variable};
use super::floating::floating_dtype;
use super::torch::Torch;

/// A full configuration. Field names are the spec's keys and keep the names of transformers' `TrainingArguments`,
/// PEFT's `LoraConfig` and bitsandbytes' `BitsAndBytesConfig`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cell {
    /// A preset, such as smollm2-135m or bert-base, or a directory in Hugging Face's layout.
    #[schemars(extend(
        "anyOf" = [{ "enum": Preset::names() }, { "type": "string" }],
        "description" = model_meaning()
    ))]
    pub model: String,
    /// The origin of the weights. Default: random for a preset, pretrained for a directory.
    pub weights: Option<Weights>,
    /// The objective: causal_lm (a decoder predicts each token from those before it) or sequence_classification (an
    /// encoder, DistilBERT or BERT, predicts a sample's label).
    pub task: Task,
    /// The number of labels of sequence_classification.
    #[schemars(range(min = 2))]
    pub num_labels: usize,
    /// Number format of the base weights. int4 is NF4 or FP4, int8 is row-wise absmax; hidden states are then bfloat16.
    pub dtype: Dtype,
    /// The software that trains: candle (our trainer) or torch (transformers, PEFT and bitsandbytes on a GPU, which is
    /// planned and not run).
    pub stack: Stack,
    /// The GPU of the plan, such as t4 or rtx-3090; `expctl list --gpus` prints all. It decides the memory, the size of the
    /// CUDA context, and the kernels.
    /// Default: unlimited memory, and the kernels of an A100.
    pub gpu: Option<String>,
    /// PyTorch's training loop, and the releases of its libraries.
    pub torch: Torch,

    /// Rank of the adapters; 0 trains the model's weights.
    pub rank: usize,
    /// The weights that rank 0 trains, by regular expressions for the ends of their modules' names or their own: [bias] is
    /// BitFit, ['.*norm'] trains a decoder's norms, and ['layers\.1\..*'] a block. The new head of an encoder is always
    /// trained. Default: all.
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub trainable: Option<Vec<NamePattern>>,
    /// The method of the adapters: lora, dora, ia3, miss, vera, oft, loha, lokr, prompt_tuning, prefix_tuning or ln_tuning. dora is PEFT's `use_dora: true`: it scales each row of
    /// W + BA, with W the weight and BA LoRA's product, to a trained magnitude, and our trainer has it without lora_dropout.
    /// ia3 trains a factor for each output of a layer, or each input, and has no rank. miss multiplies the sum of the input's
    /// shards with a trained block. vera trains vectors between and after random factors that all layers share.
    /// oft rotates the inputs of a layer block by block. loha adds the element-wise product of two low-rank products, and lokr
    /// the Kronecker product of a small matrix and a low-rank product.
    /// prompt_tuning trains the embeddings of virtual tokens before each sequence of a decoder, and prefix_tuning their keys and
    /// values in each block. ln_tuning trains the norms that PEFT chooses for the family.
    pub adapter: Adapter,
    /// The adapters by a file of PEFT: an `adapter_config.json`, or a folder with one; relative to the spec's file. It sets
    /// adapter, rank and the other keys that it has fields for. A field that asks for something else is an error, and so is a
    /// key beside it with another value.
    pub adapter_config: Option<String>,
    /// LoRA's alpha: the adapter's product is scaled by alpha / rank. Default: twice the rank.
    pub lora_alpha: Option<f64>,
    /// Dropout on the adapter's input.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub lora_dropout: f64,
    /// The linear layers that get an adapter: all-linear (all but the head), a list of the ends of their names such as [q_proj,
    /// v_proj] or [layers.0.self_attn.q_proj], or a regular expression for their names in full, such as '.*layers\.[01]\..*(q|v)_proj'. Names of DistilBERT are such as q_lin,
    /// of BERT such as query; the new head of an encoder is always trained. Default: all-linear; with ia3 PEFT's for the
    /// model's family, such as [k_proj, v_proj, down_proj].
    #[schemars(extend("oneOf" = [
        { "const": "all-linear" },
        {
            "type": "array",
            "items": {
                "anyOf": [
                    { "enum": target_modules(Family::ALL.iter().copied()) },
                    { "type": "string", "title": "more of a name", "pattern": r"\." }
                ]
            },
            "minItems": 1,
            "uniqueItems": true
        },
        { "type": "string", "title": "a regular expression for whole names", "pattern": r"[.*+?(\[{|\\^$)]" },
        { "type": "null" }
    ]))]
    pub target_modules: Option<TargetModules>,
    /// The blocks in which they get an adapter, with indices from 0. Default: all, and what lies outside of blocks.
    #[schemars(length(min = 1))]
    pub layers_to_transform: Option<Vec<usize>>,
    /// The modules that are trained and saved whole beside the adapters, by their names or the ends of them, such as
    /// [embed_tokens, lm_head] or [input_layernorm]. One of a tied embedding and head leaves the other as it was, as in PEFT.
    /// The head of an encoder is always among them.
    #[schemars(length(min = 1))]
    pub modules_to_save: Option<Vec<String>>,
    /// The folder of an adapter in PEFT's format that training goes on from, such as results/STUDY/cells/ID/adapter; relative
    /// to the spec's file. Its settings and modules must be this cell's. Default: a new adapter.
    pub init_adapter: Option<String>,
    /// LoRA-FA, which trains B alone. none: A is trained too. frozen: A has no gradients. optimizer: A has gradients, but the
    /// optimizer leaves it out, as happens once PEFT's disable_adapter was used; that is of PyTorch's stack.
    pub lora_fa: LoraATraining,
    /// Options of LoRA and DoRA in PEFT's words.
    pub lora: Lora,
    /// Options of IA3 in PEFT's words.
    pub ia3: Ia3,
    /// Options of MiSS in PEFT's words.
    pub miss: Miss,
    /// Options of VeRA in PEFT's words.
    pub vera: Vera,
    /// Options of OFT in PEFT's words.
    pub oft: Oft,
    /// Options of LoHa in PEFT's words.
    pub loha: Loha,
    /// Options of LoKr in PEFT's words.
    pub lokr: Lokr,
    /// Options of prompt tuning.
    pub prompt_tuning: PromptTuning,
    /// Options of prefix tuning.
    pub prefix_tuning: PrefixTuning,
    /// Number format of the adapters, their gradients and their optimizer states; galore's and rsvd's states stay float32. Our
    /// trainer has float32 and bfloat16.
    #[schemars(schema_with = "floating_dtype")]
    pub adapter_dtype: Dtype,

    /// 4-bit data type of int4.
    pub bnb_4bit_quant_type: QuantType,
    /// Consecutive weights that share a scale of int4, as bitsandbytes has them. transformers leaves the default.
    #[schemars(extend("enum" = BLOCK_SIZES))]
    pub bnb_4bit_blocksize: usize,
    /// Quantise int4's scales a second time.
    pub bnb_4bit_use_double_quant: bool,
    /// Number format of int4's products, and of the weights that int4 leaves unquantised; on PyTorch's stack, int8's too.
    #[schemars(schema_with = "floating_dtype")]
    pub bnb_4bit_compute_dtype: Dtype,
    /// int8's products with int8 activations (LLM.int8()): columns with an activation of this magnitude or more are
    /// multiplied in floating point, and 0 quantises all, which only saves a mask during the product. Default: our trainer quantises weights alone, and PyTorch's stack
    /// has transformers' 6.
    pub llm_int8_threshold: Option<f64>,
    /// How attention is computed. sdpa never holds the score matrix; eager holds the softmax weights of every query and key
    /// for the backward pass. flash_attention_2 is a package of PyTorch's stack, and our trainer's sdpa is such a kernel.
    pub attn_implementation: Attention,
    /// The causal loss in training. full: of the logits of all tokens at once, as transformers computes it. chunked: of
    /// some logits at a time. On PyTorch's stack that is TRL's `loss_type: chunked_nll`, SFTTrainer's default since
    /// 1.7, of at most 256 tokens at a time. Default: chunked for our trainer, full on PyTorch's stack.
    pub loss: Option<Loss>,
    /// The weights that are cast to float32 before training: none, peft or trl. peft casts all that are not quantised,
    /// as PEFT's prepare_model_for_kbit_training does. trl leaves the embeddings and the head out, as TRL's SFTTrainer
    /// with `bf16` does.
    pub upcast: Upcast,
    /// The format of mixed precision by torch.autocast: none, bfloat16 or float16. Products and what lies between them have
    /// it, weights and the residual stream stay float32.
    pub autocast: Autocast,
    /// The scale of the loss in the backward pass, so that small gradients do not vanish in float16: none or dynamic.
    /// dynamic is torch.amp.GradScaler: 65,536 at first, and twice that after 2,000 steps. Gradients that are not
    /// finite halve it, and their step is skipped. Default: dynamic for `autocast: float16`, else none.
    pub loss_scaling: Option<LossScaling>,
    /// Return the allocator's cache to the device every n steps; 0 never does. Our trainer returns it to the system
    /// (malloc_trim, mimalloc's collect), and the samples of its steps hold the figures before and after.
    pub empty_cache_steps: usize,

    /// Samples in a micro-batch.
    #[schemars(range(min = 1))]
    pub batch_size: usize,
    /// Micro-batches whose gradients are summed before an optimizer step.
    #[schemars(range(min = 1))]
    pub gradient_accumulation_steps: usize,
    /// The micro-batch is searched: the largest that the budget (device_memory, or the gpu) has room for. It is fixed before
    /// the cell gets its id.
    pub auto_batch_size: Option<AutoBatchSize>,
    /// The blocks that recompute their forward pass in the backward pass: none, full, {every: n}, {first: n} or
    /// {layers: [...]}, with indices from 0. {auto: SIZE} takes the fewest with which the cell fits this size.
    pub gradient_checkpointing: Checkpointing,
    /// The tensors that wait in the host's memory until they are needed: none, or a map of parts. weights are the
    /// frozen weights of blocks: {ratio: 0.5} of them, the last half, or a list of indices. embeddings, optimizer and
    /// checkpoints are true or false.
    pub offload: Offload,
    /// Samples are cut to this many tokens.
    #[schemars(range(min = 2))]
    pub max_seq_length: usize,
    /// Pad each micro-batch to max_seq_length, or to its longest sample.
    pub padding: Padding,
    /// Padded lengths are rounded up to a multiple of this, as by transformers' pad_to_multiple_of. Default: not.
    #[schemars(range(min = 1))]
    pub pad_to_multiple_of: Option<usize>,
    /// The most tokens of a micro-batch, padding included; batch_size stays the most samples. A step keeps its samples and
    /// has as many micro-batches as that needs, so the loss is the same. Default: no limit.
    #[schemars(range(min = 2))]
    pub max_tokens_per_batch: Option<usize>,
    /// Put samples of like lengths into one step, as transformers' group_by_length. Each epoch's order is cut into
    /// groups of 50 steps, or a fourth of the data if that is less. A group is sorted from long to short.
    pub group_by_length: bool,
    /// Steps in a group whose samples are sorted from long to short; 20 in PEFT's method comparison. Excludes
    /// group_by_length.
    #[schemars(range(min = 1))]
    pub length_buckets: Option<usize>,
    /// Begin with the step that has the largest micro-batch of the training, so that it shows at once if memory runs
    /// out. All other steps stay in their order.
    pub longest_first: bool,
    /// Lay the samples of a step one after the other in rows of max_seq_length tokens, without padding. batch_size is
    /// then the most rows of a micro-batch. A step has the same samples as without packing, and the same loss. On PyTorch's
    /// stack, TRL packs all samples before training, as torch.packing_strategy says.
    pub packing: bool,
    /// The token between two packed samples: none, or eos, the end of a text. Nothing is trained to predict it. It ends the
    /// sample before it, so with packing_attention: full alone it predicts a token, the next sample's first.
    pub packing_separator: PackingSeparator,
    /// The tokens that a packed token sees. block_diagonal: those before it in its sample, whose positions begin at 0.
    /// full: all before it in its row, as if the row were one text.
    pub packing_attention: PackingAttention,

    /// Optimizer steps. Default: 10, unless num_train_epochs is given.
    #[schemars(range(min = 1))]
    pub max_steps: Option<usize>,
    /// Passes over the training data; excludes max_steps.
    pub num_train_epochs: Option<f64>,
    /// The optimizer. Our trainer's galore and rsvd are adamw but for matrices with more rows and columns than optim_rank.
    /// On PyTorch's stack rsvd is rSVDAdam of HPMLProj, whose rank shrinks with a matrix's shorter side.
    pub optim: Optimizer,
    /// Rank of galore's and rsvd's optimizer state; on PyTorch's stack that of a matrix whose shorter side is the model's
    /// width. Default: 4.
    #[schemars(range(min = 1))]
    pub optim_rank: Option<usize>,
    /// Steps after which galore and rsvd refresh their basis. Default: 200.
    #[schemars(range(min = 1))]
    pub update_proj_gap: Option<usize>,
    /// Scale of galore's step when it leaves the basis. Default: 0.25.
    pub galore_scale: Option<f64>,
    /// Peak learning rate.
    #[schemars(range(min = 0.0))]
    pub learning_rate: f64,
    /// The learning rate after the warm-up: linear, cosine or constant.
    pub lr_scheduler_type: LrScheduler,
    /// Share of the steps over which the learning rate rises linearly from 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub warmup_ratio: f64,
    /// Decoupled weight decay.
    #[schemars(range(min = 0.0))]
    pub weight_decay: f64,
    /// AdamW's decay of the first moment; in lion the momentum's weight in a step's direction.
    pub adam_beta1: f64,
    /// AdamW's decay of the second moment; in lion the momentum's. Default: 0.999, for lion 0.99.
    pub adam_beta2: Option<f64>,
    /// AdamW's denominator floor.
    pub adam_epsilon: f64,
    /// Gradients are scaled down to this global L2 norm; 0 switches clipping off.
    #[schemars(range(min = 0.0))]
    pub max_grad_norm: f64,
    /// Seed of everything random: weights, adapter, order of the data, dropout.
    pub seed: u64,

    /// The training data: synthetic, sample, {synthetic: {lengths, samples}}, {path, ...} with files of your own, or
    /// hf://owner/name.
    pub data: Data,
    /// Share of the data that is held out; its loss after training is loss_eval.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub eval_fraction: f64,

    /// The part of training that the memory figures describe. epoch: the whole training. profile: the forward and backward
    /// passes of one step by component, after one optimizer step that made the optimizer's state.
    pub measure: Measure,

    /// The device that the trainer computes on.
    #[schemars(extend("pattern" = "^(cpu|cuda:(0|[1-9][0-9]*))$", "title" = "`cpu` or `cuda:N`"))]
    pub device: String,
    /// Threads of the trainer. Default: one for each available core.
    #[schemars(range(min = 1, max = 512))]
    pub threads: Option<usize>,
    /// The instructions of the trainer's kernels: auto (the fastest of the CPU), portable, avx2, avx512, avx512_bf16 or amx;
    /// each includes those before it. candle's own operations always use the best of the CPU.
    pub instruction_set: InstructionSetChoice,
    /// Budget on live tensor bytes, on the cpu only so far. A request beyond it ends the cell as out of memory.
    pub device_memory: Option<ByteSize>,
    /// Budget on the tensor bytes that `offload` keeps in the host's memory, on the cpu only so far; without `offload`, for
    /// `expctl fit` alone. A request beyond it ends
    /// the cell as out of memory.
    pub host_memory: Option<ByteSize>,
    /// Environment variables of the cell's process; null unsets one.
    #[schemars(with = "BTreeMap<String, Variable>")]
    pub env: BTreeMap<String, Option<String>>,
    /// The allocator of the cell's process.
    pub allocator: Allocator,
}

/// The description of `model`, with the families of today.
fn model_meaning() -> String {
    format!(
        "A preset, such as smollm2-135m or bert-base, a directory in Hugging Face's layout, or a model of the Hugging \
         Face Hub: `owner/name` or `hf://owner/name@revision`. Our trainer trains models whose \
         config.json has one of these types: {}.",
        check::trained().join(", ")
    )
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            model: "smollm2-135m".into(),
            weights: None,
            task: Task::CausalLm,
            num_labels: DEFAULT_LABELS,
            dtype: Dtype::Int4,
            stack: Stack::Candle,
            gpu: None,
            torch: Torch::default(),
            rank: 16,
            trainable: None,
            adapter: Adapter::Lora,
            adapter_config: None,
            lora_alpha: None,
            lora_dropout: 0.0,
            target_modules: None,
            layers_to_transform: None,
            modules_to_save: None,
            init_adapter: None,
            lora_fa: LoraATraining::Trained,
            lora: Lora::default(),
            ia3: Ia3::default(),
            miss: Miss::default(),
            vera: Vera::default(),
            oft: Oft::default(),
            loha: Loha::default(),
            lokr: Lokr::default(),
            prompt_tuning: PromptTuning::default(),
            prefix_tuning: PrefixTuning::default(),
            adapter_dtype: Dtype::Float32,
            bnb_4bit_quant_type: QuantType::Nf4,
            bnb_4bit_blocksize: DEFAULT_BLOCK_SIZE,
            bnb_4bit_use_double_quant: true,
            bnb_4bit_compute_dtype: Dtype::Bfloat16,
            llm_int8_threshold: None,
            attn_implementation: Attention::Sdpa,
            loss: None,
            upcast: Upcast::None,
            autocast: Autocast::None,
            loss_scaling: None,
            empty_cache_steps: 0,
            batch_size: 1,
            gradient_accumulation_steps: 1,
            auto_batch_size: None,
            gradient_checkpointing: Checkpointing::None,
            offload: Offload::NONE,
            max_seq_length: 128,
            padding: Padding::MaxLength,
            pad_to_multiple_of: None,
            max_tokens_per_batch: None,
            group_by_length: false,
            length_buckets: None,
            longest_first: false,
            packing: false,
            packing_separator: PackingSeparator::None,
            packing_attention: PackingAttention::BlockDiagonal,
            max_steps: None,
            num_train_epochs: None,
            optim: Optimizer::Adamw,
            optim_rank: None,
            update_proj_gap: None,
            galore_scale: None,
            learning_rate: 1e-4,
            lr_scheduler_type: LrScheduler::Linear,
            warmup_ratio: 0.0,
            weight_decay: 0.0,
            adam_beta1: 0.9,
            adam_beta2: None,
            adam_epsilon: 1e-8,
            max_grad_norm: 1.0,
            seed: 0,
            data: Data::Synthetic(Synthetic::default()),
            eval_fraction: 0.0,
            measure: Measure::Epoch,
            device: "cpu".into(),
            threads: None,
            instruction_set: InstructionSetChoice::Auto,
            device_memory: None,
            host_memory: None,
            env: BTreeMap::new(),
            allocator: Allocator::default(),
        }
    }
}

/// The model, and the values of its keys and of the adapters' that may be left out.
impl Cell {
    /// What runs the cell; `None` if it is predicted alone.
    pub fn engine(&self) -> Option<Engine> {
        self.stack.engine()
    }

    /// The text of `cell.yaml`: every key.
    pub fn to_yaml(&self) -> String {
        // Every key is a number, a text, a list or a map with text keys, so this cannot fail.
        serde_saphyr::to_string(self).unwrap_or_default()
    }

    /// True if the model is a preset.
    pub fn is_preset(&self) -> bool {
        Preset::named(&self.model).is_some()
    }

    /// The origin of the weights.
    pub fn weights(&self) -> Weights {
        self.weights.unwrap_or(self.default_weights())
    }

    pub(super) fn default_weights(&self) -> Weights {
        if self.is_preset() {
            Weights::Random
        } else {
            Weights::Pretrained
        }
    }

    /// The method of the adapters; `None` if the model's own weights are trained.
    pub fn method(&self) -> Option<Adapter> {
        (self.rank > 0).then_some(self.adapter)
    }

    /// True if every weight is trained.
    pub fn trains_all(&self) -> bool {
        self.method().is_none() && self.trainable.is_none()
    }

    /// LoRA's alpha.
    pub fn lora_alpha(&self) -> f64 {
        self.lora_alpha.unwrap_or(self.default_alpha())
    }

    /// The value of `lora_alpha` that keeps the adapters' scale at another rank; not that of modules with a rank of
    /// their own.
    pub fn alpha_at_rank(&self, rank: usize) -> Option<f64> {
        let ratio = rank as f64 / self.rank as f64;
        match self.lora.use_rslora {
            true => Some(self.lora_alpha() * ratio.sqrt()),
            false => self.lora_alpha.map(|alpha| alpha * ratio),
        }
    }

    pub(super) fn default_alpha(&self) -> f64 {
        2.0 * self.rank as f64
    }

    /// The linear layers that get an adapter; `None` for those that PEFT chooses by the model's family.
    pub fn target_modules(&self) -> Option<TargetModules> {
        self.target_modules.clone().or(self.default_targets())
    }

    pub(super) fn default_targets(&self) -> Option<TargetModules> {
        self.adapter.is_of_all_layers().then_some(TargetModules::AllLinear)
    }
}
