//! Bytes by category: what arithmetic says, at the moments that it says so.

use candle_core::Device;
use expctl::arch::{ModelConfig, Preset};
use expctl::cell::{Cell, Checkpointing, Dtype, Optimizer, QuantType, TargetModules};
use expctl::memory;
use expctl::model::{self, Source};
use expctl::trace::{ByCategory, Category, Phase};

use crate::setup::{Training, cell, turn};

const MIB: u64 = 1 << 20;

/// Bytes that live on account of a cell.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub parameter: u64,
    pub adapter: u64,
    pub gradient: u64,
    pub optimizer_state: u64,
}

impl Bytes {
    /// The bytes of a model and its training by arithmetic.
    pub fn of(cell: &Cell, config: &ModelConfig) -> Self {
        let width = if cell.dtype == Dtype::Float32 { 4 } else { 2 };
        let rank = cell.rank as u64;
        let mut bytes = Self::default();
        for tensor in config.weights() {
            let (rows, columns) = (tensor.rows() as u64, tensor.columns() as u64);
            let count = rows * columns;
            let module = tensor.name.trim_end_matches(".weight").rsplit('.').next();
            let linear = module.filter(|module| module.ends_with("_proj"));
            bytes.parameter += match cell.dtype {
                Dtype::Int4 if linear.is_some() => count.div_ceil(2) + scales(count, cell),
                Dtype::Int8 if linear.is_some() => count + 4 * rows,
                _ => width * count,
            };
            if rank == 0 {
                bytes.gradient += width * count;
                // An embedding has no states of 8 bits, nor has the head that is tied to it.
                let is_registered = cell.optim == Optimizer::Adamw8bit && tensor.name.contains("embed_tokens");
                bytes.optimizer_state += if is_registered {
                    8 * count
                } else {
                    state(cell, rows, columns)
                };
            } else if linear.is_some_and(|module| cell.target_modules().expect("LoRA's").contains(module)) {
                let factors = 4 * rank * (rows + columns);
                bytes.adapter += factors;
                bytes.gradient += factors;
                bytes.optimizer_state += state(cell, rank, columns) + state(cell, rows, rank);
            }
        }
        bytes
    }

    /// The bytes that the ledger counted since `before`.
    fn since(before: ByCategory) -> Self {
        let now = memory::live().by_category;
        let came = |category| now[category] - before[category];
        Self {
            parameter: came(Category::Parameter),
            adapter: came(Category::Adapter),
            gradient: came(Category::Gradient),
            optimizer_state: came(Category::OptimizerState),
        }
    }
}

/// The optimizer's bytes for a tensor: two moments, or a basis and two moments in it.
fn state(cell: &Cell, rows: u64, columns: u64) -> u64 {
    let rank = cell.optim_rank() as u64;
    let (shorter, longer) = (rows.min(columns), rows.max(columns));
    4 * match cell.optim {
        Optimizer::Galore if shorter > rank => rank * (shorter + 2 * longer),
        Optimizer::Rsvd if shorter > rank => rank * (rows + 2 * columns),
        Optimizer::Sgd => 0,
        // Two codes an element, and two scales for each 256.
        Optimizer::Adamw8bit if rows * columns >= 4096 => {
            return 2 * rows * columns + 8 * (rows * columns).div_ceil(256);
        }
        Optimizer::Adafactor if shorter > 1 => rows + columns,
        Optimizer::Adafactor => longer,
        _ => 2 * rows * columns,
    }
}

/// A float32 for each block of weights, or a code each and a float32 for every 256 of those.
fn scales(count: u64, cell: &Cell) -> u64 {
    let blocks = count.div_ceil(cell.bnb_4bit_blocksize as u64);
    if cell.bnb_4bit_use_double_quant {
        blocks + 4 * blocks.div_ceil(256)
    } else {
        4 * blocks
    }
}

