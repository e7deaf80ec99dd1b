//! A trainer of a cell, and the numbers of its tensors.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use candle_core::Device;
use expctl::cell::Cell;
use expctl::model::{self, Source};
use expctl::nn::tensor::Tensor;
use expctl::train::Trainer;

/// The ledger counts a whole process, so tests that read it take turns.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A trainer of a cell that a user may write, and where its weights come from.
pub fn trainer(cell: &Cell, base_dir: &Path) -> (Trainer, Source) {
    assert_eq!(cell.validate(), Ok(()));
    let options = cell.train_options();
    let source = Source::open(&options.model, &base_dir.into()).expect("the model's files");
    let model = model::load(&options.model, &source, &Device::Cpu).expect("the weights");
    (Trainer::new(&options, model).expect("a trainer"), source)
}

/// A tensor's values, as float32.
pub fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec_f32().expect("the values of a tensor")
}
