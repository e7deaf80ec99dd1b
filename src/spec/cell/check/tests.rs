mod data;

use crate::spec::cell::{
    Adapter, AllocatorBackend, Attention, Autocast, Cell, Checkpointing, Data, DataFile, Dtype, InstructionSet,
    InstructionSetChoice, Lengths, LoraATraining, LrScheduler, Measure, Optimizer, PackingAttention, PackingSeparator,
    PackingStrategy, Padding, QuantType, Stack, Synthetic, TargetModules, Task, Upcast, Weights,
};

/// The key that is refused after `change`, or none.
fn refused(change: impl FnOnce(&mut Cell)) -> Option<String> {
    let mut cell = Cell::default();
    change(&mut cell);
    cell.validate().err().map(|invalid| invalid.0[0].key.clone())
}

#[test]
fn the_defaults_and_the_ends_of_the_ranges_are_valid() {
    assert_eq!(refused(|_| ()), None);
    assert_eq!(
        refused(|cell| (cell.lora_dropout, cell.learning_rate, cell.warmup_ratio) = (0.99, 0.0, 1.0)),
        None
    );
    assert_eq!(refused(|cell| (cell.rank, cell.dtype) = (0, Dtype::Float16)), None);
    assert_eq!(
        refused(|cell| (cell.max_seq_length, cell.max_grad_norm) = (2, 0.0)),
        None
    );
    assert_eq!(
        refused(|cell| {
            cell.model = "./dir".into();
            cell.weights = Some(Weights::Pretrained);
        }),
        None
    );
    assert_eq!(refused(|cell| cell.device = "cuda:12".into()), None);
}

#[test]
fn numbers_out_of_range_are_refused_by_their_key() {
    for value in [1.0, -0.1, f64::NAN, f64::INFINITY] {
        assert_eq!(
            refused(|cell| cell.lora_dropout = value).as_deref(),
            Some("lora_dropout"),
            "{value}"
        );
        assert_eq!(
            refused(|cell| cell.eval_fraction = value).as_deref(),
            Some("eval_fraction"),
            "{value}"
        );
        assert_eq!(
            refused(|cell| cell.adam_beta2 = Some(value)).as_deref(),
            Some("adam_beta2"),
            "{value}"
        );
    }
    for value in [-1e-9, f64::NAN, 1e4] {
        assert_eq!(
            refused(|cell| cell.learning_rate = value).as_deref(),
            Some("learning_rate"),
            "{value}"
        );
        assert_eq!(
            refused(|cell| cell.weight_decay = value).as_deref(),
            Some("weight_decay"),
            "{value}"
        );
    }
    for value in [0, usize::MAX] {
        assert_eq!(refused(|cell| cell.batch_size = value).as_deref(), Some("batch_size"));
        assert_eq!(
            refused(|cell| cell.max_seq_length = value).as_deref(),
            Some("max_seq_length")
        );
        assert_eq!(refused(|cell| cell.threads = Some(value)).as_deref(), Some("threads"));
    }
    assert_eq!(refused(|cell| cell.rank = usize::MAX).as_deref(), Some("rank"));
    assert_eq!(
        refused(|cell| cell.lora_alpha = Some(0.0)).as_deref(),
        Some("lora_alpha")
    );
    assert_eq!(
        refused(|cell| cell.num_train_epochs = Some(0.0)).as_deref(),
        Some("num_train_epochs")
    );
}

