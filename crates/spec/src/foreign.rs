//! Keys of other programs' guides that stand for something else here, or for nothing: what to write instead.

/// Where to log.
const LOG_INTERVAL: &str = "write `record: {log_interval: ...}` in the spec, next to `defaults`";
const NO_LOADER: &str = "leave it out: samples are tokenised before the training, and no worker process loads them";
const NOT_PINNED: &str = "leave it out: no batch is copied from page-locked memory";
const FSDP: &str = "write `distributed: fsdp` with `world_size`, and accelerate's keys without their `fsdp_` in `fsdp_config`, or \
     `accelerate_config: FILE`";
const DEEPSPEED: &str = "write `distributed: deepspeed` with `world_size`, and DeepSpeed's keys in `zero_optimization`, or \
     `deepspeed_config: FILE`";
const ONLY_SUPERVISED: &str =
    "DPO, GRPO, reward models and other losses of preferences are not planned: supervised training alone is";
const SAVE_STEPS: &str = "write `record: {save_steps: ...}` in the spec, next to `defaults`";
const SAVE_TOTAL_LIMIT: &str = "write `record: {save_total_limit: ...}` in the spec, next to `defaults`";
const SAVED_ONCE: &str = "leave it out: our trainer saves the adapter once, at the end, and plans of PyTorch's stack have \
                          the training's steps alone";
const NO_FOLDER: &str = "leave it out: a plan writes no files, and a run's results lie in the folder of `--results`";
const RESUMED: &str = "leave it out: a run that is repeated goes on where it ended";
const NO_TRACKER: &str = "leave it out: results are files, which `expctl report` draws";
const NO_KERNELS: &str = "leave it out: fused kernels of adapters are not planned";
const ONE_LAYER_ONE_GPU: &str = "tensor parallelism is not planned; `world_size` plans DDP, FSDP and ZeRO";
const OTHER_OPTIMIZER: &str = "the optimizer is not planned; `expctl schema` has those that are, under `optim`";
const TEXT_COLUMN: &str = "write `data: {column: ...}`, or name the columns of prompts or of messages";
const PACKED_AS_IS: &str =
    "leave it out: `packing: true` lays samples in rows without padding, and held-out samples are not packed";
const EVALUATED_ONCE: &str = "leave it out: our trainer has `eval_fraction`, the loss of held-out data at the end, and \
                              plans of PyTorch's stack have the training's steps alone";

