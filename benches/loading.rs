//! Time and memory of loading a checkpoint into NF4: `cargo bench --bench loading -- llama-3.1-8b`.
//!
//! Writes a checkpoint of a preset's shape (by default Llama-3.2-1B's) with random bfloat16 weights to a temporary folder
//! (of `TMPDIR`), in files of at most 5 GB. Loads it twice, so that the second time the files are in the page cache, if
//! they fit. The targets are 5 s for 1B, 45 s for 8B, and a resident set of 1.2 times the loaded weights.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use candle_core::Device;
use expctl::arch::{Location, Preset, WeightSpec};
use expctl::cell::{Cell, Dtype};
use expctl::memory::{ProcessAllocator, live, probes};
use expctl::model::{self, Source};
use half::bf16;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::{Map, json};

#[global_allocator]
static ALLOCATOR: ProcessAllocator = ProcessAllocator;

/// Bytes of a file's tensors, at most.
const FILE_BYTES: usize = 5_000_000_000;
/// Bytes that are written at a time.
const CHUNK: usize = 1 << 20;

fn main() -> Result<()> {
    let names = Preset::names();
    let given = std::env::args().find(|argument| names.contains(&argument.as_str()));
    let name = given.as_deref().unwrap_or("llama-3.2-1b");
    let preset = Preset::named(name).context("a preset")?;
    let folder = tempfile::tempdir()?;
    let start = Instant::now();
    write_checkpoint(preset, folder.path())?;
    println!("{name}: written in {:.1} s", start.elapsed().as_secs_f64());
    println!(
        "{:<8} {:>8} {:>12} {:>16} {:>8}",
        "load", "seconds", "weights, GB", "most resident, GB", "ratio"
    );
    for load in ["first", "second"] {
        rayon::scope(|_| measure(load, folder.path()))?;
    }
    Ok(())
}

/// Loads the checkpoint and prints the time, the loaded weights, and how far the resident set rose.
fn measure(load: &str, folder: &Path) -> Result<()> {
    let cell = Cell {
        model: folder.display().to_string(),
        dtype: Dtype::Int4,
        rank: 16,
        ..Cell::default()
    };
    let options = cell.train_options().model;
    probes::reset_process_peak();
    let start = Instant::now();
    let source = Source::open(&options, &".".into())?;
    let model = model::load(&options, &source, &Device::Cpu)?;
    let seconds = start.elapsed().as_secs_f64();
    let peak = probes::process_peak_bytes().context("the highest resident set")?;
    let weights = live().allocated();
    drop(model);
    println!(
        "{load:<8} {seconds:>8.1} {:>12.2} {:>16.2} {:>8.2}",
        weights as f64 / 1e9,
        peak as f64 / 1e9,
        peak as f64 / weights as f64
    );
    Ok(())
}

/// Writes `config.json`, the files of weights, and their index.
fn write_checkpoint(preset: Preset, folder: &Path) -> Result<()> {
    fs::write(folder.join("config.json"), Location::Preset(preset).json()?)?;
    let weights = preset.config().weights();
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut index = Map::new();
    let mut rest = weights.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |weight: &&WeightSpec| {
            bytes += byte_len(weight);
            bytes <= FILE_BYTES
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (of_file, later) = rest.split_at(count);
        let name = format!("model-{:05}.safetensors", index.len());
        write_file(of_file, &mut random, &folder.join(&name))?;
        index.extend(of_file.iter().map(|weight| (weight.name.clone(), json!(name))));
        rest = later;
    }
    fs::write(
        folder.join("model.safetensors.index.json"),
        json!({ "weight_map": index }).to_string(),
    )?;
    Ok(())
}

fn byte_len(weight: &WeightSpec) -> usize {
    weight.shape.iter().product::<usize>() * size_of::<bf16>()
}

/// Writes a safetensors file without holding more than a chunk of it. Weights are between -0.05 and 0.05.
fn write_file(weights: &[WeightSpec], random: &mut ChaCha8Rng, path: &Path) -> Result<()> {
    let mut header = Map::new();
    let mut end = 0;
    for weight in weights {
        let start = end;
        end += byte_len(weight);
        let entry = json!({"dtype": "BF16", "shape": weight.shape, "data_offsets": [start, end]});
        header.insert(weight.name.clone(), entry);
    }
    let header = serde_json::to_vec(&header)?;
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    let mut chunk = vec![0; CHUNK];
    for start in (0..end).step_by(CHUNK) {
        let chunk = &mut chunk[..CHUNK.min(end - start)];
        random.fill_bytes(chunk);
        for value in chunk.as_chunks_mut().0 {
            let word = f32::from(i16::from_le_bytes(*value));
            *value = bf16::from_f32(word * (0.05 / 32768.0)).to_le_bytes();
        }
        file.write_all(chunk)?;
    }
    file.flush()?;
    Ok(())
}
