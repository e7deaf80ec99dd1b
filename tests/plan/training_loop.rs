//! When the loop of `stack: torch` lets outputs and gradients go, and what its optimizer leaves out: to the byte.

use serde_json::Value;

use crate::Place;

/// Two micro-batches of 2 × 256 tokens; the vocabulary has 49,152.
const SPEC: &str = "\
name: training_loop
defaults: { stack: torch, model: smollm2-135m, dtype: bfloat16, batch_size: 2, max_seq_length: 256, max_steps: 3 }
sweep: { grid: ";

/// Logits of a micro-batch, in bfloat16.
const LOGITS: u64 = 2 * 256 * 49_152 * 2;

/// The cells of `grid`, in its order.
fn planned(grid: &str) -> Vec<Value> {
    Place::new(&format!("{SPEC}{grid} }}\n")).planned(&["--no-replay"])
}

fn predicted(cell: &Value, column: &str) -> u64 {
    cell[format!("predicted_{column}")].as_u64().unwrap()
}

#[test]
fn outputs_stay_as_long_as_is_said() {
    let cells = planned("{ keep_outputs: [none, step, next_forward] }");
    let [none, step, next] = &cells[..] else {
        panic!("{cells:?}")
    };
    let mean = |cell| predicted(cell, "allocated_mean_bytes");
    assert_eq!(mean(step) - mean(none), LOGITS);
    assert_eq!(mean(next), mean(step));
    let forward = |cell| predicted(cell, "allocated_peak_in_forward_bytes");
    assert_eq!(forward(step), forward(none));
    // The last ones are still there, with the token ids and the loss.
    assert_eq!(forward(next) - forward(step), LOGITS + 2 * 256 * 8 + 512);
}

#[test]
fn gradients_stay_as_long_as_is_said() {
    let cells = planned("{ zero_grad: [after_step, before_forward] }");
    let [after, before] = &cells[..] else {
        panic!("{cells:?}")
    };
    // Either way they are gone when the next step computes: its peaks are the same.
    for phase in ["forward", "backward", "optimizer"] {
        let column = format!("allocated_peak_in_{phase}_bytes");
        assert_eq!(predicted(before, &column), predicted(after, &column), "{phase}");
    }
    // What the allocator's cache can give back is less while they are there.
    let cells = Place::new(&format!(
        "{SPEC}{{ zero_grad: [after_step, before_forward], empty_cache_steps: [1], rank: [0] }} }}\n"
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