/// The keys, each with the help of its error.
const FOREIGN: [(&str, &str); 121] = [
    // Of TRL's SFTConfig.
    ("dataset_text_field", TEXT_COLUMN),
    (
        "completion_only_loss",
        "it belongs to the data: `data: {path: ..., completion_only_loss: ...}`",
    ),
    (
        "assistant_only_loss",
        "it belongs to the data: `data: {path: ..., assistant_only_loss: ...}`",
    ),
    (
        "chat_template_path",
        "write `data: {chat_template: FILE}`; without it the model's own is taken",
    ),
    (
        "chat_template",
        "it belongs to the data: `data: {path: ..., chat_template: FILE}`; without it the model's own is taken",
    ),
    ("padding_free", PACKED_AS_IS),
    ("eval_packing", PACKED_AS_IS),
    (
        "truncation_mode",
        "leave it out: samples keep their beginning, at most `max_seq_length` tokens",
    ),
    ("dataset_num_proc", "leave it out: samples are tokenised on all cores"),
    (
        "skip_prepare_dataset",
        "leave it out: samples are texts, which are tokenised before the training",
    ),
    // Of axolotl's files.
    ("datasets", "write `data: {path: ...}`; several paths are a list"),
    ("test_datasets", "write `data: {eval_path: ...}`"),
    ("val_set_size", "write `eval_fraction`"),
    ("pad_to_sequence_len", "write `padding: max_length`, or leave it out"),
    (
        "roles_to_train",
        "write `data: {assistant_only_loss: true}`, which predicts what the assistant says",
    ),
    ("field_messages", "write `data: {messages_column: ...}`"),
    (
        "lora_target_linear",
        "write `target_modules: all-linear`, which is the default",
    ),
    (
        "dataset_prepared_path",
        "leave it out: samples are tokenised in each run, in seconds",
    ),
    // An option of PEFT's train_memory.py, which lists the tensors that are kept for the backward pass.
    (
        "monitor_tensors",
        "write `record: {timeline: true}` in the spec, next to `defaults`",
    ),
    ("log_interval", LOG_INTERVAL),
    ("load_in_4bit", "write `dtype: int4`"),
    ("load_in_8bit", "write `dtype: int8`"),
    ("logging_steps", LOG_INTERVAL),
    (
        "quantization_config",
        "write `dtype: int4`, and keys such as `bnb_4bit_use_double_quant` beside it",
    ),
    (
        "gradient_checkpointing_kwargs",
        "for a plan of PyTorch's stack write `torch: {use_reentrant: ...}`",
    ),
    (
        "use_flash_attention_2",
        "for a plan of PyTorch's stack write `attn_implementation: flash_attention_2`",
    ),
    (
        "flash_attention",
        "for a plan of PyTorch's stack write `attn_implementation: flash_attention_2`",
    ),
    (
        "TOKENIZERS_PARALLELISM",
        "write `env: {TOKENIZERS_PARALLELISM: \"false\"}`; samples are tokenised once, before the training",
    ),
    (
        "PYTORCH_CUDA_ALLOC_CONF",
        "for a plan of PyTorch's stack write `allocator: {env: {PYTORCH_CUDA_ALLOC_CONF: ...}}`",
    ),
    (
        "CUDA_VISIBLE_DEVICES",
        "write `device: cuda:0`, or another number; a plan names its `gpu`",
    ),
    ("dataloader_num_workers", NO_LOADER),
    ("num_workers", NO_LOADER),
    ("dataloader_prefetch_factor", NO_LOADER),
    ("dataloader_persistent_workers", NO_LOADER),
    ("dataloader_pin_memory", NOT_PINNED),
    ("pin_memory", NOT_PINNED),
    (
        "low_cpu_mem_usage",
        "leave it out: weights are read one tensor after another, straight into their format",
    ),
    (
        "remove_unused_columns",
        "leave it out: `data: {column: ...}` names the column that is read",
    ),
    ("ddp_backend", "leave it out: plans of several processes are of NCCL"),
    (
        "local_rank",
        "leave it out: `world_size` says how many processes there are",
    ),
    ("fsdp", FSDP),
    ("deepspeed", DEEPSPEED),
    ("zero_stage", DEEPSPEED),
    (
        "loss_type",
        "write `loss` (`chunked_nll` is `chunked`), or `torch: {trl_version: ...}`; losses of preferences are not planned",
    ),
    ("beta", ONLY_SUPERVISED),
    ("rlhf_type", ONLY_SUPERVISED),
    ("pref_beta", ONLY_SUPERVISED),
    (
        "stage",
        "leave it out if it is `sft`: preferences, rewards and pre-training on images are not planned",
    ),
    (
        "trainer",
        "leave it out if it is SFTTrainer: trainers of preferences are not planned",
    ),
    ("lora_head", "add `lm_head` to `target_modules`"),
    ("cutoff_len", "write `max_seq_length`"),
    ("model_max_length", "write `max_seq_length`"),
    ("quantization_bit", "write `dtype: int4` or `int8`"),
    ("double_quant", "write `bnb_4bit_use_double_quant`"),
    ("quant_type", "write `bnb_4bit_quant_type`"),
    ("tensor_parallel_size", ONE_LAYER_ONE_GPU),
    (
        "unsloth",
        "Unsloth's kernels are not planned; `--recipe unsloth-comparison` is what it compares itself with",
    ),
    (
        "use_unsloth",
        "Unsloth's kernels are not planned; `--recipe unsloth-comparison` is what it compares itself with",
    ),
    (
        "torch_compile",
        "with `engine: python` write `torch: {compile: ...}`; our trainer's kernels are compiled with the program, and plans of \
         PyTorch's stack are of eager mode",
    ),
    ("tf32", "leave it out: products of float32 are computed in float32"),
    ("per_device_eval_batch_size", EVALUATED_ONCE),
    ("eval_strategy", EVALUATED_ONCE),
    ("evaluation_strategy", EVALUATED_ONCE),
    ("eval_steps", EVALUATED_ONCE),
    ("save_strategy", SAVED_ONCE),
    ("save_steps", SAVE_STEPS),
    ("save_total_limit", SAVE_TOTAL_LIMIT),
    ("neftune_noise_alpha", "NEFTune's noise is not planned"),
    ("label_smoothing_factor", "label smoothing is not planned"),
    ("data_seed", "write `seed`, which is that of the data, too"),
    (
        "xformers_attention",
        "xformers' kernels are not planned; write `attn_implementation: sdpa`",
    ),
    ("shift_attn", "LongLoRA's shifted attention is not planned"),
    ("use_badam", OTHER_OPTIMIZER),
    ("use_apollo", OTHER_OPTIMIZER),
    ("use_adam_mini", OTHER_OPTIMIZER),
    (
        "rope_scaling",
        "it belongs to the model: its config.json has `rope_scaling`",
    ),
    (
        "resize_vocab",
        "it belongs to the model: its config.json has `vocab_size`",
    ),
    (
        "target_parameters",
        "adapters of parameters that are not linear layers are not planned",
    ),
    (
        "fp8",
        "formats of 8-bit floats are not planned; `dtype: int8` is bitsandbytes' LLM.int8()",
    ),
    (
        "auto_find_batch_size",
        "leave it out: `expctl fit --largest batch_size` finds the largest one",
    ),
    ("evals_per_epoch", EVALUATED_ONCE),
    ("do_eval", EVALUATED_ONCE),
    ("eval_batch_size", EVALUATED_ONCE),
    ("eval_sample_packing", PACKED_AS_IS),
    ("load_best_model_at_end", EVALUATED_ONCE),
    ("metric_for_best_model", EVALUATED_ONCE),
    ("early_stopping_patience", EVALUATED_ONCE),
    ("saves_per_epoch", SAVED_ONCE),
    ("output_dir", NO_FOLDER),
    ("overwrite_output_dir", NO_FOLDER),
    ("logging_dir", NO_FOLDER),
    ("push_to_hub", "leave it out: nothing is written to the hub"),
    ("hub_model_id", "leave it out: nothing is written to the hub"),
    (
        "do_train",
        "leave it out: `expctl run` trains, and `expctl plan` does not",
    ),
    ("resume_from_checkpoint", RESUMED),
    ("auto_resume_from_checkpoints", RESUMED),
    (
        "template",
        "write `data: {chat_template: FILE}`; without it the model's own is taken",
    ),
    (
        "overwrite_cache",
        "leave it out: samples are tokenised in each run, in seconds",
    ),
    (
        "preprocessing_num_workers",
        "leave it out: samples are tokenised on all cores",
    ),
    ("ddp_timeout", "leave it out: no process waits for another"),
    (
        "nnodes",
        "several machines are not planned; `world_size` plans the GPUs of one",
    ),
    ("tp", ONE_LAYER_ONE_GPU),
    ("tensor_parallel", ONE_LAYER_ONE_GPU),
    ("pp", "pipelines are not planned; `world_size` plans DDP, FSDP and ZeRO"),
    ("zero", DEEPSPEED),
    ("zero1", DEEPSPEED),
    ("zero2", DEEPSPEED),
    ("zero3", DEEPSPEED),
    ("wandb_project", NO_TRACKER),
    ("plot_loss", NO_TRACKER),
    ("include_num_input_tokens_seen", NO_TRACKER),
    ("lora_mlp_kernel", NO_KERNELS),
    ("lora_qkv_kernel", NO_KERNELS),
    ("lora_o_kernel", NO_KERNELS),
    ("model_type", "leave it out: the model's config.json says what it is"),
    (
        "tokenizer_type",
        "leave it out: the model's tokenizer.json says what it is",
    ),
    (
        "use_fast_tokenizer",
        "leave it out: tokenizer.json is always read by the fast one",
    ),
    (
        "use_peft",
        "leave it out: adapters are the default, and `rank: 0` trains all weights",
    ),
    ("inference", "serving is not planned: training alone is"),
    (
        "report_to",
        "leave it out: results are files, and `report: {output: ...}` names the report",
    ),
    (
        "trust_remote_code",
        "leave it out: no code of a model is run, and its family must be known",
    ),
];