#[test]
fn batches_that_cannot_be_cut_are_refused_by_their_key() {
    let packed = |change: fn(&mut Cell)| {
        refused(|cell| {
            cell.packing = true;
            change(cell);
        })
    };
    assert_eq!(packed(|cell| cell.packing_separator = PackingSeparator::Eos), None);
    assert_eq!(packed(|cell| cell.padding = Padding::Longest), None, "there is none");
    assert_eq!(
        packed(|cell| cell.pad_to_multiple_of = Some(8)).as_deref(),
        Some("pad_to_multiple_of")
    );
    let encoder = |cell: &mut Cell| (cell.task, cell.model) = (Task::SequenceClassification, "bert-base".into());
    assert_eq!(packed(encoder).as_deref(), Some("packing"));
    let unpacked = refused(|cell| cell.packing_separator = PackingSeparator::Eos);
    assert_eq!(unpacked.as_deref(), Some("packing_separator"));
    let unpacked = refused(|cell| cell.packing_attention = PackingAttention::Full);
    assert_eq!(unpacked.as_deref(), Some("packing_attention"));
    let limited =
        |most, multiple| refused(|cell| (cell.max_tokens_per_batch, cell.pad_to_multiple_of) = (Some(most), multiple));
    assert_eq!(limited(128, None), None);
    assert_eq!(limited(127, None).as_deref(), Some("max_tokens_per_batch"));
    assert_eq!(
        limited(128, Some(48)).as_deref(),
        Some("max_tokens_per_batch"),
        "144 tokens"
    );
    assert_eq!(limited(128, Some(0)).as_deref(), Some("pad_to_multiple_of"));
    let both = refused(|cell| (cell.group_by_length, cell.length_buckets) = (true, Some(20)));
    assert_eq!(both.as_deref(), Some("length_buckets"));
    assert_eq!(
        refused(|cell| cell.length_buckets = Some(0)).as_deref(),
        Some("length_buckets")
    );
    let torch = |change: fn(&mut Cell)| {
        refused(|cell| {
            (cell.stack, cell.packing) = (Stack::Torch, true);
            change(cell);
        })
    };
    assert_eq!(torch(|_| ()).as_deref(), Some("packing"), "sdpa would need a mask");
    assert_eq!(
        torch(|cell| cell.attn_implementation = Attention::FlashAttention2),
        None
    );
    let wrapped = |cell: &mut Cell| cell.torch.packing_strategy = PackingStrategy::Wrapped;
    assert_eq!(torch(wrapped), None);
    let unpacked = |cell: &mut Cell| {
        cell.packing = false;
        cell.torch.packing_strategy = PackingStrategy::Wrapped;
    };
    assert_eq!(torch(unpacked).as_deref(), Some("torch.packing_strategy"));
}

#[test]
fn words_and_lists_are_refused_by_their_key() {
    let every = |cell: &mut Cell| cell.gradient_checkpointing = Checkpointing::Every(0);
    assert_eq!(refused(every).as_deref(), Some("gradient_checkpointing.every"));
    let modules = |names: &[&str]| TargetModules::Names(names.iter().map(|&name| name.to_owned()).collect());
    assert_eq!(
        refused(|cell| cell.target_modules = Some(modules(&[]))).as_deref(),
        Some("target_modules")
    );
    let twice = modules(&["q_proj", "k_proj", "q_proj"]);
    assert_eq!(
        refused(|cell| cell.target_modules = Some(twice)).as_deref(),
        Some("target_modules[2]")
    );
    let lengths = Synthetic {
        lengths: Lengths::List(vec![8, 1]),
        ..Synthetic::default()
    };
    let key = refused(|cell| cell.data = Data::Synthetic(lengths));
    assert_eq!(key.as_deref(), Some("data.synthetic.lengths[1]"));
    let between = |stack, bounds, lengths| {
        let data = Data::Synthetic(Synthetic {
            between: Some(bounds),
            lengths,
            ..Synthetic::default()
        });
        refused(|cell| (cell.stack, cell.data) = (stack, data))
    };
    let key = Some("data.synthetic.between");
    assert_eq!(between(Stack::Candle, [2, 8], Lengths::Fixed).as_deref(), key);
    assert_eq!(between(Stack::Torch, [8, 2], Lengths::Fixed).as_deref(), key);
    assert_eq!(between(Stack::Torch, [1, 8], Lengths::Fixed).as_deref(), key);
    assert_eq!(between(Stack::Torch, [2, 8], Lengths::List(vec![8, 9])).as_deref(), key);
    assert_eq!(between(Stack::Torch, [2, 9], Lengths::List(vec![8, 9])), None);
    let file = DataFile {
        column: Some("text".into()),
        ..DataFile::new("a.md")
    };
    assert_eq!(refused(|cell| cell.data = file.into()).as_deref(), Some("data.column"));
    for device in [
        "", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:01", "cuda:+1", "CPU", "mps",
    ] {
        assert_eq!(
            refused(|cell| cell.device = device.into()).as_deref(),
            Some("device"),
            "{device}"
        );
    }
}

