//! How long a step of PyTorch's stack takes: arithmetic and bytes of its operations, at rates that GPUs reach.
//!
//! Every kind of work takes the longer of its operations and its bytes; the kinds follow one another, and the host must
//! launch them. `docs/speed.md` has the formulas, the published speeds that they were compared with, and what they miss.

use arch::{Kind, ModelConfig};
use cell::{Attention, Autocast, Cell, Data, Dtype, FloatDtype, Optimizer, Stack, Task, Upcast};
use options::Lengths;
use torch::gpu::{ComputeCapability, Gpu, NATIVE_BFLOAT16, Rates};

/// Shares of peak rates that are reached. They were chosen on half of the published speeds.
mod reached {
    /// Products on tensor cores.
    pub(super) const MATMUL: f64 = 0.67;
    /// The same at half rate, which power and memory limit less.
    pub(super) const HALF_RATE: f64 = 0.90;
    /// Fused attention.
    pub(super) const ATTENTION: f64 = 0.50;
    /// Fused attention with a mask, over the whole square.
    pub(super) const MASKED: f64 = 0.15;
    /// Fused attention in float32, of the float32 rate.
    pub(super) const ATTENTION_FLOAT32: f64 = 0.25;
    /// Fused attention of 16 bits on Hopper: its kernels are Ampere's.
    pub(super) const HOPPER: f64 = 0.5;
    /// Products in float32.
    pub(super) const FLOAT32: f64 = 0.70;
    /// Memory.
    pub(super) const BANDWIDTH: f64 = 0.82;
    /// 4-bit weights that a multiprocessor decodes in a clock.
    pub(super) const DECODED: f64 = 0.47;
}

/// Seconds in which the host launches an operation.
const LAUNCH: f64 = 34e-6;

/// The range goes from the likely time over this to the likely time by this.
const SPREAD: f64 = std::f64::consts::SQRT_2;

/// The speed of an optimizer step on samples of one length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Floating-point operations.
    pub flops: f64,
    /// The least and the most of its seconds.
    pub seconds: [f64; 2],
    /// The least and the most of its tokens in a second, with padding.
    pub tokens_per_second: [f64; 2],
}

/// The speed of `cell` on `gpu`, every sample as long as `max_seq_length`. `None` for what no published speed was compared
/// with: our trainer, classifiers, int8, several GPUs, DeepSpeed, and one whose rates are not known.
pub fn speed(cell: &Cell, model: &ModelConfig, gpu: Option<&Gpu>) -> Option<Speed> {
    let gpu = gpu?;
    let is_one = cell.stack == Stack::Torch && cell.world_size == 1 && !cell.is_deepspeed();
    let is_known = is_one && cell.task == Task::CausalLm && cell.dtype != Dtype::Int8;
    let rates = gpu.rates().filter(|_| is_known)?;
    let work = Work::new(cell, model, rates, gpu.capability);
    let micro_batches = cell.gradient_accumulation_steps as f64;
    let seconds = micro_batches * work.seconds() + work.optimizer();
    let tokens = micro_batches * work.tokens;
    Some(Speed {
        flops: micro_batches * work.flops(),
        seconds: [seconds / SPREAD, seconds * SPREAD],
        tokens_per_second: [tokens / seconds / SPREAD, tokens / seconds * SPREAD],
    })
}

/// One micro-batch, in numbers.
struct Work<'c> {
    cell: &'c Cell,
    model: &'c ModelConfig,
    rates: &'c Rates,
    /// Products in the format of the activations, in float32, and bytes, per second.
    products: f64,
    float32: f64,
    bandwidth: f64,
    attention: f64,
    batch: f64,
    length: f64,
    tokens: f64,
    /// Weights of the blocks' linear layers.
    linear: f64,
    /// Passes of the blocks besides the forward pass: recomputed, and for gradients of weights.
    recomputed: f64,
    of_weights: f64,
    /// Bytes of the residual stream's and of the activations' elements.
    stream: f64,
    activation: f64,
}