const CSV_AS_USUAL: &str =
    "values have double quotes where they need them, and the first line is the header; write the file so";
const UTF_8: &str = "files are UTF-8; convert it, as with `iconv -f latin1 -t utf8`";
const TEXTS_AS_THEY_ARE: &str = "leave it out: the values of such a file are texts, as they are written";

/// Options of Python's datasets for the files of `data`.
const OF_DATA: [(&str, &str); 24] = [
    ("header", CSV_AS_USUAL),
    ("names", CSV_AS_USUAL),
    ("column_names", CSV_AS_USUAL),
    ("quotechar", CSV_AS_USUAL),
    ("quoting", CSV_AS_USUAL),
    ("escapechar", CSV_AS_USUAL),
    ("doublequote", CSV_AS_USUAL),
    ("comment", CSV_AS_USUAL),
    ("skiprows", CSV_AS_USUAL),
    ("skipinitialspace", CSV_AS_USUAL),
    (
        "on_bad_lines",
        "a row with other columns than the header is an error; mend the file",
    ),
    ("encoding", UTF_8),
    ("encoding_errors", UTF_8),
    ("na_values", TEXTS_AS_THEY_ARE),
    ("keep_default_na", TEXTS_AS_THEY_ARE),
    ("na_filter", TEXTS_AS_THEY_ARE),
    ("thousands", TEXTS_AS_THEY_ARE),
    ("decimal", TEXTS_AS_THEY_ARE),
    ("dtype", TEXTS_AS_THEY_ARE),
    ("usecols", "leave it out: only the columns of a sample are read"),
    ("columns", "leave it out: only the columns of a sample are read"),
    (
        "field",
        "the array of a file that is an object is found where it is the only one; write others as a file of their own",
    ),
    (
        "filters",
        "all samples are read, or the first ones with `max_samples`; write those that are meant as a file of their own",
    ),
    (
        "keep_linebreaks",
        "leave it out: a line has no end; `sample_by: document` keeps those within a file",
    ),
];

