//! The keys of a cell, with their defaults.

use std::collections::BTreeMap;

use super::acts::{
    BERT, FULL, GALORE, IA3, INT4, INT8, LOHA, LOKR, LONGEST, LORA, MISS, Move::*, OFT, PACKED, PREFIX, PROMPT, RSVD,
    SEARCHED, SEARCHED_GPU, SGD, TEXTS, UNEVEN, VERA, both, candle, torch,
};
use super::allocator::{Allocator, Variable};
use super::facts::{CANDLE, Facts, Idle, NO_ENGINE, NO_WARMUP, TORCH, UNPACKED};
use super::fsdp::FsdpConfig;
use super::map::cell_keys;
use super::plain::{plain_blocks, plain_data, plain_excluded, plain_offload, plain_targets, sorted, unless};
use super::torch::Torch;
use super::zero::ZeroOptimization;
use super::{of_data, of_methods, of_schedules};
use arch::{Family, Preset, check, target_modules};
use options::{
    Adapter, AdapterMethod, Attention, AutoBatchSize, Autocast, BLOCK_SIZES, ByteSize, Checkpointing,
    DEFAULT_BLOCK_SIZE, DEFAULT_LABELS, Data, Distributed, Dtype, Engine, ExcludedModules, FloatDtype, Ia3,
    InstructionSetChoice, LnTuning, Loha, Lokr, Lora, LoraATraining, Loss, LossScaling, LrScheduler, LrSchedulerKwargs,
    Measure, Miss, NamePattern, Offload, Oft, Optimizer, PackingAttention, PackingSeparator, Padding, PrefixTuning,
    PromptTuning, QuantType, Stack, StepsOrRatio, Synthetic, TargetModules, Task, Upcast, Vera, Weights,
};

/// Optimizer steps if neither `max_steps` nor `num_train_epochs` is given.
pub(super) const DEFAULT_STEPS: usize = 10;

/// `llm_int8_threshold` of transformers' `BitsAndBytesConfig`.
pub(super) const TRANSFORMERS_INT8_THRESHOLD: f64 = 6.0;

/// galore-torch and transformers have 128 for galore, which is more than most adapters' ranks and small models' sides.
pub(super) const DEFAULT_OPTIM_RANK: usize = 4;
/// The two as in transformers' `galore_adamw`.
pub(super) const DEFAULT_PROJ_GAP: usize = 200;
pub(super) const DEFAULT_GALORE_SCALE: f64 = 0.25;