impl<'c> Work<'c> {
    fn new(cell: &'c Cell, model: &'c ModelConfig, rates: &'c Rates, capability: ComputeCapability) -> Self {
        use reached::{ATTENTION, ATTENTION_FLOAT32, BANDWIDTH, FLOAT32, HALF_RATE, HOPPER, MASKED, MATMUL};
        let is_full = cell.method().is_none();
        let autocast = cell.autocast != Autocast::None;
        let is_prepared = cell.upcast != Upcast::None;
        let is_float32 = cell.dtype == Dtype::Float32;
        let activation = if (is_float32 || is_prepared) && !autocast {
            4.0
        } else {
            2.0
        };
        let stream = if is_float32 || is_prepared { 4.0 } else { 2.0 };
        let is_bfloat16 = cell.dtype == Dtype::Bfloat16 || cell.autocast == Autocast::Bfloat16;
        let has_tensor_cores = !(is_bfloat16 && capability < NATIVE_BFLOAT16);
        let float32 = rates.float32 * FLOAT32;
        let products = match has_tensor_cores && (autocast || !is_float32) {
            true => rates.tensor * if rates.is_half_rate { HALF_RATE } else { MATMUL },
            false => float32,
        };
        let fused = match capability {
            ComputeCapability(9 | 10, _) => rates.tensor * HOPPER,
            _ if has_tensor_cores => rates.tensor,
            _ => rates.float32,
        };
        let attention = match activation > 2.0 {
            true => rates.float32 * ATTENTION_FLOAT32,
            false if is_masked(cell) => fused * MASKED,
            false => fused * ATTENTION,
        };
        let layers = model.num_hidden_layers as f64;
        let (batch, length) = (cell.batch_size as f64, cell.max_seq_length as f64);
        Self {
            cell,
            model,
            rates,
            products,
            float32,
            bandwidth: rates.bandwidth * BANDWIDTH,
            attention,
            batch,
            length,
            tokens: batch * length,
            linear: layers * of_linear(model, |rows, columns| rows * columns),
            recomputed: recomputed(cell, model),
            of_weights: if is_full { 1.0 } else { 0.0 },
            stream,
            activation,
        }
    }

    /// Seconds of the micro-batch.
    fn seconds(&self) -> f64 {
        let gpu = self.blocks()
            + self.head()
            + self.scores()
            + self.elementwise()
            + self.adapters()
            + self.decoding()
            + self.summing();
        gpu.max(self.host())
    }

    /// Products with the blocks' weights.
    fn blocks(&self) -> f64 {
        let wide = self.cell.dtype == Dtype::Float32 && self.cell.autocast == Autocast::None;
        let bytes = if wide { 4.0 } else { 2.0 };
        let pass = (2.0 * self.tokens * self.linear / self.products).max(bytes * self.linear / self.bandwidth);
        pass * (2.0 + self.recomputed + self.of_weights)
    }

    /// The head's products and the loss; those of a loss that holds no logits are taken twice.
    fn head(&self) -> f64 {
        let weights = self.model.hidden_size as f64 * self.model.vocab_size as f64;
        let (rate, bytes) = match self.activation > 2.0 {
            true => (self.float32, 4.0),
            false => (self.products, 2.0),
        };
        let pass = (2.0 * self.tokens * weights / rate).max(bytes * weights / self.bandwidth);
        let again = if self.cell.loss().is_partial() { 1.0 } else { 0.0 };
        let loss = 40.0 * self.model.vocab_size as f64 * self.tokens / self.bandwidth;
        pass * (2.0 + again + self.of_weights) + loss
    }

    /// Operations of the scores and of their product with values, over whole squares.
    fn square(&self) -> f64 {
        let width = (self.model.num_attention_heads * self.model.head_dim) as f64;
        4.0 * self.batch * self.length * self.length * width * self.model.num_hidden_layers as f64
    }