/// The help for a key of `data` that Python's datasets has.
pub(super) fn of_data(key: &str) -> Option<&'static str> {
    OF_DATA.iter().find(|(known, _)| *known == key).map(|(_, help)| *help)
}

/// The help for a key of other programs, by the last part of its name, in any case.
pub(super) fn foreign(name: &str) -> Option<&'static str> {
    let last = name.rsplit('.').next().unwrap_or(name);
    let mut found = FOREIGN.iter().filter(|(key, _)| key.eq_ignore_ascii_case(last));
    found.next().map(|(_, help)| *help)
}

#[cfg(test)]
mod tests {
    use cell::keys;

    use super::*;

    #[test]
    fn no_key_is_foreign_and_none_is_here_twice() {
        for (index, (key, _)) in FOREIGN.iter().enumerate() {
            let known = [*key].map(str::to_owned);
            assert!(!keys::is_known(&known) && keys::moved(key).is_none(), "{key}");
            assert!(FOREIGN[..index].iter().all(|(other, _)| other != key), "{key}");
        }
    }

    #[test]
    fn a_key_is_found_below_a_section_and_in_any_case() {
        assert_eq!(foreign("training.num_workers"), Some(NO_LOADER));
        assert!(foreign("tokenizers_parallelism").is_some());
        assert_eq!(foreign("rank"), None);
    }
}