cell_keys! {
    /// A full configuration. Field names are the spec's keys and keep the names of transformers' `TrainingArguments`,
    /// PEFT's `LoraConfig` and bitsandbytes' `BitsAndBytesConfig`.
    pub struct Cell of Cell {
        /// A preset, such as smollm2-135m or bert-base, or a directory in Hugging Face's layout.
        #[schemars(extend(
            "anyOf" = [{ "enum": Preset::names() }, { "type": "string" }],
            "description" = model_meaning()
        ))]
        model: String = "smollm2-135m".into() => {
            aliases: ["base_model", "model_name_or_path"],
            no_technique: "another model is another experiment",
            acts: [
                torch(LORA, "smollm2-135m", &[Bytes, File]),
                candle(LORA, "./files/qwen", &[Bytes, Loss]).with("weights: random"),
            ],
        }
        /// The origin of the weights; a plan is the same for both. Default: random for a preset, pretrained for a directory.
        weights: Option<Weights> = None => {
            open: |cell| Some(cell.default_weights()),
            heeded: |cell| cell.engine.is_some(),
            example: "random",
            no_technique: "weights of any origin have the same bytes",
            of_training: true,
            acts: [candle("model: ./files/llama", "random", &[Loss])],
        }
        /// The objective: causal_lm (a decoder predicts each token from those before it) or sequence_classification (an
        /// encoder, DistilBERT or BERT, predicts a sample's label).
        task: Task = Task::CausalLm => {
            no_technique: "the model has one",
            acts: [
                both(
                    LORA,
                    "sequence_classification",
                    &[Bytes, File, Loss],
                    &[Bytes, File]).with("model: ./files/bert, weights: random",
                ),
            ],
        }
        /// The number of labels of sequence_classification.
        #[schemars(range(min = 2))]
        num_labels: usize = DEFAULT_LABELS => {
            heeded: |cell| cell.task != Task::CausalLm,
            idle: Idle::by("task", "a causal language model has no labels").or("write `task: sequence_classification`"),
            no_technique: "a fact of the data",
            acts: [both(BERT, "3", &[Bytes, File, Loss], &[Bytes, File])],
        }
        /// Number format of the base weights. int4 is NF4 or FP4, int8 is row-wise absmax; hidden states are then bfloat16.
        dtype: Dtype = Dtype::Int4 => {
            aliases: ["precision", "torch_dtype"],
            acts: [
                both(LORA, "bfloat16", &[Bytes, Loss], &[Bytes]),
                both(LORA, "int4", &[Bytes, Loss], &[Bytes]),
            ],
        }
        /// The software that trains: candle (our trainer) or torch (transformers, PEFT and bitsandbytes on a GPU), which is
        /// planned, and run with `engine: python`.
        stack: Stack = Stack::Candle => {
            no_technique: "another stack is another experiment",
            acts: [
                candle(LORA, "torch", &[Bytes]),
                torch(LORA, "candle", &[Bytes]),
            ],
        }
        /// What runs the cell: candle, our trainer, or python, which trains with PyTorch, transformers, PEFT and bitsandbytes in a
        /// Python of yours. It sets `stack`. Default: candle for `stack: candle`; cells of `stack: torch` are planned alone.
        engine: Option<Engine> = None => {
            open: |cell| cell.stack.default_engine(),
            example: "candle",
            no_technique: "another engine is another experiment",
            untried: "it needs a Python with PyTorch",
        }
        /// The GPU of the plan, such as t4 or rtx-3090; `expctl list --gpus` prints all. It decides the memory, the size of the
        /// CUDA context, and the kernels.
        /// Default: unlimited memory, and the kernels of an A100.
        gpu: Option<String> = None => {
            stacks: TORCH,
            example: "''",
            no_technique: "the budget of the search, not a way to fit it",
            acts: [
                torch(LORA, "h100-80gb", &[Bytes]),
                torch(LORA, "t4", &[Report]),
            ],
        }
        /// Processes that train together, each on a GPU of its own: each trains on its share of the micro-batches. A plan is of
        /// the one with the largest.
        world_size: usize = 1 => {
            stacks: TORCH,
            aliases: ["num_processes", "num_gpus", "n_gpu", "nproc_per_node"],
            no_technique: "the machine of the run; each process of DDP holds all",
            acts: [torch(LORA, "2", &[Bytes])],
        }
        /// How the processes share the work: with `ddp` (`DistributedDataParallel`) each holds the whole model, with `fsdp`
        /// (`FullyShardedDataParallel`) a part of it. With `deepspeed` (DeepSpeed's ZeRO) each holds a part of what
        /// zero_optimization says; one process alone may train so, too.
        distributed: Distributed = Distributed::Ddp => {
            stacks: TORCH,
            heeded: |cell| cell.world_size > 1 || cell.distributed == Distributed::Deepspeed,
            idle: Idle::by("world_size", "one process shares nothing").or("use `world_size: 2` or more"),
            aliases: ["distributed_type"],
            acts: [
                torch("rank: 0, world_size: 2", "fsdp", &[Bytes]),
                torch("rank: 0, world_size: 2", "deepspeed", &[Bytes]),
                torch(FULL, "deepspeed", &[Bytes]),
            ],
        }
        /// How FSDP shares the model.
        fsdp_config: FsdpConfig = FsdpConfig::default() => {
            filled: |fsdp, cell| fsdp.filled(&cell.deciding()),
            plain: |fsdp, cell| fsdp.plain(&cell.deciding()),
            stacks: TORCH,
            heeded: |cell| cell.world_size > 1 && cell.distributed == Distributed::Fsdp,
            acts: [torch("rank: 0, world_size: 2, distributed: fsdp", "{sharding_strategy: shard_grad_op}", &[Bytes])],
            nested: FsdpConfig::FACTS,
        }
        /// The processes by a file of `accelerate config`; relative to the spec's file. It sets distributed, world_size, autocast,
        /// what fsdp_config has of its `fsdp_config`, and zero_optimization and dtype by its `deepspeed_config`; keys beside it have the
        /// last word, as the launcher's options have. A field that asks for something else is an error.
        accelerate_config: Option<String> = None => {
            plain: |_, _| None,
            stacks: TORCH,
            example: "''",
            no_technique: "another way to write distributed, fsdp_config and zero_optimization",
            acts: [torch("rank: 0", "files/accelerate.yaml", &[Bytes])],
        }
        /// How DeepSpeed's ZeRO shares the model, by DeepSpeed's names, and accelerate's of what is offloaded.
        zero_optimization: ZeroOptimization = ZeroOptimization::default() => {
            filled: |zero, cell| match cell.is_deepspeed() {
                true => ZeroOptimization {
                    overlap_comm: Some(zero.overlaps()),
                    ..zero.filled(&cell.deciding())
                },
                false => zero,
            },
            plain: |zero, cell| ZeroOptimization {
                overlap_comm: unless(zero.overlap_comm, &zero.overlaps_by_default()),
                ..zero.plain(&cell.deciding())
            },
            stacks: TORCH,
            heeded: |cell| cell.distributed == Distributed::Deepspeed,
            acts: [torch("rank: 0, world_size: 2, distributed: deepspeed", "{stage: 3}", &[Bytes])],
            nested: ZeroOptimization::FACTS,
        }
        /// ZeRO by a JSON file of DeepSpeed, as transformers' Trainer takes it; relative to the spec's file. It sets distributed,
        /// zero_optimization, dtype, the optimizer, its numbers, and the sizes of batches. Keys of zero_optimization beside it have the last
        /// word; another value of another key is an error, as in the Trainer. What it has as "auto" is left to the cell. A field that asks for something else is
        /// an error.
        deepspeed_config: Option<String> = None => {
            plain: |_, _| None,
            stacks: TORCH,
            example: "''",
            no_technique: "another way to write distributed, zero_optimization and others",
            acts: [torch("rank: 0, world_size: 2", "files/deepspeed.json", &[Bytes])],
        }
        /// PyTorch's training loop, and the releases of its libraries.
        torch: Torch = Torch::default() => {
            filled: |torch, cell| torch.filled(&cell.deciding()),
            plain: |torch, cell| torch.plain(&cell.deciding()),
            stacks: TORCH,
            acts: [torch(LORA, "{keep_outputs: none}", &[Bytes])],
            nested: Torch::FACTS,
        }

        /// Rank of the adapters; 0 trains the model's weights.
        rank: usize = 16 => {
            aliases: ["r", "lora_r", "lora_rank"],
            acts: [both(LORA, "8", &[Bytes, File, Loss], &[Bytes, File])],
        }
        /// The weights that rank 0 trains, by regular expressions for the ends of their modules' names or their own: [bias] is
        /// BitFit, ['.*norm'] trains a decoder's norms, and ['layers\.1\..*'] a block. The new head of an encoder is always
        /// trained. Default: all.
        #[schemars(with = "Option<Vec<String>>", length(min = 1))]
        trainable: Option<Vec<NamePattern>> = None => {
            plain: |list, _| list.map(sorted),
            heeded: |cell| cell.method().is_none(),
            idle: Idle::by("rank", "adapters leave the model's weights as they are").or("use `rank: 0`"),
            example: "[]",
            no_technique: "what is trained is the experiment",
            acts: [both(FULL, "['.*norm']", &[Bytes, Loss], &[Bytes])],
        }
        /// The method of the adapters.
        #[schemars(extend("description" = adapter_meaning()))]
        adapter: Adapter = Adapter::Lora => {
            of_adapters: true,
            aliases: ["use_dora", "peft_use_dora"],
            acts: [both(LORA, "dora", &[Bytes, File, Loss], &[Bytes, File])],
        }
        /// The adapters by a file of PEFT: an `adapter_config.json`, or a folder with one, relative to the spec's file; or the name
        /// of an adapter on the Hugging Face Hub, such as owner/name. It sets
        /// adapter, rank and the other keys that it has fields for. A field that asks for something else is an error, and so is a
        /// key beside it with another value.
        adapter_config: Option<String> = None => {
            plain: |_, _| None,
            of_adapters: true,
            aliases: ["peft_config"],
            example: "''",
            no_technique: "another way to write adapter, rank and the others",
            acts: [both(LORA, "files/adapter", &[Bytes, File, Loss], &[Bytes, File])],
        }
        /// LoRA's alpha: the adapter's product is scaled by alpha / rank. Default: twice the rank.
        lora_alpha: Option<f64> = None => {
            open: |cell| Some(cell.default_alpha()),
            aliases: ["alpha"],
            example: "32.0",
            of_training: true,
            acts: [candle(LORA, "16", &[Loss])],
        }
        /// Dropout on the adapter's input.
        #[schemars(range(min = 0.0, max = 1.0))]
        lora_dropout: f64 = 0.0 => {
            aliases: ["dropout"],
            acts: [both(LORA, "0.1", &[Loss], &[Bytes])],
        }
        /// The linear layers that get an adapter: all-linear (all but the head), a list of the ends of their names such as [q_proj,
        /// v_proj] or [layers.0.self_attn.q_proj], or a regular expression for their names in full, such as '.*layers\.[01]\..*(q|v)_proj'. Names of DistilBERT are such as q_lin,
        /// of BERT such as query; the new head of an encoder is always trained. peft is what PEFT chooses by the model's type where it is told no
        /// layers, such as [q_proj, v_proj] of Llama. Default: all-linear; with ia3 PEFT's for the
        /// model's family, such as [k_proj, v_proj, down_proj].
        #[schemars(extend("oneOf" = [
            { "const": "all-linear" },
            { "const": "peft" },
            {
                "type": "array",
                "items": {
                    "anyOf": [
                        { "enum": target_modules(Family::ALL.iter().copied()) },
                        { "const": "lm_head" },
                        { "type": "string", "title": "more of a name", "pattern": r"\." }
                    ]
                },
                "minItems": 1,
                "uniqueItems": true
            },
            { "type": "string", "title": "a regular expression for whole names", "pattern": r"[.*+?(\[{|\\^$)]" },
            { "type": "null" }
        ]))]
        target_modules: Option<TargetModules> = None => {
            open: Cell::default_targets,
            plain: |targets, cell| cell.plain_choice(targets).map(plain_targets),
            aliases: ["lora_target_modules"],
            example: "all-linear",
            acts: [both(LORA, "[q_proj, v_proj]", &[Bytes, File, Loss], &[Bytes, File])],
        }
        /// Those of them that get none: a list of the ends of their names, or a regular expression for their names in full, as in PEFT.
        #[schemars(length(min = 1))]
        exclude_modules: Option<ExcludedModules> = None => {
            plain: |excluded, _| excluded.map(plain_excluded),
            example: "[v_proj]",
            no_technique: "what is trained is the experiment; target_modules and rank are searched",
            acts: [both(LORA, "[v_proj]", &[Bytes, File, Loss], &[Bytes, File])],
        }
        /// The blocks in which they get an adapter, with indices from 0. Default: all, and what lies outside of blocks.
        #[schemars(length(min = 1))]
        layers_to_transform: Option<Vec<usize>> = None => {
            plain: |list, _| list.map(sorted),
            example: "[0]",
            no_technique: "what is trained is the experiment; target_modules and rank are searched",
            acts: [both(LORA, "[0]", &[Bytes, File, Loss], &[Bytes, File])],
        }
        /// The modules that are trained and saved whole beside the adapters, by their names or the ends of them, such as
        /// [embed_tokens, lm_head] or [input_layernorm]. One of a tied embedding and head leaves the other as it was, as in PEFT.
        /// The head of an encoder is always among them.
        #[schemars(length(min = 1))]
        modules_to_save: Option<Vec<String>> = None => {
            plain: |list, _| list.map(sorted),
            example: "[]",
            no_technique: "only adds what is trained",
            acts: [both(LORA, "[input_layernorm]", &[Bytes, File, Loss], &[Bytes, File])],
        }
        /// The folder of an adapter in PEFT's format that training goes on from, such as results/STUDY/cells/ID/adapter; relative
        /// to the spec's file. Its settings and modules must be this cell's. Default: a new adapter.
        init_adapter: Option<String> = None => {
            stacks: CANDLE,
            of_adapters: true,
            example: "''",
            no_technique: "start values, without bytes",
            acts: [candle(LORA, "files/init", &[Loss])],
        }
        /// LoRA-FA, which trains B alone. none: A is trained too. frozen: A has no gradients. optimizer: A has gradients, but the
        /// optimizer leaves it out, as happens once PEFT's disable_adapter was used; that is of PyTorch's stack.
        lora_fa: LoraATraining = LoraATraining::Trained => {
            acts: [
                both(LORA, "frozen", &[Bytes, Loss], &[Bytes]),
                torch(LORA, "optimizer", &[Bytes]),
            ],
        }
        /// Options of LoRA and DoRA in PEFT's words.
        lora: Lora = Lora::default() => {
            filled: |lora, _| Lora { loraplus_lr_ratio: lora.loraplus_lr_ratio.or(Some(1.0)), ..lora },
            plain: |lora, _| Lora { loraplus_lr_ratio: unless(lora.loraplus_lr_ratio, &1.0), ..lora },
            no_technique: "numbers of training, and rank_pattern repeats rank",
            acts: [both(LORA, "{rank_pattern: {q_proj: 4}}", &[Bytes, File, Loss], &[Bytes, File])],
            nested: of_methods::LORA_OPTIONS,
        }
        /// Options of IA3 in PEFT's words.
        ia3: Ia3 = Ia3::default() => {
            no_technique: "a few vectors",
            acts: [both(IA3, "{feedforward_modules: []}", &[Bytes, File, Loss], &[Bytes, File])],
            nested: of_methods::IA3_OPTIONS,
        }
        /// Options of MiSS in PEFT's words.
        miss: Miss = Miss::default() => {
            plain: |miss, _| Miss { mini_r: unless(miss.mini_r, &1), ..miss },
            no_technique: "they decide what can be learned",
            acts: [both(MISS, "{init_weights: mini}", &[Bytes, File, Loss], &[Bytes, File])],
            nested: of_methods::MISS_OPTIONS,
        }
        /// Options of VeRA in PEFT's words.
        vera: Vera = Vera::default() => {
            no_technique: "they decide what can be learned",
            acts: [both(VERA, "{save_projection: false}", &[File], &[File])],
            nested: of_methods::VERA_OPTIONS,
        }
        /// Options of OFT in PEFT's words.
        oft: Oft = Oft::default() => {
            no_technique: "its blocks are the capacity of the method",
            acts: [both(OFT, "{oft_block_size: 16}", &[Bytes, File, Loss], &[Bytes, File])],
            nested: of_methods::OFT_OPTIONS,
        }
        /// Options of LoHa in PEFT's words.
        loha: Loha = Loha::default() => {
            no_technique: "they decide what can be learned",
            acts: [both(LOHA, "{rank_pattern: {q_proj: 4}}", &[Bytes, File, Loss], &[Bytes, File])],
            nested: of_methods::LOHA_OPTIONS,
        }
        /// Options of LoKr in PEFT's words.
        lokr: Lokr = Lokr::default() => {
            no_technique: "they decide what can be learned",
            acts: [both(LOKR, "{decompose_factor: 4}", &[Bytes, File, Loss], &[Bytes, File])],
            nested: of_methods::LOKR_OPTIONS,
        }
        /// Options of prompt tuning.
        prompt_tuning: PromptTuning = PromptTuning::default() => {
            no_technique: "the virtual tokens are the capacity of the method",
            acts: [both(PROMPT, "{num_virtual_tokens: 8}", &[Bytes, File, Loss], &[Bytes, File])],
            nested: of_methods::PROMPT_TUNING_OPTIONS,
        }
        /// Options of prefix tuning.
        prefix_tuning: PrefixTuning = PrefixTuning::default() => {
            no_technique: "the virtual tokens are the capacity of the method",
            acts: [both(PREFIX, "{num_virtual_tokens: 8}", &[Bytes, File, Loss], &[Bytes, File])],
            nested: of_methods::PREFIX_TUNING_OPTIONS,
        }
        /// Number format of the adapters, their gradients and their optimizer states; galore's and rsvd's states stay float32. Our
        /// trainer has float32 and bfloat16. DeepSpeed casts adapters with the model.
        adapter_dtype: FloatDtype = FloatDtype::Float32 => {
            heeded: |cell| cell.distributed != Distributed::Deepspeed,
            idle: Idle::by("distributed", "DeepSpeed casts adapters to the format of the model"),
            acts: [both(LORA, "bfloat16", &[Bytes, Loss], &[Bytes, File])],
        }

        /// 4-bit data type of int4.
        bnb_4bit_quant_type: QuantType = QuantType::Nf4 => {
            heeded: |cell| cell.dtype == Dtype::Int4,
            idle: Idle::by("dtype", "only int4 has codes of 4 bits").or("use `dtype: int4`"),
            no_technique: "both types have 4 bits",
            of_training: true,
            acts: [candle(INT4, "fp4", &[Loss])],
        }
        /// Consecutive weights that share a scale of int4, as bitsandbytes has them. transformers leaves the default.
        #[schemars(extend("enum" = BLOCK_SIZES))]
        bnb_4bit_blocksize: usize = DEFAULT_BLOCK_SIZE => {
            heeded: |cell| cell.dtype == Dtype::Int4,
            idle: Idle::by("dtype", "only int4 has scales of blocks").or("use `dtype: int4`"),
            no_technique: "saves 0.1 bit a weight at most beside double quantisation",
            acts: [both("dtype: int4, bnb_4bit_use_double_quant: false", "128", &[Bytes, Loss], &[Bytes])],
        }
        /// Quantise int4's scales a second time.
        bnb_4bit_use_double_quant: bool = true => {
            heeded: |cell| cell.dtype == Dtype::Int4,
            idle: Idle::by("dtype", "only int4 has scales to quantise twice").or("use `dtype: int4`"),
            acts: [both(INT4, "false", &[Bytes, Loss], &[Bytes])],
        }
        /// Number format of int4's products, and of the weights that int4 leaves unquantised; on PyTorch's stack, int8's too.
        bnb_4bit_compute_dtype: FloatDtype = FloatDtype::Bfloat16 => {
            heeded: |cell| match cell.stack {
                Stack::Candle => cell.dtype == Dtype::Int4,
                Stack::Torch => cell.dtype.is_quantised(),
            },
            idle: Idle::by("dtype", "only int4 has products of its own format").or("use `dtype: int4`"),
            acts: [
                both(INT4, "float32", &[Bytes, Loss], &[Bytes]),
                torch(INT8, "float32", &[Bytes]),
            ],
        }
        /// int8's products with int8 activations (LLM.int8()): columns with an activation of this magnitude or more are
        /// multiplied in floating point, and 0 quantises all. That only saves a mask during the product, so no plan moves by it.
        /// Default: our trainer quantises weights alone, and PyTorch's stack has transformers' 6.
        llm_int8_threshold: Option<f64> = None => {
            plain: |threshold, cell| match cell.stack {
                Stack::Candle => threshold,
                Stack::Torch => unless(threshold, &TRANSFORMERS_INT8_THRESHOLD),
            },
            heeded: |cell| cell.dtype == Dtype::Int8,
            idle: Idle::by("dtype", "only int8 has products of 8 bits").or("use `dtype: int8`"),
            example: "6.0",
            of_training: true,
            acts: [
                candle(INT8, "6", &[Loss]),
                candle("dtype: int8, llm_int8_threshold: 6", "1", &[Loss]),
            ],
        }
        /// How attention is computed. sdpa never holds the score matrix; eager holds the softmax weights of every query and key
        /// for the backward pass. flash_attention_2 is a package of PyTorch's stack, and our trainer's sdpa is such a kernel.
        attn_implementation: Attention = Attention::Sdpa => {
            acts: [both(LORA, "eager", &[Bytes], &[Bytes])],
        }
        /// The causal loss in training. full: of the logits of all tokens at once, as transformers computes it. chunked: of
        /// some logits at a time. On PyTorch's stack that is TRL's `loss_type: chunked_nll`, SFTTrainer's default from 1.7 to
        /// 1.14, of at most 256 tokens at a time. Only PyTorch's stack has the others: tiled is SFTTrainer's since 1.15; liger is
        /// Liger's fused linear cross-entropy without its other kernels; cut_cross_entropy is Apple's. Default: chunked for our
        /// trainer, on PyTorch's stack as torch.trl_version says, else full.
        loss: Option<Loss> = None => {
            open: |cell| Some(cell.default_loss()),
            heeded: |cell| cell.task == Task::CausalLm,
            idle: Idle::by("task", "a classifier has one row of logits a sample"),
            example: "chunked",
            acts: [
                candle(LORA, "full", &[Bytes, Loss]),
                torch(LORA, "chunked", &[Bytes]),
                torch(LORA, "tiled", &[Bytes]),
                torch(LORA, "liger", &[Bytes]),
                torch(LORA, "cut_cross_entropy", &[Bytes]),
            ],
        }
        /// The weights that are cast to float32 before training: none, peft or trl. peft casts all that are not quantised,
        /// as PEFT's prepare_model_for_kbit_training does. trl leaves the embeddings and the head out, as TRL's SFTTrainer
        /// with `bf16` does.
        upcast: Upcast = Upcast::None => {
            heeded: |cell| cell.dtype.is_quantised(),
            idle: Idle::by("dtype", "PEFT's k-bit preparation is for quantised weights")
                .or("use `dtype: int4` or `int8`"),
            acts: [both(INT4, "peft", &[Bytes, Loss], &[Bytes])],
        }
        /// The format of mixed precision by torch.autocast: none, bfloat16 or float16. Products and what lies between them have
        /// it, weights and the residual stream stay float32.
        autocast: Autocast = Autocast::None => {
            aliases: ["bf16", "fp16"],
            acts: [both(LORA, "bfloat16", &[Bytes, Loss], &[Bytes])],
        }
        /// The scale of the loss in the backward pass, so that small gradients do not vanish in float16: none or dynamic.
        /// dynamic is torch.amp.GradScaler: 65,536 at first, and twice that after 2,000 steps. Gradients that are not
        /// finite halve it, and their step is skipped. Default: dynamic for `autocast: float16`, else none.
        loss_scaling: Option<LossScaling> = None => {
            open: |cell| Some(cell.default_loss_scaling()),
            heeded: |cell| cell.engine.is_some(),
            idle: NO_ENGINE,
            example: "dynamic",
            no_technique: "a number of training, without bytes",
            of_training: true,
            acts: [
                candle("autocast: float16", "none", &[Loss]),
                candle("dtype: float16", "dynamic", &[Loss]),
            ],
        }
        /// Return the allocator's cache to the device every n steps; 0 never does. Our trainer returns it to the system
        /// (malloc_trim, mimalloc's collect), and the samples of its steps hold the figures before and after.
        empty_cache_steps: usize = 0 => {
            heeded: |cell| cell.measure == Measure::Epoch,
            aliases: ["torch_empty_cache_steps"],
            acts: [
                candle("allocator: {backend: system}", "1", &[Bytes]),
                torch(
                    "model: smollm2-135m, max_seq_length: 64, data: {synthetic: {lengths: uniform}}, \
                     batch_size: 2, padding: longest",
                    "1",
                    &[Bytes],
                ),
            ],
        }

        /// Samples in a micro-batch.
        #[schemars(range(min = 1))]
        batch_size: usize = 1 => {
            aliases: ["per_device_train_batch_size", "micro_batch_size"],
            acts: [both(LORA, "2", &[Bytes, Loss, Tokens], &[Bytes])],
        }
        /// Micro-batches whose gradients are summed before an optimizer step.
        #[schemars(range(min = 1))]
        gradient_accumulation_steps: usize = 1 => {
            acts: [both(LORA, "2", &[Bytes, Loss, Tokens], &[Bytes])],
        }
        /// The micro-batch is searched: the largest that the budget (device_memory, or the gpu) has room for. It is fixed before
        /// the cell gets its id.
        auto_batch_size: Option<AutoBatchSize> = None => {
            example: "{start: 1, min: 1, max: 1, search: largest}",
            no_technique: "a search of its own, which comes to batch_size",
            acts: [
                candle("device_memory: 8MiB", "{start: 2, max: 2}", &[Bytes, Loss, Tokens]),
                torch("gpu: t4", "{start: 2, max: 2}", &[Bytes]),
            ],
            nested: &[
                ("start", Facts::acting(&[
                        candle(
                            "device_memory: 8MiB, auto_batch_size: {start: 2, max: 4}, gradient_accumulation_steps: 2",
                            "4",
                            &[Bytes, Loss, Tokens],
                        ),
                        torch(
                            "gpu: t4, auto_batch_size: {start: 2, max: 4}, gradient_accumulation_steps: 2",
                            "4",
                            &[Bytes],
                        ),
                    ])),
                ("min", Facts::acting(&[
                        candle(
                            "device_memory: 1300KB, auto_batch_size: {start: 2, max: 2, search: largest}",
                            "2",
                            &[Bytes, Report],
                        ),
                        torch(
                            "model: smollm2-135m, max_seq_length: 2048, gpu: gtx-1050-2gb, \
                             auto_batch_size: {start: 2, max: 2, search: largest}",
                            "2",
                            &[Bytes],
                        ),
                    ])),
                ("max", Facts::acting(&[
                        candle(SEARCHED, "2", &[Bytes, Loss, Tokens]),
                        torch(SEARCHED_GPU, "2", &[Bytes]),
                    ])),
                ("search", Facts::acting(&[
                        candle(SEARCHED, "keep_effective_batch", &[Bytes, Loss, Tokens]),
                        torch(SEARCHED_GPU, "keep_effective_batch", &[Bytes]),
                    ])),
            ],
        }
        /// The blocks that recompute their forward pass in the backward pass: none, full, {every: n}, {first: n} or
        /// {layers: [...]}, with indices from 0. {auto: SIZE} takes the fewest with which the cell fits this size.
        gradient_checkpointing: Checkpointing = Checkpointing::None => {
            plain: |checkpointing, _| plain_blocks(checkpointing),
            aliases: ["checkpointing"],
            acts: [both(LORA, "full", &[Bytes], &[Bytes])],
            nested: &[
                ("every", Facts::acting(&[
                        both(
                            "max_seq_length: 64, batch_size: 4, gradient_checkpointing: {every: 2}",
                            "1",
                            &[Bytes],
                            &[Bytes],
                        ),
                    ])),
                ("first", Facts::acting(&[
                        both(
                            "max_seq_length: 64, batch_size: 4, gradient_checkpointing: {first: 1}",
                            "2",
                            &[Bytes],
                            &[Bytes],
                        ),
                    ])),
                ("layers", Facts::acting(&[
                        both(
                            "max_seq_length: 64, batch_size: 4, gradient_checkpointing: {layers: [0]}",
                            "[0, 1]",
                            &[Bytes],
                            &[Bytes],
                        ),
                    ])),
                ("auto", Facts::acting(&[
                        candle("gradient_checkpointing: {auto: 4MiB}", "1MiB", &[Bytes]),
                        torch("gradient_checkpointing: {auto: 800MiB}", "1MiB", &[Bytes]),
                    ])),
            ],
        }
        /// The tensors that wait in the host's memory until they are needed: none, or a map of parts. weights are the
        /// frozen weights of blocks: {ratio: 0.5} of them, the last half, or a list of indices. embeddings, optimizer and
        /// checkpoints are true or false.
        offload: Offload = Offload::NONE => {
            plain: |offload, _| plain_offload(offload),
            stacks: CANDLE,
            aliases: ["cpu_offload", "offload_optimizer", "offload_param"],
            acts: [candle(LORA, "{optimizer: true}", &[Bytes])],
            nested: &[
                ("weights", Facts::acting(&[candle(LORA, "[0, 1]", &[Bytes])])),
                ("weights.ratio", Facts::acting(&[candle("offload: {weights: {ratio: 0.5}}", "1.0", &[Bytes])])),
                ("embeddings", Facts::acting(&[candle(LORA, "true", &[Bytes])])),
                ("optimizer", Facts::acting(&[candle(LORA, "true", &[Bytes])])),
                ("checkpoints", Facts::acting(&[candle("gradient_checkpointing: full", "true", &[Bytes])])),
            ],
        }
        /// Samples are cut to this many tokens.
        #[schemars(range(min = 2))]
        max_seq_length: usize = 128 => {
            aliases: ["max_length", "seq_length", "sequence_len", "seq_len"],
            acts: [both(LORA, "64", &[Bytes, Loss, Tokens], &[Bytes])],
        }
        /// Pad each micro-batch to max_seq_length, or to its longest sample.
        padding: Padding = Padding::MaxLength => {
            plain: |padding, cell| if cell.packing { Padding::MaxLength } else { padding },
            heeded: |cell| !cell.packing,
            acts: [both(UNEVEN, "longest", &[Bytes, Tokens], &[Bytes])],
        }
        /// Padded lengths are rounded up to a multiple of this, as by transformers' pad_to_multiple_of. Default: not.
        #[schemars(range(min = 1))]
        pad_to_multiple_of: Option<usize> = None => {
            open: |_| Some(1),
            heeded: |cell| !cell.packing,
            example: "8",
            no_technique: "only adds padding",
            acts: [both(LONGEST, "32", &[Bytes, Tokens], &[Bytes])],
        }
        /// The most tokens of a micro-batch, padding included; batch_size stays the most samples. A step keeps its samples and
        /// has as many micro-batches as that needs, so the loss is the same. Default: no limit.
        #[schemars(range(min = 2))]
        max_tokens_per_batch: Option<usize> = None => {
            stacks: CANDLE,
            example: "1024",
            acts: [candle(UNEVEN, "32", &[Bytes])],
        }
        /// Put samples of like lengths into one step, as transformers' group_by_length. Each epoch's order is cut into
        /// groups of 50 steps, or a fourth of the data if that is less. A group is sorted from long to short.
        group_by_length: bool = false => {
            no_technique: "an order of the data, which changes batches and so the training",
            acts: [both(LONGEST, "true", &[Bytes, Loss, Tokens], &[Bytes])],
        }
        /// Steps in a group whose samples are sorted from long to short; 20 in PEFT's method comparison. Excludes
        /// group_by_length.
        #[schemars(range(min = 1))]
        length_buckets: Option<usize> = None => {
            example: "20",
            no_technique: "an order of the data, which changes batches and so the training",
            acts: [both(LONGEST, "4", &[Bytes, Loss, Tokens], &[Bytes])],
        }
        /// Begin with the step that has the largest micro-batch of the training, so that it shows at once if memory runs
        /// out. All other steps stay in their order.
        longest_first: bool = false => {
            stacks: CANDLE,
            no_technique: "an order of the data: the same peak, earlier",
            acts: [
                candle(
                    "max_steps: 8, data: {synthetic: {lengths: [4, 24, 8, 16]}}, batch_size: 2, padding: longest",
                    "true",
                    &[Bytes, Loss],
                ),
            ],
        }
        /// Lay the samples of a step one after the other in rows of max_seq_length tokens, without padding. batch_size is
        /// then the most rows of a micro-batch. A step has the same samples as without packing, and the same loss. On PyTorch's
        /// stack, TRL packs all samples before training, as torch.packing_strategy says.
        packing: bool = false => {
            aliases: ["pack_sequences", "sample_packing"],
            acts: [
                candle(UNEVEN, "true", &[Bytes, Tokens]),
                torch(
                    "data: {synthetic: {lengths: [4, 24, 8, 16]}}, batch_size: 4, \
                     attn_implementation: flash_attention_2",
                    "true",
                    &[Bytes],
                ),
            ],
        }
        /// The token between two packed samples: none, or eos, the end of a text. Nothing is trained to predict it. It ends the
        /// sample before it, so with packing_attention: full alone it predicts a token, the next sample's first.
        packing_separator: PackingSeparator = PackingSeparator::None => {
            stacks: CANDLE,
            heeded: |cell| cell.packing,
            idle: UNPACKED,
            no_technique: "adds tokens",
            acts: [candle(PACKED, "eos", &[Bytes, Tokens])],
        }
        /// The tokens that a packed token sees. block_diagonal: those before it in its sample, whose positions begin at 0.
        /// full: all before it in its row, as if the row were one text.
        packing_attention: PackingAttention = PackingAttention::BlockDiagonal => {
            stacks: CANDLE,
            heeded: |cell| cell.packing,
            idle: UNPACKED,
            no_technique: "adds attention between samples",
            acts: [candle(PACKED, "full", &[Bytes, Loss])],
        }

        /// Optimizer steps. Default: 10, unless num_train_epochs is given.
        #[schemars(range(min = 1))]
        max_steps: Option<usize> = None => {
            filled: |_, cell| cell.max_steps(),
            plain: |steps, cell| steps.filter(|steps| cell.num_train_epochs.is_some() || *steps != DEFAULT_STEPS),
            heeded: |cell| cell.measure == Measure::Epoch,
            aliases: ["steps"],
            example: "1",
            no_technique: "the length of training",
            acts: [
                candle(LORA, "4", &[Loss, Tokens]),
                torch(TEXTS, "12", &[Bytes]),
            ],
        }
        /// Passes over the training data; excludes max_steps.
        num_train_epochs: Option<f64> = None => {
            heeded: |cell| cell.measure == Measure::Epoch,
            aliases: ["epochs", "num_epochs"],
            example: "1.0",
            no_technique: "the length of training",
            acts: [
                candle("data: {synthetic: {samples: 4}}, num_train_epochs: 1, max_steps: null", "2", &[Loss, Tokens]),
                torch(
                    "data: {synthetic: {lengths: uniform, samples: 32}}, batch_size: 4, padding: longest, \
                     num_train_epochs: 0.25, max_steps: null",
                    "1",
                    &[Bytes],
                ),
            ],
        }
        /// The optimizer. Our trainer's galore and rsvd are adamw but for matrices with more rows and columns than optim_rank.
        /// On PyTorch's stack rsvd is rSVDAdam of HPMLProj, whose rank shrinks with a matrix's shorter side.
        optim: Optimizer = Optimizer::Adamw => {
            aliases: ["optimizer"],
            acts: [both(LORA, "sgd", &[Bytes, Loss], &[Bytes])],
        }
        /// Rank of galore's and rsvd's optimizer state; on PyTorch's stack that of a matrix whose shorter side is the model's
        /// width. Default: 4.
        #[schemars(range(min = 1))]
        optim_rank: Option<usize> = None => {
            open: |_| Some(DEFAULT_OPTIM_RANK),
            aliases: ["galore_rank"],
            example: "4",
            no_technique: "of two optimizers; their rank is the experiment",
            acts: [
                candle(GALORE, "8", &[Bytes, Loss]),
                torch(RSVD, "8", &[Bytes]),
            ],
        }
        /// Steps after which galore and rsvd refresh their basis. Default: 200.
        #[schemars(range(min = 1))]
        update_proj_gap: Option<usize> = None => {
            open: |_| Some(DEFAULT_PROJ_GAP),
            aliases: ["proj_interval"],
            example: "200",
            no_technique: "a number of training",
            acts: [
                candle(GALORE, "1", &[Loss]),
                torch(RSVD, "1", &[Bytes]),
            ],
        }
        /// Scale of galore's step when it leaves the basis. Default: 0.25.
        galore_scale: Option<f64> = None => {
            open: |_| Some(DEFAULT_GALORE_SCALE),
            stacks: CANDLE,
            example: "0.25",
            no_technique: "a number of training",
            acts: [candle(GALORE, "1.0", &[Loss])],
        }
        /// Peak learning rate.
        #[schemars(range(min = 0.0))]
        learning_rate: f64 = 1e-4 => {
            aliases: ["lr"],
            no_technique: "a number of training",
            of_training: true,
            acts: [candle(LORA, "0.001", &[Loss])],
        }
        /// The learning rate after the warm-up, in transformers' words: linear, cosine, constant (which has no warm-up),
        /// constant_with_warmup and others.
        lr_scheduler_type: LrScheduler = LrScheduler::Linear => {
            heeded: |cell| cell.measure == Measure::Epoch,
            aliases: ["scheduler", "lr_scheduler"],
            no_technique: "a number of training",
            of_training: true,
            acts: [candle(LORA, "constant", &[Loss])],
        }
        /// Numbers of some schedules: transformers' keys and defaults.
        lr_scheduler_kwargs: LrSchedulerKwargs = LrSchedulerKwargs::default() => {
            heeded: |cell| cell.measure == Measure::Epoch,
            no_technique: "numbers of training",
            of_training: true,
            acts: [candle("lr_scheduler_type: cosine", "{num_cycles: 2}", &[Loss])],
            nested: of_schedules::LR_SCHEDULER_KWARGS,
        }
        /// Share of the steps over which the learning rate rises linearly from 0.
        #[schemars(range(min = 0.0, max = 1.0))]
        warmup_ratio: f64 = 0.0 => {
            heeded: |cell| cell.measure == Measure::Epoch && cell.lr_scheduler_type != LrScheduler::Constant,
            idle: NO_WARMUP,
            no_technique: "a number of training",
            of_training: true,
            acts: [candle(LORA, "0.5", &[Loss])],
        }
        /// Those steps in place of their share; below 1 it is their share, too. Default, and of 0: as warmup_ratio says.
        warmup_steps: Option<StepsOrRatio> = None => {
            plain: |steps, _| steps.filter(|steps| steps.0 > 0.0),
            heeded: |cell| cell.measure == Measure::Epoch && cell.lr_scheduler_type != LrScheduler::Constant,
            idle: NO_WARMUP,
            aliases: ["num_warmup_steps"],
            example: "0.5",
            no_technique: "a number of training",
            of_training: true,
            acts: [candle(LORA, "1", &[Loss])],
        }
        /// Decoupled weight decay.
        #[schemars(range(min = 0.0))]
        weight_decay: f64 = 0.0 => {
            no_technique: "a number of training",
            acts: [
                candle(FULL, "1.0", &[Loss]),
                torch(SGD, "0.1", &[Bytes]),
            ],
        }
        /// AdamW's decay of the first moment; in lion the momentum's weight in a step's direction.
        adam_beta1: f64 = 0.9 => {
            aliases: ["betas", "adam_betas"],
            no_technique: "a number of training",
            of_training: true,
            acts: [candle(LORA, "0.8", &[Loss])],
        }
        /// AdamW's decay of the second moment; in lion the momentum's. Default: 0.999, for lion 0.99.
        adam_beta2: Option<f64> = None => {
            open: |cell| Some(cell.optim.default_beta2()),
            example: "0.999",
            no_technique: "a number of training",
            of_training: true,
            acts: [candle(LORA, "0.9", &[Loss])],
        }
        /// AdamW's denominator floor.
        adam_epsilon: f64 = 1e-8 => {
            no_technique: "a number of training",
            of_training: true,
            acts: [candle(LORA, "0.001", &[Loss])],
        }
        /// Gradients are scaled down to this global L2 norm; 0 switches clipping off.
        #[schemars(range(min = 0.0))]
        max_grad_norm: f64 = 1.0 => {
            no_technique: "a number of training",
            acts: [
                candle(LORA, "0.1", &[Loss]),
                torch(SGD, "0", &[Bytes]),
            ],
        }
        /// Seed of everything random: weights, adapter, order of the data, dropout.
        seed: u64 = 0 => {
            no_technique: "another draw",
            acts: [
                candle(LORA, "1", &[Loss]),
                torch(TEXTS, "1", &[Bytes]),
            ],
        }

        /// The training data: synthetic, sample, {synthetic: {lengths, samples}}, {path, ...} with files of your own, or
        /// hf://owner/name.
        data: Data = Data::Synthetic(Synthetic::default()) => {
            plain: |data, _| plain_data(data),
            aliases: ["dataset"],
            example: "sample",
            no_technique: "other data is another experiment",
            acts: [both(LORA, "{synthetic: {lengths: uniform}}", &[Bytes, Loss, Tokens], &[Bytes])],
            nested: of_data::DATA,
        }
        /// Share of the data that is held out; its loss after training is loss_eval.
        #[schemars(range(min = 0.0, max = 1.0))]
        eval_fraction: f64 = 0.0 => {
            heeded: |cell| cell.measure == Measure::Epoch,
            no_technique: "a share of the data",
            acts: [
                candle(LORA, "0.1", &[Loss]),
                torch(TEXTS, "0.5", &[Bytes]),
            ],
        }

        /// The part of training that the memory figures describe. epoch: the whole training. profile: the forward and backward
        /// passes of one step by component, after one optimizer step that made the optimizer's state.
        measure: Measure = Measure::Epoch => {
            stacks: CANDLE,
            no_technique: "what is measured",
            acts: [candle("max_steps: null", "profile", &[Bytes, Loss, Tokens])],
        }

        /// The device that computes. Default: cpu; with `engine: python` auto, the first GPU of CUDA if there is one, else the CPU.
        #[schemars(extend("pattern" = "^(auto|cpu|cuda:(0|[1-9][0-9]*))$", "title" = "`cpu` or `cuda:N`"))]
        device: Option<String> = None => {
            open: |cell| Some(cell.default_device().into()),
            heeded: |cell| cell.engine.is_some(),
            idle: NO_ENGINE.or("write `engine: python`; the GPU of a plan is `gpu`, such as `gpu: t4`"),
            of_process: true,
            example: "cpu",
            no_technique: "where it is computed",
            untried: "it needs a GPU of CUDA",
        }
        /// Threads of the trainer. Default: one for each available core.
        #[schemars(range(min = 1, max = 512))]
        threads: Option<usize> = None => {
            heeded: |cell| cell.engine.is_some(),
            idle: NO_ENGINE,
            of_process: true,
            example: "1",
            no_technique: "speed",
            of_training: true,
            acts: [candle(LORA, "7", &[Time, Report])],
        }
        /// The instructions of the trainer's kernels: auto (the fastest of the CPU), portable, avx2, avx512, avx512_bf16 or amx;
        /// each includes those before it. candle's own operations always use the best of the CPU.
        instruction_set: InstructionSetChoice = InstructionSetChoice::Auto => {
            stacks: CANDLE,
            of_process: true,
            no_technique: "speed",
            acts: [candle(LORA, "portable", &[Time, Report])],
        }
        /// Budget on live tensor bytes, of our trainer on the cpu only so far; with `engine: python` on what PyTorch's allocator
        /// holds of a GPU. A request beyond it ends the cell as out of memory.
        device_memory: Option<ByteSize> = None => {
            heeded: |cell| cell.engine.is_some(),
            idle: NO_ENGINE.or("write `engine: python`; the budget of a plan is the memory of `gpu`, or its `--budget`"),
            of_process: true,
            aliases: ["memory"],
            example: "'0'",
            no_technique: "the budget itself",
            of_training: true,
            acts: [candle(LORA, "1MiB", &[Report])],
        }
        /// Budget on the tensor bytes that `offload` keeps in the host's memory, on the cpu only so far; without `offload`, for
        /// `expctl fit` alone. A request beyond it ends
        /// the cell as out of memory.
        host_memory: Option<ByteSize> = None => {
            stacks: CANDLE,
            of_process: true,
            example: "'0'",
            no_technique: "the budget itself",
            acts: [candle("offload: {embeddings: true}", "1KiB", &[Report])],
        }
        /// Environment variables of the cell's process; null unsets one.
        #[schemars(with = "BTreeMap<String, Variable>")]
        env: BTreeMap<String, Option<String>> = BTreeMap::new() => {
            heeded: |cell| cell.engine.is_some(),
            idle: NO_ENGINE,
            of_process: true,
            no_technique: "the environment",
            of_training: true,
            acts: [candle(LORA, "{FOO: '1'}", &[Time, Report])],
        }
        /// The allocator of the cell's process.
        allocator: Allocator = Allocator::default() => {
            filled: |allocator, cell| allocator.filled(&cell.deciding()),
            plain: |allocator, cell| allocator.plain(&cell.deciding()),
            acts: [
                candle("max_steps: 20, max_seq_length: 256, batch_size: 8", "{backend: system}", &[Time]),
                torch(LORA, "{env: {PYTORCH_ALLOC_CONF: 'roundup_power2_divisions:4'}}", &[Bytes]),
            ],
            nested: Allocator::FACTS,
        }
    }
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