    fn is_eager(&self) -> bool {
        self.cell.attn_implementation == Attention::Eager
    }

    /// Attention without its projections.
    fn scores(&self) -> f64 {
        if !self.is_eager() {
            // Without a mask, the half of the square that a token does not see is left out.
            let share = if is_masked(self.cell) { 1.0 } else { 0.5 };
            return share * self.square() * (1.0 + self.recomputed + 2.5) / self.attention;
        }
        let is_wide = self.activation > 2.0;
        let (rate, bytes) = if is_wide {
            (self.float32, 32.0)
        } else {
            (self.products, 24.0)
        };
        let elements = self.batch
            * self.model.num_attention_heads as f64
            * self.length
            * self.length
            * self.model.num_hidden_layers as f64;
        self.square() * (3.0 + self.recomputed) / rate
            + elements * (bytes * (1.0 + self.recomputed) + 36.0) / self.bandwidth
    }

    /// Bytes of norms, residual sums, rotary embeddings and activations.
    fn elementwise(&self) -> f64 {
        let hidden = self.model.hidden_size as f64;
        let [queries, keys] = [self.model.num_attention_heads, self.model.num_key_value_heads]
            .map(|heads| (heads * self.model.head_dim) as f64);
        let (stream, activation) = (self.stream, self.activation);
        let norms = 2.0 * hidden * if stream > 2.0 { 28.0 } else { 36.0 };
        let rotary = 9.0 * activation * (queries + keys);
        let repeated = match keys < queries && !self.is_eager() {
            true => 4.0 * activation * queries,
            false => 0.0,
        };
        let gated = 5.0 * activation * self.model.intermediate_size as f64;
        let of_quantised = match (self.cell.dtype == Dtype::Int4 && stream > 2.0, activation > 2.0) {
            (true, true) => 6.0 * of_linear(self.model, |rows, columns| rows + columns),
            (true, false) => 30.0 * hidden,
            (false, _) => 0.0,
        };
        let block =
            norms + 6.0 * stream * hidden + 2.0 * activation * hidden + rotary + repeated + gated + of_quantised;
        let blocks = block * self.model.num_hidden_layers as f64 * self.tokens * (3.0 + self.recomputed);
        // Autocast casts float32 weights in each pass.
        let casts = match self.cell.dtype == Dtype::Float32 && self.cell.autocast != Autocast::None {
            true => 6.0 * self.linear * (2.0 + self.recomputed),
            false => 0.0,
        };
        (blocks + casts) / self.bandwidth
    }

    /// The linear layers with an adapter: inputs and outputs of each.
    fn adapted(&self) -> Vec<[f64; 2]> {
        let Some(adapter) = self.cell.adapter_options() else {
            return Vec::new();
        };
        let adapted = self.model.adapted(&adapter);
        let dims = adapted.filter_map(|(_, module)| <[usize; 2]>::try_from(module.dims(self.model)).ok());
        dims.map(|[rows, columns]| [columns as f64, rows as f64]).collect()
    }

    /// Adapters of low rank, whose bytes are mostly those of copies and casts around them.
    fn adapters(&self) -> f64 {
        let is_narrow = self.cell.autocast != Autocast::None || self.cell.adapter_dtype != FloatDtype::Float32;
        let drops = self.cell.lora_dropout > 0.0;
        let dropout = match (drops, is_narrow) {
            (false, _) => 0.0,
            (true, true) => 5.0,
            (true, false) => 9.0,
        };
        let passes = 1.0 + self.recomputed;
        let rank = self.cell.rank as f64;
        let of_layer = |[input, output]: [f64; 2]| {
            let bytes = match is_narrow {
                true => passes * ((2.0 + dropout) * input + 12.0 * output) + (10.0 + dropout) * input + 8.0 * output,
                false => passes * ((10.0 + dropout) * input + 28.0 * output) + (20.0 + dropout) * input + 28.0 * output,
            };
            let rate = if is_narrow { self.products } else { self.float32 };
            bytes / self.bandwidth + 2.0 * rank * (input + output) * (3.0 + self.recomputed) / rate
        };
        self.tokens * self.adapted().into_iter().map(of_layer).sum::<f64>()
    }

