//! What a stack or a measurement is refused for.

use super::refused;
use crate::{
    Adapter, AllocatorBackend, Attention, Autocast, Cell, Checkpointing, Dtype, FloatDtype, LrScheduler, Measure,
    Optimizer, Stack, Task, Upcast, ZeroGrad,
};

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
    assert_eq!(
        with(|cell| cell.device = Some("cuda:0".into())).as_deref(),
        Some("measure")
    );
}

#[test]
fn what_the_candle_stack_cannot_do_is_refused() {
    assert_eq!(
        refused(|cell| cell.adapter_dtype = FloatDtype::Float16).as_deref(),
        Some("adapter_dtype")
    );
    assert_eq!(Cell::default().with("adapter_dtype", &"int8".into()), None);
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
    let cuda = |cell: &mut Cell| (cell.device, cell.empty_cache_steps) = (Some("cuda:0".into()), 1);
    assert_eq!(refused(cuda).as_deref(), Some("empty_cache_steps"));
    let float32 = |cell: &mut Cell| (cell.dtype, cell.bnb_4bit_compute_dtype) = (Dtype::Int8, FloatDtype::Float32);
    assert_eq!(refused(float32).as_deref(), Some("bnb_4bit_compute_dtype"));
    let pytorchs = |cell: &mut Cell| {
        _ = cell
            .env
            .insert("PYTORCH_ALLOC_CONF".into(), Some("backend:native".into()))
    };
    assert_eq!(refused(pytorchs).as_deref(), Some("env.PYTORCH_ALLOC_CONF"));
}

#[test]
fn what_a_plan_of_pytorchs_stack_would_not_show_is_refused() {
    let torch = |change: fn(&mut Cell)| {
        refused(|cell| {
            cell.stack = Stack::Torch;
            change(cell);
        })
    };
    let late = |cell: &mut Cell| (cell.empty_cache_steps, cell.max_steps) = (4, Some(3));
    assert_eq!(torch(late).as_deref(), Some("empty_cache_steps"));
    assert_eq!(torch(|cell| cell.empty_cache_steps = 10), None);
    let float32 = |cell: &mut Cell| (cell.dtype, cell.bnb_4bit_compute_dtype) = (Dtype::Int8, FloatDtype::Float32);
    assert_eq!(torch(float32), None, "the format of what int8 leaves unquantised");
    let before = |cell: &mut Cell| cell.torch.zero_grad = ZeroGrad::BeforeForward;
    assert_eq!(torch(before).as_deref(), Some("torch.zero_grad"));
    let emptied = |cell: &mut Cell| (cell.torch.zero_grad, cell.empty_cache_steps) = (ZeroGrad::BeforeForward, 1);
    assert_eq!(torch(emptied), None);
    assert_eq!(torch(|cell| cell.torch.use_cache = true), None);
    let without_cache: [fn(&mut Cell); 3] = [
        |cell| cell.gradient_checkpointing = Checkpointing::Full,
        |cell| cell.adapter = Adapter::PrefixTuning,
        |cell| (cell.model, cell.task) = ("bert-base".into(), Task::SequenceClassification),
    ];
    for change in without_cache {
        let key = refused(|cell| {
            (cell.stack, cell.dtype, cell.torch.use_cache) = (Stack::Torch, Dtype::Float32, true);
            change(cell);
        });
        assert_eq!(key.as_deref(), Some("torch.use_cache"));
    }
}
