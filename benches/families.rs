//! Speed per operation of each family, compared with Llama's: `cargo bench --bench families`.
//!
//! Models of one size, NF4 with adapters of rank 16, random weights, 4 x 512 tokens. All take a step in turn, so that
//! disturbances fall on each; the ratio to the first is the median over the rounds. Operations are those of
//! `ModelConfig::forward_flops`, but of scores those that causality and windows leave. After `--` come the number of rounds
//! and families, such as `-- 9 llama gemma2`; without one, all are measured.

use std::fs;
use std::time::Instant;

use candle_core::Device;
use expctl::arch::{Family, ModelConfig, check};
use expctl::cell::{Cell, Dtype, Weights};
use expctl::data::{self, EffectiveBatch};
use expctl::memory::ProcessAllocator;
use expctl::model::{self, Source};
use expctl::train::Trainer;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: ProcessAllocator = ProcessAllocator;

/// Rounds that do not count.
const WARM_UP: usize = 2;
const LEN: usize = 512;

/// A family's trainer, with the micro-batches that it takes and the operations of a token.
struct Runner {
    name: String,
    trainer: Trainer,
    batches: Vec<EffectiveBatch>,
    flops: f64,
    /// Operations per second in each round.
    rates: Vec<f64>,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds: Option<usize> = arguments.iter().find_map(|argument| argument.parse().ok());
    rayon::scope(|_| run(rounds.unwrap_or(9).max(1), &arguments))
}

fn run(rounds: usize, arguments: &[String]) -> anyhow::Result<()> {
    let steps = WARM_UP + rounds;
    let decoders = || check::trained_families().filter(|family| !family.is_encoder());
    let is_given = |family: &Family| arguments.iter().any(|argument| argument == family.name());
    let is_any_given = decoders().any(|family| is_given(&family));
    let mut runners = Vec::new();
    for family in decoders().filter(|family| is_given(family) || !is_any_given) {
        runners.push(runner(family, LEN, steps)?);
    }
    if !is_any_given {
        // More than half of the pairs that causality leaves are outside the window.
        runners.push(runner(Family::Mistral, 128, steps)?);
    }
    for step in 0..steps {
        for runner in &mut runners {
            let start = Instant::now();
            runner.trainer.step(&runner.batches[step], step, steps, &mut || ())?;
            runner.trainer.release_gradients();
            let tokens = runner.batches[step].counted as f64;
            if step >= WARM_UP {
                runner.rates.push(runner.flops * tokens / start.elapsed().as_secs_f64());
            }
        }
    }
    let first = &runners[0].name;
    println!("{:<20} {:>8} {:>16}", "family", "GFLOP/s", format!("ratio to {first}"));
    let rates_of_first = runners[0].rates.clone();
    for runner in &runners {
        let ratios = runner
            .rates
            .iter()
            .zip(&rates_of_first)
            .map(|(rate, first)| rate / first)
            .collect();
        println!(
            "{:<20} {:>8.1} {:>16.3}",
            runner.name,
            median(runner.rates.clone()) / 1e9,
            median(ratios)
        );
    }
    Ok(())
}

fn runner(family: Family, window: usize, steps: usize) -> anyhow::Result<Runner> {
    let folder = tempfile::tempdir()?;
    let config = json!({
        "model_type": family.name(), "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 4,
        "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 8192,
        "max_position_embeddings": 2048, "tie_word_embeddings": true, "sliding_window": window,
        "query_pre_attn_scalar": 64, "pad_token_id": 0,
    });
    fs::write(folder.path().join("config.json"), config.to_string())?;
    let cell = Cell {
        model: folder.path().display().to_string(),
        weights: Some(Weights::Random),
        dtype: Dtype::Int4,
        rank: 16,
        batch_size: 4,
        max_seq_length: LEN,
        max_steps: Some(steps),
        ..Cell::default()
    };
    let options = cell.train_options();
    let source = Source::open(&options.model, &".".into())?;
    let dataset = data::load(&options.data, source.config(), &".".into(), ".".as_ref())?;
    Ok(Runner {
        name: match window < LEN {
            true => format!("{}, window {window}", family.name()),
            false => family.name().into(),
        },
        batches: dataset
            .batches(&options.data, source.config())
            .collect::<Result<_, _>>()?,
        flops: flops(source.config()),
        trainer: Trainer::new(&options, model::load(&options.model, &source, &Device::Cpu)?)?,
        rates: Vec::new(),
    })
}

/// Operations of a step, for each token.
fn flops(config: &ModelConfig) -> f64 {
    let of_pair = (4 * config.num_attention_heads * config.head_dim) as f64;
    let hidden: f64 = (0..config.num_hidden_layers)
        .map(|layer| {
            let window = config.window(layer).unwrap_or(LEN);
            let seen: usize = (1..=LEN).map(|tokens| tokens.min(window)).sum();
            of_pair * (LEN as f64 - seen as f64 / LEN as f64)
        })
        .sum();
    let mut forward = config.forward_flops(LEN);
    forward.model -= hidden;
    forward.of_step(1.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
