//! A dry run records what a real run of the same layers allocates, to the byte.

use candle_core::{DType, Device};
use expctl::arch::{ModuleName, Preset};
use expctl::kernels::attention::Scores;
use expctl::kernels::softcap::SoftCap;
use expctl::kernels::{InstructionSet, Sequences};
use expctl::memory::{self, Buffer, ByCategory, ByPhase, Category, Phase};
use expctl::nn::activation::{GeGlu, Gelu, SwiGlu};
use expctl::nn::adapter::{Adapter, Dora, Lora, LowRank};
use expctl::nn::attention::{Attention, Visibility};
use expctl::nn::classifier::{Activation, Classifier};
use expctl::nn::decoder_block::{DecoderBlock, OutputNorm};
use expctl::nn::dropout::Dropout;
use expctl::nn::encoder_block::EncoderBlock;
use expctl::nn::encoder_embedding::EncoderEmbedding;
use expctl::nn::feed_forward::FeedForward;
use expctl::nn::layer_norm::LayerNorm;
use expctl::nn::linear::{Linear, Projection};
use expctl::nn::loss::{CausalLoss, Targets};
use expctl::nn::norm::RmsNorm;
use expctl::nn::param::Param;
use expctl::nn::rope::Rope;
use expctl::nn::tensor::Tensor;
use expctl::nn::weight::Weight;
use expctl::nn::{DropoutPass, Pass, embedding::Embedding};
use expctl::options;
use expctl::quant::{Builder, Format, Quantized};
use expctl::trace::{Account, Event, Trace};

use crate::common::training::turn;

const BATCH: usize = 2;
const LEN: usize = 37;
const HIDDEN: usize = 48;
const INTERMEDIATE: usize = 80;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 12;
const VOCABULARY: usize = 600;

/// A configuration of layers.
#[derive(Debug, Clone, Copy)]
struct Config {
    /// The format of hidden states and dense weights.
    hidden: DType,
    /// The format of frozen weights; dense ones without.
    format: Option<Format>,
    /// The method of the adapters.
    adapter: options::Adapter,
    /// The implementation of attention.
    attention: options::Attention,
    /// How the causal loss is computed.
    loss: options::Loss,
    /// The adapters' rank; 0 without adapters.
    rank: usize,
    /// True if weights and biases are trained.
    trains_all: bool,
    /// The probability of every dropout.
    dropout: f64,
    /// True if projections with one input are one layer.
    is_fused: bool,
    /// True if a block computes again what its forward pass saved.
    is_checkpointed: bool,
}

const FROZEN: Config = Config {
    hidden: DType::BF16,
    format: Some(Format::Nf4 { double_quant: true }),
    adapter: options::Adapter::Lora,
    attention: options::Attention::Sdpa,
    loss: options::Loss::Chunked,
    rank: 4,
    trains_all: false,
    dropout: 0.0,
    is_fused: false,
    is_checkpointed: false,
};

const CONFIGS: [Config; 9] = [
    FROZEN,
    Config {
        is_fused: true,
        dropout: 0.1,
        ..FROZEN
    },
    Config {
        dropout: 0.1,
        is_checkpointed: true,
        ..FROZEN
    },
    Config {
        format: Some(Format::Int8),
        ..FROZEN
    },
    Config {
        hidden: DType::F16,
        format: None,
        ..FROZEN
    },
    Config {
        hidden: DType::F32,
        format: None,
        dropout: 0.1,
        ..FROZEN
    },
    Config {
        format: None,
        rank: 0,
        trains_all: true,
        ..FROZEN
    },
    Config {
        hidden: DType::F32,
        format: None,
        rank: 0,
        trains_all: true,
        dropout: 0.1,
        is_fused: true,
        is_checkpointed: true,
        ..FROZEN
    },
    Config {
        format: None,
        rank: 0,
        trains_all: true,
        dropout: 0.1,
        ..FROZEN
    },
];