    /// 4-bit weights to 16 bits, in each pass.
    fn decoding(&self) -> f64 {
        if self.cell.dtype != Dtype::Int4 {
            return 0.0;
        }
        let of_weight = (1.0 / (self.rates.clocks * reached::DECODED)).max(2.5 / self.bandwidth);
        self.linear * (2.0 + self.recomputed) * of_weight
    }

    /// Bytes of one trained weight, and their number, where the model's own are trained.
    fn trained_bytes(&self) -> f64 {
        let bytes = if self.cell.dtype == Dtype::Float32 { 4.0 } else { 2.0 };
        self.of_weights * self.model.parameter_count() as f64 * bytes
    }

    /// Gradients of weights that are added to those of the micro-batches before.
    fn summing(&self) -> f64 {
        match self.cell.gradient_accumulation_steps > 1 {
            true => 3.0 * self.trained_bytes() / self.bandwidth,
            false => 0.0,
        }
    }

    /// The optimizer's step, which is short where adapters are trained.
    fn optimizer(&self) -> f64 {
        let passes = match self.cell.optim {
            Optimizer::AdamwTorchFused => 7.0,
            Optimizer::Adafactor => 18.0,
            optimizer if optimizer.is_8bit() => 4.5,
            _ => 21.0,
        };
        let clipping = if self.cell.max_grad_norm > 0.0 { 3.0 } else { 0.0 };
        self.trained_bytes() * (passes + clipping) / self.bandwidth
    }

    /// The host launches operations while the GPU works.
    fn host(&self) -> f64 {
        let layers = self.model.num_hidden_layers as f64;
        let decoded = if self.cell.dtype == Dtype::Int4 { 21.0 } else { 0.0 };
        let operations = layers * (45.0 + decoded) + 6.0 * self.adapted().len() as f64;
        operations * (2.0 + self.recomputed) * LAUNCH
    }

    /// Floating-point operations of the micro-batch; those of adapters are below a few percent, and left out.
    fn flops(&self) -> f64 {
        let weights = self.model.hidden_size as f64 * self.model.vocab_size as f64;
        let scores = match self.is_eager() {
            true => self.square() * (3.0 + self.recomputed),
            false => self.square() / 2.0 * (3.5 + self.recomputed),
        };
        2.0 * self.tokens * self.linear * (2.0 + self.recomputed + self.of_weights)
            + 2.0 * self.tokens * weights * (2.0 + self.of_weights)
            + scores
    }
}

/// True if `sdpa` is given a mask: of samples of different lengths in one micro-batch.
fn is_masked(cell: &Cell) -> bool {
    let is_even = match &cell.data {
        Data::Synthetic(synthetic) => matches!(synthetic.lengths, Lengths::Fixed),
        _ => false,
    };
    cell.attn_implementation == Attention::Sdpa && cell.batch_size > 1 && !cell.packing && !is_even
}

/// The sum over a block's linear layers.
fn of_linear(model: &ModelConfig, of: impl Fn(f64, f64) -> f64) -> f64 {
    let modules = model.family.description().block.iter();
    let linear = modules.filter(|module| module.kind == Kind::Linear);
    let dims = linear.filter_map(|module| <[usize; 2]>::try_from(module.dims(model)).ok());
    dims.map(|[rows, columns]| of(rows as f64, columns as f64)).sum()
}

/// The share of blocks whose forward pass is computed twice.
fn recomputed(cell: &Cell, model: &ModelConfig) -> f64 {
    let layers = model.num_hidden_layers.max(1);
    cell.gradient_checkpointing.count(layers) as f64 / layers as f64
}