/// The description of `adapter`, with the methods of today.
fn adapter_meaning() -> String {
    let names = Adapter::ALL.map(Adapter::name).join(", ");
    let (names, last) = names.rsplit_once(", ").unwrap_or_default();
    format!(
        "The method of the adapters: {names} or {last}. \
         dora is PEFT's `use_dora: true`: it scales each row of W + BA, with W the weight and BA LoRA's product, to a \
         trained magnitude, and our trainer has it without lora_dropout. ia3 trains a factor for each output of a \
         layer, or each input, and has no rank. miss multiplies the sum of the input's shards with a trained block. \
         vera trains vectors between and after random factors that all layers share. oft rotates the inputs of a \
         layer block by block. loha adds the element-wise product of two low-rank products, and lokr the Kronecker \
         product of a small matrix and a low-rank product. prompt_tuning trains the embeddings of virtual tokens \
         before each sequence of a decoder, and prefix_tuning their keys and values in each block. ln_tuning trains \
         the norms that PEFT chooses for the family."
    )
}

/// The model, and the values of its keys and of the adapters' that may be left out.
impl Cell {
    /// What runs the cell; `None` if it is predicted alone.
    pub fn engine(&self) -> Option<Engine> {
        self.engine.or(self.stack.default_engine())
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

    /// The options of its adapter's method, whether or not it has adapters.
    pub(super) fn method_options(&self) -> AdapterMethod {
        match self.adapter {
            Adapter::Lora => AdapterMethod::Lora(self.lora.clone()),
            Adapter::Dora => AdapterMethod::Dora(self.lora.clone()),
            Adapter::Ia3 => AdapterMethod::Ia3(self.ia3.clone()),
            Adapter::Miss => AdapterMethod::Miss(self.miss.clone()),
            Adapter::Vera => AdapterMethod::Vera(self.vera.clone()),
            Adapter::Oft => AdapterMethod::Oft(self.oft.clone()),
            Adapter::Loha => AdapterMethod::Loha(self.loha.clone()),
            Adapter::Lokr => AdapterMethod::Lokr(self.lokr.clone()),
            Adapter::PromptTuning => AdapterMethod::PromptTuning(self.prompt_tuning.clone()),
            Adapter::PrefixTuning => AdapterMethod::PrefixTuning(self.prefix_tuning.clone()),
            Adapter::LnTuning => AdapterMethod::LnTuning(LnTuning {}),
        }
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

    /// The cell with adapters of another rank and the same scale.
    pub fn at_rank(&self, rank: usize) -> Self {
        let mut changed = Self {
            lora_alpha: self.alpha_at_rank(rank),
            rank,
            ..self.clone()
        };
        let ratio = rank as f64 / self.rank as f64;
        match self.adapter {
            Adapter::Loha => changed.loha.alpha *= ratio,
            Adapter::Lokr => changed.lokr.alpha *= ratio,
            _ => {}
        }
        // A pattern that gives the rank or the alpha of all is an error, and means nothing.
        let alpha = changed.lora_alpha();
        let Self { lora, loha, lokr, .. } = &mut changed;
        for (alpha, ranks, alphas) in [
            (alpha, &mut lora.rank_pattern, &mut lora.alpha_pattern),
            (loha.alpha, &mut loha.rank_pattern, &mut loha.alpha_pattern),
            (lokr.alpha, &mut lokr.rank_pattern, &mut lokr.alpha_pattern),
        ] {
            ranks.retain(|_, own| *own != rank);
            alphas.retain(|_, own| *own != alpha);
        }
        changed
    }

    pub(super) fn default_alpha(&self) -> f64 {
        2.0 * self.rank as f64
    }

    /// The linear layers that get an adapter; `None` for those that PEFT chooses by the model's family.
    pub fn target_modules(&self) -> Option<TargetModules> {
        self.target_modules.clone().or(self.default_targets())
    }

    /// What is left out where PEFT's choice is the default.
    fn plain_choice(&self, targets: Option<TargetModules>) -> Option<TargetModules> {
        let is_default = |targets: &TargetModules| *targets == TargetModules::Peft && !self.adapter.is_of_all_layers();
        targets.filter(|targets| !is_default(targets))
    }

    pub(super) fn default_targets(&self) -> Option<TargetModules> {
        self.adapter.is_of_all_layers().then_some(TargetModules::AllLinear)
    }
}