/// Every configuration, by both ways of attention and of the loss; one with adapters, by every method.
fn configs() -> impl Iterator<Item = Config> {
    CONFIGS.into_iter().flat_map(|config| {
        let methods = if config.rank > 0 {
            options::Adapter::ALL.len()
        } else {
            1
        };
        let adapters = options::Adapter::ALL.into_iter().take(methods);
        adapters.flat_map(move |adapter| {
            let ways = [
                (options::Attention::Sdpa, options::Loss::Chunked),
                (options::Attention::Eager, options::Loss::Full),
            ];
            ways.map(|(attention, loss)| Config {
                adapter,
                attention,
                loss,
                ..config
            })
        })
    })
}

impl Config {
    fn zeros(&self, rows: usize, cols: usize) -> Tensor {
        Tensor::zeros((rows, cols), self.hidden, &Device::Cpu).unwrap()
    }

    fn vector(&self, part: &'static str, len: usize) -> Param {
        let value = Tensor::zeros(len, self.hidden, &Device::Cpu).unwrap();
        Param::base(ModuleName::new("layer").part(part), value, self.trains_all)
    }

    fn matrix(&self, rows: usize, cols: usize) -> Param {
        let name = ModuleName::new("layer").part("weight");
        Param::base(name, self.zeros(rows, cols), self.trains_all)
    }

    fn dropout(&self) -> Dropout {
        Dropout::new(0, "layer", self.dropout)
    }

    fn linear(&self, outputs: usize, inputs: usize, has_bias: bool) -> Linear {
        let factor = |part, rows, cols| {
            let value = Tensor::zeros((rows, cols), DType::F32, &Device::Cpu).unwrap();
            Param::adapter(ModuleName::new("layer").part(part), value)
        };
        let weight = match self.format {
            None => Weight::Dense(self.matrix(outputs, inputs)),
            Some(format) => Weight::Quantized {
                matrix: zeros_in(format, outputs, inputs),
                products: DType::BF16,
            },
        };
        let adapter = || -> Box<dyn Adapter> {
            let low_rank = LowRank {
                a: factor("lora_A.weight", self.rank, inputs),
                b: factor("lora_B.weight", outputs, self.rank),
                scale: 2.0,
                dropout: self.dropout(),
            };
            match self.adapter {
                options::Adapter::Lora => Box::new(Lora(low_rank)),
                options::Adapter::Dora => {
                    Box::new(Dora::new(low_rank, ModuleName::new("layer"), &weight, self.hidden).unwrap())
                }
            }
        };
        Linear {
            adapter: (self.rank > 0).then(adapter),
            bias: has_bias.then(|| self.vector("bias", outputs)),
            weight,
        }
    }

    fn projection(&self, outputs: usize, inputs: usize, has_bias: bool) -> Projection<1> {
        Projection::of(self.linear(outputs, inputs, has_bias))
    }

    fn projections<const N: usize>(&self, widths: [usize; N], has_bias: bool) -> Projection<N> {
        let linears = match self.is_fused {
            true => vec![self.linear(widths.iter().sum(), HIDDEN, has_bias)],
            false => widths.map(|width| self.linear(width, HIDDEN, has_bias)).into(),
        };
        Projection::new(linears, widths)
    }

    fn rms_norm(&self, features: usize) -> RmsNorm {
        RmsNorm {
            weight: self.vector("weight", features),
            offset: 0.0,
            eps: 1e-5,
            output: None,
        }
    }

    /// Those with dropout have Gemma's caps, norms of outputs and scaled embeddings.
    fn is_capped(&self) -> bool {
        self.dropout > 0.0
    }

    fn cap(&self) -> Option<SoftCap> {
        self.is_capped().then_some(SoftCap(30.0))
    }

    fn output_norm(&self) -> Option<OutputNorm> {
        let name = "output_norm";
        self.is_capped().then(|| OutputNorm {
            name,
            norm: RmsNorm {
                offset: 1.0,
                output: None,
                ..self.rms_norm(HIDDEN)
            },
        })
    }

    fn layer_norm(&self) -> LayerNorm {
        LayerNorm {
            weight: self.vector("weight", HIDDEN),
            bias: self.vector("bias", HIDDEN),
            eps: 1e-12,
        }
    }