#[test]
fn model_task_and_data_belong_together() {
    let told = |change: fn(&mut Cell)| {
        let mut cell = Cell {
            model: "distilbert-base".into(),
            task: Task::SequenceClassification,
            ..Cell::default()
        };
        change(&mut cell);
        cell.validate()
            .map_or_else(|invalid| invalid.to_string(), |()| String::new())
    };
    let file = |path: &str, label_column: Option<&str>| {
        Data::from(DataFile {
            label_column: label_column.map(str::to_owned),
            ..DataFile::new(path)
        })
    };
    assert_eq!(told(|_| ()), "");
    assert_eq!(told(|cell| cell.num_labels = 20), "");
    let mut labelled = Cell {
        model: "bert-base".into(),
        task: Task::SequenceClassification,
        data: file("a.jsonl", Some("mood")),
        ..Cell::default()
    };
    labelled.target_modules = Some(TargetModules::Names(vec!["query".into(), "dense".into()]));
    assert_eq!(labelled.validate(), Ok(()));
    assert_eq!(
        told(|cell| cell.task = Task::CausalLm),
        "task: `distilbert-base` is an encoder and does not predict tokens; write `task: sequence_classification`"
    );
    assert_eq!(
        told(|cell| cell.model = "tiny".into()),
        "task: `tiny` is a decoder; `sequence_classification` is for encoders; leave the key out, or use `distilbert-base` or \
         `bert-base` or `bert-large`"
    );
    assert_eq!(
        told(|cell| cell.num_labels = 1),
        "num_labels: must be at least 2, got 1"
    );
    assert_eq!(
        told(|cell| {
            (cell.model, cell.task) = ("tiny".into(), Task::CausalLm);
            cell.num_labels = 3;
        }),
        "num_labels: a causal language model has no labels; leave the key out, or write `task: sequence_classification`"
    );
    assert!(told(|cell| cell.data = Data::Sample).starts_with("data: the sample text has no labels; use `synthetic`"));
    assert_eq!(
        told(|cell| cell.target_modules = Some(TargetModules::Names(vec!["q_proj".into()]))),
        "target_modules[0]: `q_proj` is not a linear layer of this model; the modules are q_lin, k_lin, v_lin, out_lin, lin1, lin2, \
         query, key, value, dense"
    );
    let text = Cell {
        data: file("a.txt", None),
        ..labelled.clone()
    };
    assert_eq!(text.validate().unwrap_err().0[0].key, "data.path");
    let decoder = Cell {
        data: file("a.jsonl", Some("mood")),
        ..Cell::default()
    };
    assert_eq!(decoder.validate().unwrap_err().0[0].key, "data.label_column");
}

