//! A dry run records what a real run of the same layers allocates, to the byte.

use candle_core::{DType, Device};
use expctl::arch::Preset;
use expctl::kernels::Dispatch as _;
use expctl::kernels::InstructionSet;
use expctl::memory::{Buffer, probes};
use expctl::nn::activation::{GeGlu, Gelu, SwiGlu};
use expctl::nn::classifier::{Activation, Classifier};
use expctl::nn::decoder_block::DecoderBlock;
use expctl::nn::dropout::Dropout;
use expctl::nn::embedding::Embedding;
use expctl::nn::encoder_block::EncoderBlock;
use expctl::nn::encoder_embedding::EncoderEmbedding;
use expctl::nn::feed_forward::FeedForward;
use expctl::nn::head::Head;
use expctl::nn::loss::{CausalLoss, Targets};
use expctl::nn::prefix::{Past, PastGradients};
use expctl::nn::rope::Rope;
use expctl::nn::tensor::Tensor;
use expctl::options;
use expctl::trace::{Account, Event, Trace};
use expctl::trace::{ByCategory, ByPhase, Category, Phase};

use crate::common::training::turn;
use crate::layer_config::{
    BATCH, Config, FROZEN, HEAD_DIM, HEADS, HIDDEN, INTERMEDIATE, KV_HEADS, LEN, VOCABULARY, configs,
};

/// A layer's forward and backward pass, twice, so that gradients are added to others. Calls `sample` on the way.
type Layer = fn(&Config, &mut dyn FnMut());

fn decoder_block(config: &Config, sample: &mut dyn FnMut()) {
    let mut block = DecoderBlock {
        input_norm: config.rms_norm(HIDDEN),
        self_attn: config.attention(KV_HEADS, true),
        attention_norm: config.output_norm(),
        mlp_input_norm_name: "post_attention_layernorm",
        mlp_input_norm: config.rms_norm(HIDDEN),
        mlp: FeedForward {
            modules: ["mlp"; 2],
            names: ["gate_proj", "up_proj"],
            inner: config.projections([INTERMEDIATE; 2], false),
            output: config.projection(HIDDEN, INTERMEDIATE, false),
            output_dropout: Dropout::new(0, "mlp", 0.0),
            activation: if config.is_capped() { &GeGlu } else { &SwiGlu },
        },
        mlp_norm: config.output_norm(),
    };
    let rope = Preset::named("tiny").unwrap().config().rope;
    let rope = Rope::new(&rope, HEAD_DIM, LEN, &Device::Cpu).unwrap();
    let pass = config.pass();
    for needs_dx in [true, false] {
        memory::set_phase(Phase::Forward);
        let (y, mut saved) = block.forward(config.x(), &rope, Past::NONE, &pass).unwrap();
        sample();
        drop(y);
        if config.is_checkpointed {
            saved = block.recompute(saved.into_input(), &rope, Past::NONE, &pass).unwrap();
        }
        memory::set_phase(Phase::Backward);
        let dx = block
            .backward(saved, config.dy(), &rope, PastGradients::NONE, needs_dx, &pass)
            .unwrap();
        sample();
        drop(dx);
        sample();
    }
}

fn encoder_block(config: &Config, sample: &mut dyn FnMut()) {
    let mut block = EncoderBlock {
        attention: config.attention(HEADS, false),
        attention_norm_name: "n1",
        attention_norm: config.layer_norm(),
        feed_forward: FeedForward {
            modules: ["intermediate", "output"],
            names: [""],
            inner: config.projections([INTERMEDIATE], true),
            output: config.projection(HIDDEN, INTERMEDIATE, true),
            output_dropout: config.dropout(),
            activation: &Gelu,
        },
        output_norm_name: "n2",
        output_norm: config.layer_norm(),
        products: None,
    };
    let pass = config.pass();
    for needs_dx in [true, false] {
        memory::set_phase(Phase::Forward);
        let (y, mut saved) = block.forward(config.x(), &pass).unwrap();
        sample();
        drop(y);
        if config.is_checkpointed {
            saved = block.recompute(saved.into_input(), &pass).unwrap();
        }
        memory::set_phase(Phase::Backward);
        let dx = block.backward(saved, config.dy(), needs_dx, &pass).unwrap();
        sample();
        drop(dx);
        sample();
    }
}

