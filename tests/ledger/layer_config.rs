//! Configurations of layers, and their parts with zeros for weights.

use candle_core::{DType, Device};
use expctl::arch::ModuleName;
use expctl::kernels::Sequences;
use expctl::kernels::attention::Scores;
use expctl::kernels::softcap::SoftCap;
use expctl::memory;
use expctl::nn::adapter::{Adapter, Dora, Down, Ia3, Loha, Lokr, LowRank, Oft, SharedFactors, Up};
use expctl::nn::attention::{Attention, Visibility};
use expctl::nn::decoder_block::OutputNorm;
use expctl::nn::dropout::Dropout;
use expctl::nn::layer_norm::LayerNorm;
use expctl::nn::linear::{Linear, Projection};
use expctl::nn::norm::RmsNorm;
use expctl::nn::param::Param;
use expctl::nn::tensor::Tensor;
use expctl::nn::weight::Weight;
use expctl::nn::{DropoutPass, Pass};
use expctl::options::{self, AdapterMethod, AdapterOptions};
use expctl::quant::{Builder, Format, Quantized};
use expctl::trace::Category;

pub const BATCH: usize = 2;
pub const LEN: usize = 37;
pub const HIDDEN: usize = 48;
pub const INTERMEDIATE: usize = 80;
pub const HEADS: usize = 4;
pub const KV_HEADS: usize = 2;
pub const HEAD_DIM: usize = 12;
pub const VOCABULARY: usize = 600;

/// A configuration of layers.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The format of hidden states and dense weights.
    pub hidden: DType,
    /// The format of frozen weights; dense ones without.
    pub format: Option<Format>,
    /// The method of the adapters.
    pub adapter: options::Adapter,
    /// The implementation of attention.
    pub attention: options::Attention,
    /// How the causal loss is computed.
    pub loss: options::Loss,
    /// The adapters' rank; 0 without adapters.
    pub rank: usize,
    /// True if weights and biases are trained.
    pub trains_all: bool,
    /// The probability of every dropout.
    pub dropout: f64,
    /// True if projections with one input are one layer.
    pub is_fused: bool,
    /// True if a block computes again what its forward pass saved.
    pub is_checkpointed: bool,
}

pub const FROZEN: Config = Config {
    hidden: DType::BF16,
    format: Some(Format::nf4(true)),
    adapter: options::Adapter::Lora,
    attention: options::Attention::Sdpa,
    loss: options::Loss::Chunked,
    rank: 4,
    trains_all: false,
    dropout: 0.0,
    is_fused: false,
    is_checkpointed: false,
};