#[test]
fn keys_that_would_do_nothing_are_refused() {
    let full = |change: fn(&mut Cell)| {
        refused(|cell| {
            (cell.rank, cell.dtype) = (0, Dtype::Float32);
            change(cell);
        })
    };
    assert_eq!(full(|_| ()), None);
    assert_eq!(full(|cell| cell.lora_alpha = Some(8.0)).as_deref(), Some("lora_alpha"));
    assert_eq!(full(|cell| cell.lora_dropout = 0.1).as_deref(), Some("lora_dropout"));
    let modules = |cell: &mut Cell| cell.target_modules = Some(TargetModules::Names(vec!["q_proj".into()]));
    assert_eq!(full(modules).as_deref(), Some("target_modules"));
    assert_eq!(
        full(|cell| cell.bnb_4bit_use_double_quant = false).as_deref(),
        Some("bnb_4bit_use_double_quant")
    );
    assert_eq!(refused(|cell| cell.bnb_4bit_use_double_quant = false), None);
    let threads = |cell: &mut Cell| _ = cell.allocator.env.insert("RAYON_NUM_THREADS".into(), None);
    assert_eq!(refused(threads).as_deref(), Some("allocator.env.RAYON_NUM_THREADS"));
    let backend = |cell: &mut Cell| _ = cell.env.insert("CELL_ALLOCATOR".into(), Some("system".into()));
    assert_eq!(refused(backend).as_deref(), Some("env.CELL_ALLOCATOR"));
}

#[test]
fn an_adapter_has_its_keys() {
    let told = |change: fn(&mut Cell)| {
        let mut cell = Cell {
            adapter: Adapter::Ia3,
            ..Cell::default()
        };
        change(&mut cell);
        cell.validate().map_err(|invalid| invalid.0[0].to_string())
    };
    assert_eq!(told(|_| ()), Ok(()));
    for (key, change) in [
        ("rank", (|cell| cell.rank = 8) as fn(&mut Cell)),
        ("lora_alpha", |cell| cell.lora_alpha = Some(8.0)),
        ("lora_dropout", |cell| cell.lora_dropout = 0.1),
        ("lora_fa", |cell| cell.lora_fa = LoraATraining::Frozen),
        ("lora", |cell| cell.lora.use_rslora = true),
    ] {
        let told = told(change).unwrap_err();
        assert!(
            told.starts_with(&format!("{key}: has no effect with `adapter: ia3`")),
            "{told}"
        );
    }
    let given = |cell: &mut Cell| cell.ia3.feedforward_modules = Some(vec!["v_porj".into()]);
    assert!(told(given).unwrap_err().contains("did you mean `v_proj`?"));
    assert_eq!(refused(given).as_deref(), Some("ia3"));
    let galore = told(|cell| cell.optim = Optimizer::Galore).unwrap_err();
    assert!(galore.contains("nothing to project"), "{galore}");
}

#[test]
fn an_optimizer_has_its_keys() {
    let lion = |change: fn(&mut Cell)| {
        refused(|cell| {
            cell.optim = Optimizer::Lion;
            change(cell);
        })
    };
    assert_eq!(
        lion(|cell| (cell.adam_beta1, cell.adam_beta2) = (0.95, Some(0.98))),
        None
    );
    assert_eq!(lion(|cell| cell.adam_epsilon = 1e-6).as_deref(), Some("adam_epsilon"));
    assert_eq!(lion(|cell| cell.optim_rank = Some(4)).as_deref(), Some("optim_rank"));
}

#[test]
fn low_rank_state_has_its_keys() {
    assert_eq!(refused(|cell| cell.optim_rank = Some(4)).as_deref(), Some("optim_rank"));
    assert_eq!(
        refused(|cell| cell.update_proj_gap = Some(9)).as_deref(),
        Some("update_proj_gap")
    );
    assert_eq!(
        refused(|cell| cell.galore_scale = Some(1.0)).as_deref(),
        Some("galore_scale")
    );
    for optim in [Optimizer::Galore, Optimizer::Rsvd] {
        let with = |change: fn(&mut Cell)| {
            refused(|cell| {
                cell.optim = optim;
                change(cell);
            })
        };
        assert_eq!(with(|_| ()), None);
        assert_eq!(
            with(|cell| (cell.optim_rank, cell.update_proj_gap) = (Some(15), Some(1))),
            None
        );
        assert_eq!(
            with(|cell| cell.optim_rank = Some(16)).as_deref(),
            Some("optim_rank"),
            "rank 16"
        );
        assert_eq!(with(|cell| cell.optim_rank = Some(0)).as_deref(), Some("optim_rank"));
        assert_eq!(
            with(|cell| cell.update_proj_gap = Some(0)).as_deref(),
            Some("update_proj_gap")
        );
        let scaled = with(|cell| cell.galore_scale = Some(1.0));
        assert_eq!(scaled.is_none(), optim == Optimizer::Galore);
    }
    for scale in [0.0, -1.0, f64::NAN] {
        let bad = refused(|cell| (cell.optim, cell.galore_scale) = (Optimizer::Galore, Some(scale)));
        assert_eq!(bad.as_deref(), Some("galore_scale"), "{scale}");
    }
}