fn decoder_ends(config: &Config, sample: &mut dyn FnMut()) {
    let mut table = config.matrix(VOCABULARY, HIDDEN);
    let embedding = Embedding {
        scale: config.is_capped().then_some(7.0),
        padding: None,
    };
    let mut norm = config.rms_norm(HIDDEN);
    let of = CausalLoss {
        way: config.loss,
        cap: config.cap(),
    };
    let ids = Buffer::from_fn(BATCH * LEN, |at| at as u32 * 7);
    let (pass, dense) = (
        config.pass(),
        Config {
            format: None,
            ..*config
        },
    );
    let plain = Head::Plain(config.matrix(VOCABULARY, HIDDEN));
    let adapted = (config.rank > 0).then(|| Head::Adapted(dense.projection(VOCABULARY, HIDDEN, false)));
    for mut head in [Some(plain), adapted].into_iter().flatten() {
        for _ in 0..2 {
            memory::set_phase(Phase::Forward);
            let x = embedding.forward(&table, &ids, config.hidden, &Device::Cpu).unwrap();
            sample();
            let (first, second) = (0..LEN - 1, LEN..2 * LEN - 6);
            let targets = Targets::new(&[1; BATCH * LEN], first.len() + second.len(), first.chain(second));
            of.evaluate(&x, &norm, &head, &targets, &pass).unwrap();
            // A dry run computes no logits, and so does not stop at them.
            let outcome = of.forward_backward(&x, (&mut norm, &mut head), &targets, 0.1, &pass, &mut || ());
            let (_, dx) = outcome.unwrap();
            sample();
            drop(x);
            embedding.backward(&mut table, &ids, dx).unwrap();
            sample();
        }
    }
}

fn encoder_ends(config: &Config, sample: &mut dyn FnMut()) {
    let mut input = EncoderEmbedding {
        words: config.matrix(VOCABULARY, HIDDEN),
        positions: config.matrix(LEN, HIDDEN),
        token_types: Some(config.matrix(2, HIDDEN)),
        norm: config.layer_norm(),
        dropout: config.dropout(),
        padding: Some(0),
    };
    // Its layers are trained in any case, and never quantised.
    let dense = Config {
        format: None,
        rank: 0,
        trains_all: true,
        ..*config
    };
    let mut head = Classifier {
        dense: dense.projection(HIDDEN, HIDDEN, true),
        activation: Activation::Tanh,
        dropout: config.dropout(),
        classifier: dense.projection(3, HIDDEN, true),
        products: None,
    };
    let (ids, labels) = (
        Buffer::from_fn(BATCH * LEN, |at| at as u32 * 7),
        Buffer::from_fn(BATCH, |at| at as u32),
    );
    let pass = config.pass();
    for _ in 0..2 {
        memory::set_phase(Phase::Forward);
        let x = input.forward(&ids, config.hidden, &pass).unwrap();
        sample();
        let outcome = head.forward_backward(&x, &labels, 0.5, &pass, sample);
        let (_, dx) = outcome.unwrap();
        drop(x);
        input.backward(&ids, dx, config.hidden, &pass).unwrap();
        sample();
    }
}

/// Inputs of a layer that has a single rotation of all of them.
const ROTATED: usize = 1024;

fn large_rotation(config: &Config, sample: &mut dyn FnMut()) {
    const OUTPUTS: usize = 8;
    let mut layer = config.projection(OUTPUTS, ROTATED, false);
    let (x, pass) = (config.zeros(BATCH * LEN, ROTATED), config.pass());
    for _ in 0..2 {
        memory::set_phase(Phase::Forward);
        let ys = layer.forward(&x, &pass).unwrap();
        sample();
        drop(ys);
        memory::set_phase(Phase::Backward);
        let dy = Tensor::zeros((BATCH * LEN, OUTPUTS), DType::F32, &Device::Cpu).unwrap();
        let dx = layer.backward(&x, [&dy], &pass).unwrap();
        sample();
        drop((dx, dy));
    }
}

/// What a run allocated.
#[derive(Debug, Default, PartialEq)]
struct Allocated {
    /// Live tensor bytes of each category whenever the layer called `sample`.
    samples: Vec<ByCategory>,
    peak: u64,
    at_peak: ByCategory,
    in_phase: ByPhase,
}

