//! Bytes by category: what arithmetic says, at the moments that it says so.

use candle_core::Device;
use expctl::arch::{ModelConfig, Preset};
use expctl::memory::{self, ByCategory, Category, Phase};
use expctl::model::{self, Source};
use expctl::spec::cell::{Cell, Checkpointing, Dtype, Optimizer, TargetModules};

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
                Dtype::Int4 if linear.is_some() => count.div_ceil(2) + scales(count, cell.bnb_4bit_use_double_quant),
                Dtype::Int8 if linear.is_some() => count + 4 * rows,
                _ => width * count,
            };
            if rank == 0 {
                bytes.gradient += width * count;
                bytes.optimizer_state += state(cell, rows, columns);
            } else if linear.is_some_and(|module| cell.target_modules.contains(module)) {
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