#[test]
fn a_profile_has_no_keys_of_a_training_in_many_steps() {
    type Change = fn(&mut Cell);
    let with = |change: fn(&mut Cell)| {
        refused(|cell| {
            cell.measure = Measure::Profile;
            change(cell);
        })
    };
    assert_eq!(with(|cell| (cell.batch_size, cell.optim) = (32, Optimizer::Rsvd)), None);
    assert_eq!(with(|cell| cell.gradient_accumulation_steps = 4), None);
    let changes: [(&str, Change); 5] = [
        ("max_steps", |cell| cell.max_steps = Some(3)),
        ("num_train_epochs", |cell| cell.num_train_epochs = Some(1.0)),
        ("lr_scheduler_type", |cell| cell.lr_scheduler_type = LrScheduler::Cosine),
        ("warmup_ratio", |cell| cell.warmup_ratio = 0.1),
        ("eval_fraction", |cell| cell.eval_fraction = 0.1),
    ];
    for (key, change) in changes {
        assert_eq!(with(change).as_deref(), Some(key));
    }
    assert_eq!(with(|cell| cell.device = "cuda:0".into()).as_deref(), Some("measure"));
}

#[test]
fn a_variable_has_one_name_and_one_place() {
    let set = |cell: &mut Cell, name: &str| _ = cell.env.insert(name.into(), Some("x".into()));
    assert_eq!(refused(|cell| set(cell, "A=B")).as_deref(), Some("env"));
    assert_eq!(refused(|cell| set(cell, "")).as_deref(), Some("env"));
    let twice = |cell: &mut Cell| {
        set(cell, "A");
        cell.allocator.env.insert("A".into(), None);
    };
    assert_eq!(refused(twice).as_deref(), Some("env.A"));
}

#[test]
fn a_variable_is_for_the_allocator_that_reads_it() {
    let with = |backend, name: &str, value: Option<&str>| {
        refused(|cell| {
            cell.allocator.backend = backend;
            cell.allocator.env.insert(name.into(), value.map(Into::into));
        })
    };
    let (malloc, mimalloc) = ("MALLOC_ARENA_MAX", "MIMALLOC_PURGE_DELAY");
    assert_eq!(with(Some(AllocatorBackend::System), malloc, Some("1")), None);
    assert_eq!(with(Some(AllocatorBackend::Mimalloc), mimalloc, Some("0")), None);
    for (backend, name) in [
        (Some(AllocatorBackend::Retain), malloc),
        (Some(AllocatorBackend::Mimalloc), malloc),
        (Some(AllocatorBackend::System), mimalloc),
        (None, mimalloc),
    ] {
        let key = format!("allocator.env.{name}");
        assert_eq!(with(backend, name, Some("1")), Some(key), "{backend:?}");
        assert_eq!(with(backend, name, None), None, "nobody minds what is not set");
    }
    let plain = |cell: &mut Cell| {
        cell.allocator.backend = Some(AllocatorBackend::Retain);
        cell.env.insert("MALLOC_TOP_PAD_".into(), Some("0".into()));
    };
    assert_eq!(refused(plain).as_deref(), Some("env.MALLOC_TOP_PAD_"));
}

