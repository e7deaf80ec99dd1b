//! Models that FSDP shares.

use expctl::arch::Preset;
use expctl::options::{
    AdapterOptions, Attention, Autocast, BackwardPrefetch, Checkpointing, Dtype as WeightDtype, Optimizer,
    ShardingStrategy, TargetModules,
};
use expctl::torch::{Backend, Configuration, Dtype, Fsdp, MicroBatchShape, Ranks, trace};
use expctl::trace::Account;

use super::torch::{FIGURES, dtype, figures, lora, rows};

/// Steps of two processes of PyTorch (`python/torch_abstract/make_fsdp.py`).
#[test]
fn steps_of_fsdp_take_what_two_processes_take() {
    let mut wrong = Vec::new();
    let cases = rows(include_str!("../fixtures/torch_abstract/fsdp.csv"), |row| {
        let mut model = Preset::named(row.get("model")).expect("a preset").config();
        model.num_hidden_layers = 3;
        let (checkpointing, is_mixed) = (row.get("gradient_checkpointing"), row.is("mixed"));
        let fsdp = Fsdp {
            per_parameter: row.count("version") == 2,
            ranks: 2,
            strategy: match row.get("sharding_strategy") {
                "full_shard" => ShardingStrategy::FullShard,
                "shard_grad_op" => ShardingStrategy::ShardGradOp,
                _ => ShardingStrategy::NoShard,
            },
            wraps_blocks: row.get("auto_wrap_policy") != "no_wrap",
            backward_prefetch: match row.get("backward_prefetch") {
                "backward_pre" => BackwardPrefetch::BackwardPre,
                "backward_post" => BackwardPrefetch::BackwardPost,
                _ => BackwardPrefetch::NoPrefetch,
            },
            forward_prefetch: row.is("forward_prefetch"),
            limit_all_gathers: true,
            offload_params: false,
            use_orig_params: row.is("use_orig_params") && row.count("version") == 1,
            param_dtype: is_mixed.then_some(Dtype::Bfloat16),
            upcasts: is_mixed,
            checkpoints_within: true,
            cpu_leads: true,
        };
        let adapter = lora(row.count("rank"), TargetModules::AllLinear);
        let mut configuration = Configuration {
            dtype: dtype(row.get("dtype")).1,
            adapter: adapter.map(|adapter| AdapterOptions {
                dtype: WeightDtype::Float32,
                ..adapter
            }),
            autocast: match is_mixed {
                true => Autocast::Bfloat16,
                false => Autocast::None,
            },
            attn_implementation: Attention::Eager,
            gradient_checkpointing: match checkpointing {
                "none" => Checkpointing::None,
                _ => Checkpointing::Full,
            },
            enable_input_require_grads: checkpointing != "none",
            optim: Optimizer::Adamw,
            max_grad_norm: 0.0,
            ranks: Some(Ranks::Fsdp(fsdp)),
            backend: Backend::Cpu,
            ..Configuration::new(model)
        };
        configuration.transformers.use_reentrant = checkpointing == "default";
        let micro = row.micro("batch", "len");
        let micros: Vec<MicroBatchShape> = micro.repeat(row.count("gradient_accumulation_steps") as usize);
        let ours = figures(&trace(&configuration, &[&micros, &micros]));
        for (key, ours) in FIGURES.iter().zip(ours) {
            let error = ours as f64 / row.number(key) - 1.0;
            let most = if *key == "after_optimizer_step" { 2e-3 } else { 1e-3 };
            if error.abs() > most {
                let case = row.values.join(",");
                wrong.push(format!("{case}: {key} {ours}, {:+.3} %", 100.0 * error));
            }
        }
    });
    assert!(wrong.is_empty(), "{} figures:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(cases, 58);
}

/// The first rank's figures of a full training of smollm2-135m in one step.
fn planned(ranks: u64, change: impl FnOnce(&mut Fsdp)) -> Account {
    let mut fsdp = Fsdp {
        per_parameter: false,
        ranks,
        strategy: ShardingStrategy::FullShard,
        wraps_blocks: true,
        backward_prefetch: BackwardPrefetch::BackwardPre,
        forward_prefetch: false,
        limit_all_gathers: true,
        offload_params: false,
        use_orig_params: false,
        param_dtype: None,
        upcasts: false,
        checkpoints_within: true,
        cpu_leads: true,
    };
    change(&mut fsdp);
    let configuration = Configuration {
        dtype: WeightDtype::Float32,
        adapter: None,
        ranks: Some(Ranks::Fsdp(fsdp)),
        backend: Backend::Cpu,
        ..Configuration::new(Preset::named("smollm2-135m").unwrap().config())
    };
    let micro = MicroBatchShape {
        batch: 1,
        len: 16,
        padded: false,
        apart: 0,
        unpadded: 0,
    };
    Account::of(&trace(&configuration, &[&[micro], &[micro]]), 1, 1)
}

#[test]
fn ranks_share_what_is_there_between_steps() {
    let bytes = 4 * Preset::named("smollm2-135m").unwrap().config().parameter_count();
    for per_parameter in [false, true] {
        let at_rest = |ranks| planned(ranks, |fsdp| fsdp.per_parameter = per_parameter).at_end;
        for ranks in [2, 8] {
            // Parameters and two moments.
            let share = 3 * bytes / ranks;
            let more = at_rest(ranks).abs_diff(share);
            assert!(more < share / 100, "{per_parameter} {ranks}: {more}");
        }
    }
}

#[test]
fn offloaded_shards_are_on_the_cpu() {
    for per_parameter in [false, true] {
        let of = |offload_params| {
            planned(2, |fsdp| {
                (fsdp.per_parameter, fsdp.offload_params) = (per_parameter, offload_params);
            })
        };
        let (shared, offloaded) = (of(false), of(true));
        let bytes = 4 * Preset::named("smollm2-135m").unwrap().config().parameter_count();
        assert_eq!(shared.host_peak, 0);
        // Parameters, gradients and two moments.
        for (there, expected) in [
            (offloaded.host_peak, 4 * bytes / 2),
            (shared.at_end - offloaded.at_end, 3 * bytes / 2),
        ] {
            assert!(there.abs_diff(expected) < expected / 100, "{there} {expected}");
        }
    }
}
