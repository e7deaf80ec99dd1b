//! When the loop of `stack: torch` lets outputs and gradients go, and what its optimizers keep and leave out: to the byte.

use serde_json::Value;

use crate::common::project::Project;

/// Two micro-batches of 2 × 256 tokens; the vocabulary has 49,152.
const SPEC: &str = "\
name: training_loop
defaults: { stack: torch, model: smollm2-135m, dtype: bfloat16, batch_size: 2, max_seq_length: 256, max_steps: 3 }
sweep: { grid: ";

/// Bytes that a micro-batch's outputs hold: logits in bfloat16, the loss, and its token ids.
const HELD: u64 = 2 * 256 * 49_152 * 2 + 512 + 2 * 256 * 8;

/// The cells of `grid`, in its order.
fn planned(grid: &str) -> Vec<Value> {
    Project::new(&format!("{SPEC}{grid} }}\n")).planned(&["--no-replay"])
}

fn predicted(cell: &Value, column: &str) -> u64 {
    cell[format!("predicted_{column}")].as_u64().unwrap()
}

#[test]
fn outputs_stay_as_long_as_is_said() {
    let cells = planned("{ torch.keep_outputs: [none, step, next_forward] }");
    let [none, step, next] = &cells[..] else {
        panic!("{cells:?}")
    };
    let mean = |cell| predicted(cell, "allocated_mean_bytes");
    assert_eq!(mean(step) - mean(none), HELD);
    assert_eq!(mean(next), mean(step));
    let forward = |cell| predicted(cell, "allocated_peak_in_forward_bytes");
    assert_eq!(forward(step), forward(none));
    assert_eq!(forward(next) - forward(step), HELD, "the last ones are still there");
}

#[test]
fn gradients_stay_as_long_as_is_said() {
    let cells = planned("{ torch.zero_grad: [after_step, before_forward], empty_cache_steps: [1] }");
    let [after, before] = &cells[..] else {
        panic!("{cells:?}")
    };
    // Either way they are gone when the next step computes: its peaks are the same.
    for phase in ["forward", "backward", "optimizer"] {
        let column = format!("allocated_peak_in_{phase}_bytes");
        assert_eq!(predicted(before, &column), predicted(after, &column), "{phase}");
    }
    // The allocator's cache can give back less while they are there.
    let cells = Project::new(&format!(
        "{SPEC}{{ torch.zero_grad: [after_step, before_forward], empty_cache_steps: [1], rank: [0], torch.torch_version: ['2.14'] }} }}\n"
    ))
    .planned(&[]);
    let segments = |cell: &Value| predicted(cell, "segments");
    assert_ne!(segments(&cells[0]), segments(&cells[1]));
}

#[test]
fn a_factor_that_the_optimizer_leaves_out_has_gradients_and_no_moments() {
    let cells = planned("{ lora_fa: [none, optimizer, frozen] }");
    let [none, optimizer, frozen] = &cells[..] else {
        panic!("{cells:?}")
    };
    let trainable = |cell| predicted(cell, "trainable_count");
    assert_eq!(trainable(optimizer), trainable(frozen));
    let factor = trainable(none) - trainable(optimizer);
    let mean = |cell| predicted(cell, "allocated_mean_bytes");
    assert_eq!(mean(none) - mean(optimizer), factor * 8, "two moments in float32");
    assert_eq!(mean(optimizer) - mean(frozen), factor * 4, "gradients in float32");
    let peak = |cell| predicted(cell, "allocated_peak_bytes");
    assert!(
        peak(optimizer) > peak(frozen) + factor * 4,
        "inputs are kept in float32"
    );
}

/// 60 factors of 9,216 weights in float32; what is allocated comes in multiples of 512 bytes.
#[test]
fn states_are_what_each_optimizer_keeps() {
    let states = |optim: &str, rank: u64| {
        let grid =
            format!("{{ target_modules: [[o_proj]], rank: [{rank}], weight_decay: [0.1], optim: [sgd, {optim}] }}");
        let cells = planned(&grid);
        let mean = |cell| predicted(cell, "allocated_mean_bytes");
        mean(&cells[1]) - mean(&cells[0])
    };
    let moments = 60 * 2 * 9_216 * 4;
    assert_eq!(states("adamw", 16), moments);
    assert_eq!(states("lion", 16), moments / 2);
    assert_eq!(states("adamw_torch_fused", 16), moments + 60 * 512, "and a count each");
    // A byte a weight and moment, scales for 256 of them each, and two codes of 256 values.
    assert_eq!(states("adamw_8bit", 16), 60 * 2 * (9_216 + 512) + 2 * 1_024);
    // Parameters of fewer than 4,096 weights stay in 32 bits, and of fewer than 100,000 unpaged.
    assert_eq!(states("adamw_8bit", 4), moments / 4);
    assert_eq!(states("paged_adamw_32bit", 16), moments);
    assert_eq!(states("paged_adamw_32bit", 256), 0);
    assert_eq!(
        states("paged_adamw_8bit", 256),
        60 * 2 * 2_560 + 2 * 1_024,
        "scales of 576 blocks"
    );

    // AdamW's roots and the gradients with SGD's decay come on top of everything; the others work in place.
    let grid = "{ rank: [0], weight_decay: [0.1], optim: [adamw, adamw_torch_fused, sgd, adamw_8bit] }";
    let cells = planned(grid);
    let temporaries = |at: usize| {
        predicted(&cells[at], "allocated_peak_in_optimizer_bytes") - predicted(&cells[at], "allocated_mean_bytes")
    };
    let weights = predicted(&cells[0], "parameter_count") * 2;
    assert!(temporaries(0) >= weights && temporaries(2) >= weights);
    assert!(temporaries(1) < weights / 100 && temporaries(3) < weights / 100);
}