#[cfg(test)]
mod tests {
    use arch::Preset;
    use cell::{Checkpointing, TargetModules};

    use super::*;

    fn cell(model: &str) -> Cell {
        Cell {
            model: model.into(),
            stack: Stack::Torch,
            dtype: Dtype::Bfloat16,
            autocast: Autocast::None,
            adapter_dtype: FloatDtype::Float32,
            gradient_checkpointing: Checkpointing::Full,
            max_grad_norm: 1.0,
            ..Cell::default()
        }
    }

    fn names(names: &[&str]) -> Option<TargetModules> {
        Some(TargetModules::Names(
            names.iter().map(|name| (*name).to_owned()).collect(),
        ))
    }

    /// The range and the FLOPs, computed by a plain program from the same formulas.
    fn check(cell: &Cell, gpu: &str, tera_flops: f64, range: [f64; 2]) {
        let model = Preset::named(&cell.model).unwrap().config();
        let speed = speed(cell, &model, Gpu::named(gpu).ok()).unwrap();
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.01;
        assert!(near(speed.flops / 1e12, tera_flops), "{gpu}: {:e}", speed.flops);
        for (value, expected) in speed.seconds.into_iter().zip(range) {
            assert!(near(value, expected), "{gpu}: {:?}, not {range:?}", speed.seconds);
        }
    }

    #[test]
    fn times_are_those_of_the_formulas() {
        let t4 = Cell {
            dtype: Dtype::Float16,
            rank: 32,
            target_modules: names(&["q_proj", "k_proj", "v_proj", "o_proj"]),
            batch_size: 2,
            max_seq_length: 1024,
            ..cell("tinyllama-1.1b")
        };
        check(&t4, "t4", 13.29, [0.7467, 1.493]);
        let prepared = Cell {
            dtype: Dtype::Int4,
            upcast: Upcast::Peft,
            ..t4
        };
        check(&prepared, "t4", 13.29, [1.279, 2.558]);
        let mistral = Cell {
            dtype: Dtype::Int4,
            upcast: Upcast::Peft,
            autocast: Autocast::Bfloat16,
            rank: 16,
            lora_dropout: 0.1,
            target_modules: names(&["q_proj", "k_proj", "v_proj", "o_proj"]),
            batch_size: 4,
            max_seq_length: 4096,
            ..cell("mistral-7b")
        };
        check(&mistral, "a100-80gb", 773.9, [3.76, 7.521]);
        let full = Cell {
            rank: 0,
            batch_size: 4,
            max_seq_length: 4096,
            ..cell("mistral-7b")
        };
        check(&full, "a100-80gb", 1007.0, [4.208, 8.415]);
        let llama = Cell {
            dtype: Dtype::Int4,
            upcast: Upcast::Peft,
            autocast: Autocast::Bfloat16,
            rank: 16,
            target_modules: Some(TargetModules::AllLinear),
            batch_size: 1,
            max_seq_length: 1024,
            ..cell("llama-3.1-8b")
        };
        check(&llama, "rtx-3090", 46.27, [0.9049, 1.81]);
        check(&llama, "h100-80gb", 46.27, [0.2493, 0.4985]);
    }

    #[test]
    fn what_was_not_compared_has_no_speed() {
        let model = Preset::named("tiny").unwrap().config();
        let of = |cell: &Cell, gpu: &str| speed(cell, &model, Gpu::named(gpu).ok());
        assert!(of(&cell("tiny"), "t4").is_some());
        assert_eq!(of(&cell("tiny"), "gtx-1070"), None);
        let int8 = Cell {
            dtype: Dtype::Int8,
            ..cell("tiny")
        };
        assert_eq!(of(&int8, "t4"), None);
        assert_eq!(speed(&cell("tiny"), &model, None), None);
    }
}