#[test]
fn an_instruction_set_is_the_cpus() {
    let on = |device: &str, level| refused(|cell| (cell.device, cell.instruction_set) = (device.into(), level));
    assert_eq!(on("cpu", InstructionSetChoice::Level(InstructionSet::Amx)), None);
    assert_eq!(on("cuda:0", InstructionSetChoice::Auto), None);
    assert_eq!(
        on("cuda:0", InstructionSetChoice::Level(InstructionSet::Portable)).as_deref(),
        Some("instruction_set")
    );
}

#[test]
fn outliers_are_those_of_int8() {
    let key = Some("llm_int8_threshold");
    let of = |dtype, threshold| refused(|cell| (cell.dtype, cell.llm_int8_threshold) = (dtype, Some(threshold)));
    assert_eq!((of(Dtype::Int8, 0.0), of(Dtype::Int8, 6.0)), (None, None));
    for (dtype, threshold) in [
        (Dtype::Int4, 6.0),
        (Dtype::Int8, -1.0),
        (Dtype::Int8, f64::NAN),
        (Dtype::Int8, 1e6),
    ] {
        assert_eq!(of(dtype, threshold).as_deref(), key, "{dtype:?}, {threshold}");
    }
}

#[test]
fn codes_and_blocks_are_those_of_int4() {
    let fp4: fn(&mut Cell) = |cell| cell.bnb_4bit_quant_type = QuantType::Fp4;
    let blocks: fn(&mut Cell) = |cell| cell.bnb_4bit_blocksize = 4096;
    for (change, key) in [(fp4, "bnb_4bit_quant_type"), (blocks, "bnb_4bit_blocksize")] {
        assert_eq!(refused(change), None);
        let on_int8 = |cell: &mut Cell| {
            change(cell);
            cell.dtype = Dtype::Int8;
        };
        assert_eq!(refused(on_int8).as_deref(), Some(key));
    }
    for size in [0, 96, 8192] {
        let key = refused(|cell| cell.bnb_4bit_blocksize = size);
        assert_eq!(key.as_deref(), Some("bnb_4bit_blocksize"), "{size}");
    }
}

#[test]
fn what_the_candle_stack_cannot_do_is_refused() {
    for dtype in [Dtype::Float16, Dtype::Int8] {
        assert_eq!(
            refused(|cell| cell.adapter_dtype = dtype).as_deref(),
            Some("adapter_dtype")
        );
    }
    assert_eq!(
        refused(|cell| cell.attn_implementation = Attention::FlashAttention2).as_deref(),
        Some("attn_implementation")
    );
    assert_eq!(refused(|cell| cell.upcast = Upcast::Trl).as_deref(), Some("upcast"));
    assert_eq!(
        refused(|cell| cell.autocast = Autocast::Bfloat16).as_deref(),
        Some("autocast")
    );
    assert_eq!(
        refused(|cell| cell.torch.use_cache = true).as_deref(),
        Some("torch.use_cache")
    );
    assert_eq!(
        refused(|cell| cell.empty_cache_steps = 1).as_deref(),
        Some("empty_cache_steps")
    );
    assert_eq!(
        refused(|cell| cell.torch.torch_version = Some("2.14".into())).as_deref(),
        Some("torch.torch_version")
    );
    let system = |cell: &mut Cell| {
        cell.allocator.backend = Some(AllocatorBackend::System);
        cell.empty_cache_steps = 1;
    };
    assert_eq!(refused(system), None);
    let late = |cell: &mut Cell| {
        cell.allocator.backend = Some(AllocatorBackend::System);
        (cell.empty_cache_steps, cell.max_steps) = (4, Some(3));
    };
    assert_eq!(refused(late).as_deref(), Some("empty_cache_steps"));
    let cuda = |cell: &mut Cell| (cell.device, cell.empty_cache_steps) = ("cuda:0".into(), 1);
    assert_eq!(refused(cuda).as_deref(), Some("empty_cache_steps"));
    let float32 = |cell: &mut Cell| (cell.dtype, cell.bnb_4bit_compute_dtype) = (Dtype::Int8, Dtype::Float32);
    assert_eq!(refused(float32).as_deref(), Some("bnb_4bit_compute_dtype"));
}