#[test]
fn bytes_are_what_arithmetic_says() {
    let _turn = turn();
    let dtype = |dtype| Cell { dtype, ..cell() };
    let cells = [
        cell(),
        dtype(Dtype::Float16),
        dtype(Dtype::Bfloat16),
        dtype(Dtype::Int8),
        dtype(Dtype::Int4),
        Cell {
            bnb_4bit_use_double_quant: false,
            ..dtype(Dtype::Int4)
        },
        Cell {
            bnb_4bit_quant_type: QuantType::Fp4,
            bnb_4bit_blocksize: 256,
            ..dtype(Dtype::Int4)
        },
        Cell {
            target_modules: Some(TargetModules::Names(vec!["k_proj".into(), "up_proj".into()])),
            ..dtype(Dtype::Int4)
        },
        Cell { rank: 0, ..cell() },
        Cell {
            rank: 0,
            learning_rate: 1e-3,
            ..dtype(Dtype::Bfloat16)
        },
        Cell {
            rank: 0,
            optim: Optimizer::Galore,
            ..dtype(Dtype::Bfloat16)
        },
        Cell {
            rank: 0,
            optim: Optimizer::Rsvd,
            optim_rank: Some(7),
            ..cell()
        },
        Cell {
            rank: 8,
            optim: Optimizer::Rsvd,
            ..dtype(Dtype::Int4)
        },
        Cell {
            optim: Optimizer::Sgd,
            ..cell()
        },
        Cell {
            rank: 0,
            optim: Optimizer::Adafactor,
            ..dtype(Dtype::Bfloat16)
        },
        Cell {
            optim: Optimizer::Adafactor,
            ..cell()
        },
        Cell {
            rank: 0,
            optim: Optimizer::Adamw8bit,
            ..cell()
        },
    ];
    let config = Preset::named("tiny").expect("a preset").config();
    for cell in cells {
        let what = format!(
            "{:?}, {:?}, rank {}, {:?}",
            cell.optim, cell.dtype, cell.rank, cell.target_modules
        );
        let all = Bytes::of(&cell, &config);
        let loaded = Bytes {
            gradient: 0,
            optimizer_state: 0,
            ..all
        };
        let trained = Bytes { gradient: 0, ..all };
        let before = memory::live().by_category;

        let mut training = Training::new(&cell);
        assert_eq!(Bytes::since(before), loaded, "{what}, loaded");
        training.forward_backward(0);
        assert_eq!(
            Bytes::since(before),
            Bytes {
                optimizer_state: 0,
                ..all
            },
            "{what}, after the backward pass"
        );
        training.trainer.release_gradients();
        assert_eq!(Bytes::since(before), loaded, "{what}, gradients released");
        training.step(0);
        assert_eq!(Bytes::since(before), all, "{what}, after a step");
        training.trainer.release_gradients();
        assert_eq!(Bytes::since(before), trained, "{what}, before the next step");
        training.trainer.release_optimizer();
        assert_eq!(Bytes::since(before), loaded, "{what}, optimizer released");
        drop(training);
        assert_eq!(Bytes::since(before), Bytes::default(), "{what}, dropped");

        for category in [Category::Activation, Category::Input] {
            let now = memory::live().by_category;
            assert_eq!(now[category], before[category], "{what}: {category:?}");
        }
    }
}

#[test]
fn activations_go_and_nothing_leaks() {
    let _turn = turn();
    let cells = [
        cell(),
        Cell { rank: 0, ..cell() },
        Cell {
            dtype: Dtype::Int4,
            lora_dropout: 0.1,
            gradient_accumulation_steps: 2,
            gradient_checkpointing: Checkpointing::Every(2),
            ..cell()
        },
    ];
    for cell in cells {
        let before = memory::live().by_category[Category::Activation];
        let mut training = Training::new(&cell);
        let after_steps: Vec<ByCategory> = (0..5)
            .map(|step| {
                training.step(step);
                let live = memory::live().by_category;
                assert_eq!(live[Category::Activation], before, "step {step}");
                training.trainer.release_gradients();
                memory::live().by_category
            })
            .collect();
        for (category, bytes) in after_steps[1].iter() {
            if category.is_tensor() {
                let over_steps: Vec<u64> = after_steps[1..].iter().map(|live| live[category]).collect();
                assert_eq!(over_steps, [bytes; 4], "{category:?}");
            }
        }
    }
}

#[test]
fn checkpointing_holds_fewer_activations() {
    let _turn = turn();
    let peak = |gradient_checkpointing| {
        let mut training = Training::new(&Cell {
            gradient_checkpointing,
            max_seq_length: 128,
            ..cell()
        });
        memory::reset_peaks();
        training.step(0);
        memory::peaks().by_category[Category::Activation]
    };
    // With two blocks, one block's activations and the other's input are the least there can be.
    let (none, full) = (peak(Checkpointing::None), peak(Checkpointing::Full));
    assert!(full < none * 2 / 3, "{full} with checkpointing, {none} without");
    assert_eq!(peak(Checkpointing::Every(2)), full);
}

/// A model of 135 million weights, of which 16 bits would be 269 MB, and the result is 110 MB.
#[test]
fn loading_never_holds_a_quantised_model_in_more_bits() {
    let _turn = turn();
    let cell = Cell::default();
    assert_eq!((cell.model.as_str(), cell.dtype), ("smollm2-135m", Dtype::Int4));
    let source = Source::open(&cell.model_options(), &".".into()).expect("a preset");
    let expected = Bytes::of(&cell, source.config());
    let before = memory::live();
    memory::set_phase(Phase::Load);
    memory::reset_peaks();
    // On one of the pool's threads, as in a run: from outside, the pool's queue would count as parameters.
    let model = rayon::scope(|_| model::load(&cell.model_options(), &source, &Device::Cpu)).expect("the weights");
    let peak = memory::peaks().allocated - before.allocated();
    memory::set_phase(Phase::Idle);
    let came = Bytes::since(before.by_category);
    assert_eq!(
        (came.parameter, came.adapter),
        (expected.parameter, expected.adapter),
        "to the byte"
    );
    let stays = expected.parameter + expected.adapter;
    assert!(peak < stays + 8 * MIB, "{peak} at the peak, {stays} of it stay");
    drop(model);
}