/// Bytes of tensors alone.
fn tensors(mut bytes: ByCategory) -> ByCategory {
    bytes[Category::Host] = 0;
    bytes
}

/// Runs a layer, and reads the ledger.
fn measured(layer: Layer, config: &Config) -> Allocated {
    assert_eq!(memory::live().allocated(), 0, "a tensor of another test is live");
    memory::set_phase(Phase::Idle);
    memory::reset_peaks();
    let mut samples = Vec::with_capacity(64);
    layer(config, &mut || samples.push(tensors(memory::live().by_category)));
    let peaks = memory::peaks();
    memory::set_phase(Phase::Idle);
    assert_eq!(memory::live().allocated(), 0, "the layer is gone");
    Allocated {
        samples,
        peak: peaks.allocated,
        at_peak: tensors(peaks.by_category),
        in_phase: peaks.in_phase,
    }
}

/// Runs a layer dry, and reads the trace.
fn recorded(layer: Layer, config: &Config) -> Allocated {
    let ((), trace) = memory::dry_run(InstructionSet::current(), 0, || {
        memory::set_phase(Phase::Idle);
        layer(config, &mut || memory::mark(Trace::step_end));
    });
    let account = Account::of(&trace, 1, 0);
    Allocated {
        samples: samples(&trace),
        peak: account.peak.bytes,
        at_peak: account.peak.by_category,
        in_phase: account.in_phase,
    }
}

/// Live bytes at the marks of a trace.
fn samples(trace: &Trace) -> Vec<ByCategory> {
    let mut blocks = vec![(0, Category::Host); trace.blocks()];
    let (mut live, mut samples) = (ByCategory::default(), Vec::new());
    for event in trace.events() {
        match *event {
            Event::Alloc { block, bytes, category } => {
                live[category] += bytes;
                blocks[block.index()] = (bytes, category);
            }
            Event::Free { block } => {
                let (bytes, category) = blocks[block.index()];
                live[category] -= bytes;
            }
            Event::Label { block, category } => {
                let (bytes, before) = &mut blocks[block.index()];
                live[*before] -= *bytes;
                live[category] += *bytes;
                *before = category;
            }
            Event::StepEnd => samples.push(live),
            _ => {}
        }
    }
    assert!(live.iter().all(|(_, bytes)| bytes == 0), "a block is left");
    samples
}

#[test]
fn a_dry_run_records_what_a_real_run_allocates() {
    let _turn = turn();
    let layers: [(Layer, &str); 4] = [
        (decoder_block, "a decoder block"),
        (encoder_block, "an encoder block"),
        (decoder_ends, "a decoder's embedding and head"),
        (encoder_ends, "an encoder's embedding and classifier"),
    ];
    for (layer, name) in layers {
        for config in configs() {
            let (want, got) = (measured(layer, &config), recorded(layer, &config));
            assert!(!want.samples.is_empty() && want.peak > 0);
            assert_eq!(got, want, "{name}: {config:?}");
        }
    }
}

/// The ledger's peak says nothing of memory that no tensor has; the process does.
#[test]
fn a_large_rotation_takes_no_more_than_its_dry_run_records() {
    if std::env::var_os(crate::BACKEND_VARIABLE).is_some() {
        // Its pages are no part of what a backend keeps.
        return;
    }
    let _turn = turn();
    // What threads keep for products, what other tests take, and the noise of the allocator.
    const BESIDE: u64 = 24 << 20;
    let config = Config {
        hidden: DType::F32,
        format: None,
        adapter: options::Adapter::Oft,
        is_fused: true,
        ..FROZEN
    };
    let recorded = recorded(large_rotation, &config);
    let square = (ROTATED * ROTATED * size_of::<f32>()) as u64;
    assert!(recorded.peak > 5 * square, "{recorded:?}");
    // Threads have what they keep once it has run.
    assert_eq!(measured(large_rotation, &config), recorded);
    let before = probes::process_bytes();
    if !probes::reset_process_peak() {
        return;
    }
    assert_eq!(measured(large_rotation, &config), recorded);
    if let (Some(before), Some(peak)) = (before, probes::process_peak_bytes()) {
        let taken = peak.saturating_sub(before);
        assert!(taken <= recorded.peak + BESIDE, "{taken} beside {}", recorded.peak);
    }
}