pub const CONFIGS: [Config; 10] = [
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
        format: Some(Format::LlmInt8 { threshold: 6.0 }),
        is_fused: true,
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
pub fn configs() -> impl Iterator<Item = Config> {
    CONFIGS.into_iter().flat_map(|config| {
        let adapters = options::Adapter::ALL
            .into_iter()
            .filter(|adapter| adapter.is_of_layers());
        let methods = if config.rank > 0 { usize::MAX } else { 1 };
        adapters.take(methods).flat_map(move |adapter| {
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
    pub fn zeros(&self, rows: usize, cols: usize) -> Tensor {
        Tensor::zeros((rows, cols), self.hidden, &Device::Cpu).unwrap()
    }

    pub fn vector(&self, part: &'static str, len: usize) -> Param {
        let value = Tensor::zeros(len, self.hidden, &Device::Cpu).unwrap();
        Param::base(ModuleName::new("layer").part(part), value, self.trains_all)
    }

    pub fn matrix(&self, rows: usize, cols: usize) -> Param {
        let name = ModuleName::new("layer").part("weight");
        Param::base(name, self.zeros(rows, cols), self.trains_all)
    }

    pub fn dropout(&self) -> Dropout {
        Dropout::new(0, "layer", self.dropout)
    }

    pub fn linear(&self, outputs: usize, inputs: usize, has_bias: bool) -> Linear {
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
                down: Down::Factor(factor("lora_A.weight", self.rank, inputs)),
                up: Up::Factor(factor("lora_B.weight", outputs, self.rank)),
                scale: 2.0,
                dropout: self.dropout(),
            };
            match self.adapter {
                options::Adapter::Lora => Box::new(low_rank),
                options::Adapter::Dora => {
                    Box::new(Dora::new(low_rank, ModuleName::new("layer"), &weight, self.hidden).unwrap())
                }
                options::Adapter::Miss => {
                    // Some layers have fewer columns, which are repeated.
                    let is_repeated = outputs == INTERMEDIATE;
                    let miss = options::Miss {
                        init_weights: match is_repeated {
                            true => options::MissInit::Mini,
                            false => options::MissInit::Default,
                        },
                        mini_r: is_repeated.then_some(4),
                        miss_dropout: self.dropout,
                    };
                    let adapter = AdapterMethod::Miss(miss.clone());
                    let (name, adapter) = (ModuleName::new("layer"), AdapterOptions::of_rank(adapter, self.rank));
                    Box::new(LowRank::miss(&miss, &adapter, 0, name, outputs, &Device::Cpu).unwrap())
                }
                options::Adapter::Vera => {
                    let vera = options::Vera {
                        vera_dropout: self.dropout,
                        ..options::Vera::default()
                    };
                    let adapter = AdapterOptions::of_rank(AdapterMethod::Vera(vera.clone()), self.rank);
                    let (name, dtype) = (ModuleName::new("layer"), options::Dtype::Float32);
                    let largest = (outputs + 3, inputs + 5);
                    let shared = SharedFactors::new(0, self.rank, largest, dtype, &Device::Cpu).unwrap();
                    Box::new(LowRank::vera(&vera, &adapter, shared.into(), 0, name, outputs, &Device::Cpu).unwrap())
                }
                options::Adapter::Oft => {
                    // Some layers have one block of all inputs.
                    let (oft_block_size, r) = if self.is_fused { (0, 1) } else { (16, 0) };
                    let oft = options::Oft {
                        oft_block_size,
                        r,
                        ..options::Oft::default()
                    };
                    let adapter = AdapterOptions::new(AdapterMethod::Oft(oft.clone()));
                    Box::new(Oft::new(&oft, &adapter, ModuleName::new("layer"), inputs, &Device::Cpu).unwrap())
                }
                options::Adapter::Loha => {
                    let method = AdapterMethod::Loha(options::Loha::default());
                    let adapter = AdapterOptions::of_rank(method, self.rank);
                    let (name, shape) = (ModuleName::new("layer"), (outputs, inputs));
                    Box::new(Loha::new(&adapter, 0, name, shape, &Device::Cpu).unwrap())
                }
                options::Adapter::Lokr => {
                    let lokr = options::Lokr::default();
                    let adapter = AdapterOptions::of_rank(AdapterMethod::Lokr(lokr.clone()), self.rank);
                    let (name, shape) = (ModuleName::new("layer"), (outputs, inputs));
                    Box::new(Lokr::new(&lokr, &adapter, 0, name, shape, &Device::Cpu).unwrap())
                }
                options::Adapter::PromptTuning | options::Adapter::PrefixTuning | options::Adapter::LnTuning => {
                    unreachable!("no layer has it")
                }
                options::Adapter::Ia3 => {
                    let is_feedforward = inputs > outputs;
                    let (name, shape) = (ModuleName::new("layer"), (outputs, inputs));
                    Box::new(Ia3::new(name, shape, is_feedforward, options::Dtype::Float32, &Device::Cpu).unwrap())
                }
            }
        };
        Linear {
            adapter: (self.rank > 0).then(adapter),
            bias: has_bias.then(|| self.vector("bias", outputs)),
            weight,
        }
    }

    pub fn projection(&self, outputs: usize, inputs: usize, has_bias: bool) -> Projection<1> {
        Projection::of(self.linear(outputs, inputs, has_bias))
    }

    pub fn projections<const N: usize>(&self, widths: [usize; N], has_bias: bool) -> Projection<N> {
        let linears = match self.is_fused {
            true => vec![self.linear(widths.iter().sum(), HIDDEN, has_bias)],
            false => widths.map(|width| self.linear(width, HIDDEN, has_bias)).into(),
        };
        Projection::new(linears, widths)
    }

    pub fn rms_norm(&self, features: usize) -> RmsNorm {
        RmsNorm {
            weight: self.vector("weight", features),
            offset: 0.0,
            eps: 1e-5,
            output: None,
        }
    }

    /// Those with dropout have Gemma's caps, norms of outputs and scaled embeddings.
    pub fn is_capped(&self) -> bool {
        self.dropout > 0.0
    }

    pub fn cap(&self) -> Option<SoftCap> {
        self.is_capped().then_some(SoftCap(30.0))
    }

    pub fn output_norm(&self) -> Option<OutputNorm> {
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

    pub fn layer_norm(&self) -> LayerNorm {
        LayerNorm {
            weight: self.vector("weight", HIDDEN),
            bias: self.vector("bias", HIDDEN),
            eps: 1e-12,
        }
    }

    pub fn attention(&self, kv_heads: usize, is_decoder: bool) -> Attention {
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

    pub fn pass(&self) -> Pass {
        Pass {
            sequences: Sequences::even(BATCH, LEN),
            lengths: vec![LEN as u32, LEN as u32 - 5],
            dropout: (self.dropout > 0.0).then(|| DropoutPass {
                step: 0,
                samples: vec![0, 1],
                first_tokens: Vec::new(),
            }),
        }
    }

    pub fn x(&self) -> Tensor {
        self.zeros(BATCH * LEN, HIDDEN)
    }

    pub fn dy(&self) -> Tensor {
        Tensor::zeros((BATCH * LEN, HIDDEN), DType::F32, &Device::Cpu).unwrap()
    }
}

pub fn zeros_in(format: Format, rows: usize, cols: usize) -> Quantized {
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