    fn attention(&self, kv_heads: usize, is_decoder: bool) -> Attention {
        let [queries, keys] = [HEADS * HEAD_DIM, kv_heads * HEAD_DIM];
        let dropout = |of_encoder: f64| Dropout::new(0, "attention", of_encoder);
        let probability = if is_decoder { 0.0 } else { self.dropout };
        Attention {
            names: ["q", "k", "v"],
            qkv: self.projections([queries, keys, keys], !is_decoder),
            // As Phi 3, which has fused layers, and as Qwen 3.
            norms: (is_decoder && !self.is_fused).then(|| [self.rms_norm(HEAD_DIM), self.rms_norm(HEAD_DIM)]),
            output: self.projection(HIDDEN, queries, !is_decoder),
            heads: HEADS,
            kv_heads,
            head_dim: HEAD_DIM,
            scores: Scores {
                cap: self.cap().filter(|_| is_decoder),
                ..Scores::of(HEAD_DIM)
            },
            visibility: match (is_decoder, self.is_fused) {
                (false, _) => Visibility::All,
                (true, true) => Visibility::Causal,
                (true, false) => Visibility::Window(20),
            },
            implementation: self.attention,
            weight_dropout: dropout(probability),
            output_dropout: dropout(probability),
        }
    }

    fn pass(&self) -> Pass {
        Pass {
            sequences: Sequences::even(BATCH, LEN),
            lengths: vec![LEN as u32, LEN as u32 - 5],
            dropout: (self.dropout > 0.0).then(|| DropoutPass {
                step: 0,
                samples: vec![0, 1],
            }),
        }
    }

    fn x(&self) -> Tensor {
        self.zeros(BATCH * LEN, HIDDEN)
    }

    fn dy(&self) -> Tensor {
        Tensor::zeros((BATCH * LEN, HIDDEN), DType::F32, &Device::Cpu).unwrap()
    }
}

fn zeros_in(format: Format, rows: usize, cols: usize) -> Quantized {
    let scoped = || memory::scope(Category::Parameter);
    let mut builder = {
        let _scope = scoped();
        Builder::new(format, rows, cols)
    };
    if !memory::is_dry_run() {
        builder.push(&vec![0.0; rows * cols]).unwrap();
    }
    let _scope = scoped();
    builder.finish().unwrap()
}

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
    for _ in 0..2 {
        memory::set_phase(Phase::Forward);
        let (y, mut saved) = block.forward(config.x(), &rope, &pass).unwrap();
        sample();
        drop(y);
        if config.is_checkpointed {
            saved = block.recompute(saved.into_input(), &rope, &pass).unwrap();
        }
        memory::set_phase(Phase::Backward);
        let dx = block.backward(saved, config.dy(), &rope, &pass).unwrap();
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
    for _ in 0..2 {
        memory::set_phase(Phase::Forward);
        let (y, mut saved) = block.forward(config.x(), &pass).unwrap();
        sample();
        drop(y);
        if config.is_checkpointed {
            saved = block.recompute(saved.into_input(), &pass).unwrap();
        }
        memory::set_phase(Phase::Backward);
        let dx = block.backward(saved, config.dy(), &pass).unwrap();
        sample();
        drop(dx);
        sample();
    }
}

fn decoder_ends(config: &Config, sample: &mut dyn FnMut()) {
    let mut embedding = Embedding {
        table: config.matrix(VOCABULARY, HIDDEN),
        scale: config.is_capped().then_some(7.0),
        padding: None,
    };
    let mut norm = config.rms_norm(HIDDEN);
    let of = CausalLoss {
        way: config.loss,
        cap: config.cap(),
    };
    let mut head = config.matrix(VOCABULARY, HIDDEN);
    let ids = Buffer::from_fn(BATCH * LEN, |at| at as u32 * 7);
    for _ in 0..2 {
        memory::set_phase(Phase::Forward);
        let x = embedding.forward(&ids, config.hidden, &Device::Cpu).unwrap();
        sample();
        let (first, second) = (0..LEN - 1, LEN..2 * LEN - 6);
        let targets = Targets::new(&[1; BATCH * LEN], first.len() + second.len(), first.chain(second));
        of.evaluate(&x, &norm, &head, &targets).unwrap();
        // A dry run computes no logits, and so does not stop at them.
        let outcome = of.forward_backward(&x, &mut norm, &mut head, &targets, 0.1, &mut || ());
        let (_, dx) = outcome.unwrap();
        sample();
        drop(x);
        embedding.backward(&ids, dx).unwrap();
        sample();
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
