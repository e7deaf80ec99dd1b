//! A small cell, a trainer of it, and whole runs.

use std::collections::BTreeMap;
use std::path::Path;

use expctl::cell::{Cell, Data, Dtype, Lengths, Synthetic};
use expctl::data::{self, EffectiveBatch, MicroBatch};
use expctl::nn::param::Param;
use expctl::nn::tensor::Tensor;
use expctl::records::store::read_steps;
use expctl::records::{Measured, Step};
use expctl::train::{self, Outputs, StepOutcome, TrainError, Trainer};
use tempfile::TempDir;

use crate::common::training::trainer;
pub use crate::common::training::{turn, values};

/// LoRA on float32 weights; micro-batches of four samples that differ in length.
pub fn cell() -> Cell {
    Cell {
        model: "tiny".into(),
        dtype: Dtype::Float32,
        rank: 4,
        batch_size: 4,
        max_seq_length: 24,
        max_steps: Some(5),
        learning_rate: 1e-2,
        data: Data::Synthetic(Synthetic {
            lengths: Lengths::List(vec![7, 24, 2, 15, 11]),
            samples: 40,
            between: None,
        }),
        ..Cell::default()
    }
}

/// Elements of each gradient, by the parameter's name.
pub type Gradients = BTreeMap<String, Vec<f32>>;

/// A trainer with everything its cell trains on.
pub struct Training {
    pub trainer: Trainer,
    pub batches: Vec<EffectiveBatch>,
    pub held_out: Vec<MicroBatch>,
}

impl Training {
    pub fn new(cell: &Cell) -> Self {
        Self::in_dir(cell, Path::new("."))
    }

    pub fn in_dir(cell: &Cell, base_dir: &Path) -> Self {
        let options = cell.data_options();
        let (trainer, source) = trainer(cell, base_dir);
        let data = data::load(&options, source.config(), &base_dir.into(), base_dir).expect("the data");
        let batches = data.batches(&options, source.config());
        let held_out = data.eval_batches(&options, source.config());
        Self {
            trainer,
            batches: batches.collect::<Result<_, _>>().expect("batches"),
            held_out: held_out.collect::<Result<_, _>>().expect("batches"),
        }
    }

    /// Trains on batch `step`; its gradients stay.
    pub fn step(&mut self, step: usize) -> StepOutcome {
        let steps = self.batches.len();
        self.trainer
            .step(&self.batches[step], step, steps, &mut || ())
            .expect("a step")
    }

    /// The loss of batch `step`, whose gradients are added.
    pub fn forward_backward(&mut self, step: usize) -> f64 {
        self.trainer
            .forward_backward(&self.batches[step], step, &mut || ())
            .expect("a loss")
    }

    /// The losses of the first steps.
    pub fn losses(&mut self, steps: usize) -> Vec<f64> {
        (0..steps)
            .map(|step| {
                let outcome = self.step(step);
                self.trainer.release_gradients();
                outcome.loss
            })
            .collect()
    }

    /// Every gradient; each trained tensor must have one.
    pub fn gradients(&mut self) -> Gradients {
        let gradient = |param: &mut &mut Param| {
            param.bring_gradient_back().expect("a gradient");
            let gradient = param.gradient().unwrap_or_else(|| panic!("{} has none", param.name));
            assert_eq!(gradient.dims(), param.value.dims(), "{}", param.name);
            (param.name.to_string(), values(gradient))
        };
        let mut params = self.trainer.trainable();
        let gradients: Gradients = params.iter_mut().map(gradient).collect();
        assert_eq!(gradients.len(), params.len(), "names are unique");
        gradients
    }

    /// Puts values in place of the adapters' zeros, so that the first step already moves both of their factors.
    pub fn fill_adapters(&mut self) {
        for param in self.trainer.trainable() {
            if param.name.part == "lora_B.weight" {
                let count = param.value.len();
                let values: Vec<f32> = (0..count).map(|index| (index as f32).sin() * 0.1).collect();
                let value = Tensor::from_f32(&values, param.value.shape(), param.value.dtype());
                param.set(value.expect("a tensor"));
            }
        }
    }
}

/// The results of a whole run.
pub struct Run {
    pub measured: Measured,
    pub steps: Vec<Step>,
    /// The bytes of its adapter, where it has one.
    pub adapter: Option<Vec<u8>>,
}

impl Run {
    pub fn of(cell: &Cell) -> Result<Self, TrainError> {
        assert_eq!(cell.validate(), Ok(()), "only what a user may write");
        let dir = TempDir::new().expect("a folder");
        // On a thread of the pool, as the program does it: from another, the pool's queue would allocate as it is fed.
        let trained = rayon::scope(|_| {
            train::run(
                &cell.train_options(),
                &".".into(),
                Outputs {
                    dir: dir.path(),
                    model: None,
                },
                None,
                &mut |_| (),
            )
        })?;
        Ok(Self {
            measured: trained.measured,
            steps: read_steps(&dir.path().join("steps.jsonl")).expect("the steps"),
            adapter: std::fs::read(dir.path().join("adapter/adapter_model.safetensors")).ok(),
        })
    }

    pub fn losses(&self) -> Vec<f64> {
        self.steps.iter().map(|step| step.loss).collect()
    }
}

/// The L2 norm of the difference over that of `want`.
pub fn distance(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let difference = norm(
        &mut got
            .iter()
            .zip(want)
            .map(|(got, want)| f64::from(*got) - f64::from(*want)),
    );
    difference / norm(&mut want.iter().map(|want| f64::from(*want)))
}
