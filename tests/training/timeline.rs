//! A recorded timeline against the ledger's own figures.

use std::fs::File;
use std::path::Path;

use expctl::cell::{Cell, Checkpointing, Dtype, Task, Weights};
use expctl::memory::timeline as recorder;
use expctl::model;
use expctl::results::timeline::{self, RecordedStep, Recording, StepAnalysis};
use expctl::trace::Category;
use expctl::trace::recording::{Event, Kind};
use tempfile::TempDir;

use crate::setup::{Run, cell, turn};

/// A run of `cell` of which the first `steps` steps are recorded.
fn recorded(cell: &Cell, steps: usize) -> (Run, Recording, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("timeline.bin");
    recorder::start(File::create(&path).expect("a file"), steps).expect("a recording");
    let run = Run::of(cell).expect("a run");
    recorder::finish().expect("a whole recording");
    (run, read(&path), folder)
}

fn read(path: &Path) -> Recording {
    timeline::read(path).unwrap_or_else(|error| panic!("{error}"))
}

/// The highest of the steps, as the trainer puts them together.
fn highest(steps: &[RecordedStep]) -> &RecordedStep {
    let higher = |run, step| if step_peak(step) > step_peak(run) { step } else { run };
    steps.iter().reduce(higher).expect("a step")
}

fn step_peak(step: &RecordedStep) -> u64 {
    step.peak
}

fn cells() -> Vec<Cell> {
    let with = |dtype, gradient_checkpointing, gradient_accumulation_steps, rank| Cell {
        dtype,
        gradient_checkpointing,
        gradient_accumulation_steps,
        rank,
        batch_size: 2,
        lora_dropout: if rank == 4 { 0.1 } else { 0.0 },
        ..cell()
    };
    vec![
        with(Dtype::Float32, Checkpointing::None, 1, 4),
        with(Dtype::Float32, Checkpointing::Full, 1, 4),
        with(Dtype::Float32, Checkpointing::None, 2, 0),
        with(Dtype::Int4, Checkpointing::None, 1, 8),
        with(Dtype::Int4, Checkpointing::Full, 3, 4),
        with(Dtype::Bfloat16, Checkpointing::Every(2), 2, 8),
        with(Dtype::Int8, Checkpointing::None, 2, 4),
    ]
}

#[test]
fn the_replayed_peak_is_the_ledgers_to_the_byte() {
    let _turn = turn();
    for cell in cells() {
        let (run, recording, _folder) = recorded(&cell, usize::MAX);
        let what = format!("{:?} {:?}, rank {}", cell.dtype, cell.gradient_checkpointing, cell.rank);
        assert!(recording.complete && recording.lost == 0, "{what}");
        let steps = timeline::recorded_steps(&recording);
        assert_eq!(steps.len(), run.steps.len(), "{what}");
        for (replayed, step) in steps.iter().zip(&run.steps) {
            assert_eq!(
                Some(replayed.peak),
                step.allocated_peak_bytes,
                "{what}, step {}",
                step.step
            );
        }
        let peak = highest(&steps);
        assert_eq!(Some(peak.peak), run.measured.allocated_peak_bytes, "{what}");
        for (category, bytes) in peak.at_peak.iter().filter(|(category, _)| category.is_tensor()) {
            let measured = run.measured.allocated_peak_by_category[category.name()];
            assert_eq!(bytes, measured, "{what}, {}", category.name());
        }
    }
}

#[test]
fn recording_changes_no_figure() {
    let _turn = turn();
    for cell in &cells()[1..4] {
        // Libraries keep something from their first use on.
        Run::of(cell).expect("a run");
        let plain = Run::of(cell).expect("a run");
        let (run, _, _folder) = recorded(cell, 2);
        let losses = |run: &Run| run.steps.iter().map(|step| step.loss).collect::<Vec<_>>();
        assert_eq!(losses(&run), losses(&plain));
        let peaks = |run: &Run| {
            let mut peaks = run.measured.allocated_peak_by_category.clone();
            // Names and the like are host memory, while they are recorded.
            peaks.remove("host");
            let mut in_phase = run.measured.allocated_peak_in_phase.clone();
            // How many pieces the threads make of the list of parameters depends on scheduling, recorded or not.
            in_phase.remove("optimizer");
            (peaks, in_phase)
        };
        assert_eq!(peaks(&run), peaks(&plain));
    }
}

#[test]
fn only_the_steps_asked_for_are_recorded() {
    let _turn = turn();
    let (run, recording, _folder) = recorded(&cell(), 2);
    assert_eq!((run.steps.len(), timeline::recorded_steps(&recording).len()), (5, 2));
    assert!(recording.complete);
    let last = recording.events.last().expect("events");
    assert_eq!((last.kind, last.bytes), (Kind::Phase, trace::Phase::Idle as u64));
}

#[test]
fn what_the_backward_pass_keeps_has_its_dtype_shape_and_module() {
    let _turn = turn();
    let cell = Cell {
        gradient_checkpointing: Checkpointing::None,
        ..cell()
    };
    let (_, recording, _folder) = recorded(&cell, 3);
    let steps = timeline::recorded_steps(&recording);
    let step = StepAnalysis::of(&recording, timeline::steady_step(&steps).expect("a steady step"));
    assert!(step.step > 1);
    let mut activation = 0;
    for ((category, module, shape), held) in &step.saved.tensors {
        if *category != Category::Activation {
            continue;
        }
        activation += held.bytes;
        let Some(shape) = shape else {
            panic!("an activation of {module} has no shape")
        };
        let elements: u64 = shape.dimensions.iter().product();
        assert_eq!(shape.dtype, "float32");
        assert_eq!(held.bytes, held.count * elements * 4, "{module} {shape}");
        // tiny has two blocks, and this step is of four samples of 24 tokens; the loss keeps nothing, the head its input
        assert!(module.starts_with("model."), "{module}");
    }
    let instant = step
        .curve
        .iter()
        .filter(|moment| moment.phase == trace::Phase::Backward);
    assert_eq!(
        Some(activation),
        instant.map(|moment| moment.live[Category::Activation]).next()
    );
    let gate = |((_, module, _), held): (&(Category, String, Option<timeline::Shape>), &_)| {
        (module == "model.layers.*.mlp.gate_proj").then_some(*held)
    };
    let kept = step
        .saved
        .tensors
        .iter()
        .filter(|((category, ..), _)| *category == Category::Activation);
    let gates: Vec<_> = kept.filter_map(gate).collect();
    assert_eq!(gates.len(), 1, "{:?}", step.saved);
}

#[test]
fn packed_weights_have_their_format_and_the_matrixs_shape() {
    let _turn = turn();
    for (dtype, codes, scales) in [
        (
            Dtype::Int4,
            "nf4 [32, 64] 1024",
            &["float32 [1] 4", "uint8 [32] 32"][..],
        ),
        (Dtype::Int8, "int8 [32, 64] 2048", &["float32 [32] 128"][..]),
    ] {
        let (_, recording, _folder) = recorded(&Cell { dtype, ..cell() }, 2);
        let steps = timeline::recorded_steps(&recording);
        let step = StepAnalysis::of(&recording, timeline::steady_step(&steps).expect("a steady step"));
        let parameters = step
            .saved
            .tensors
            .iter()
            .filter(|((category, ..), _)| *category == Category::Parameter);
        let mut of_keys = Vec::new();
        for ((_, module, shape), held) in parameters {
            let shape = shape
                .as_ref()
                .unwrap_or_else(|| panic!("a weight of {module} has no shape"));
            if module == "model.layers.*.self_attn.k_proj" {
                assert_eq!(held.count, 2, "one a block");
                of_keys.push(format!("{} {shape} {}", shape.dtype, held.bytes / held.count));
            }
        }
        of_keys.sort();
        let mut want = [scales, &[codes]].concat();
        want.sort();
        assert_eq!(of_keys, want);
    }
}

/// The names that PEFT and transformers give to a block's layers.
#[test]
fn an_encoders_parts_have_the_names_of_its_layers() {
    let _turn = turn();
    for (model, block, layers) in [
        (
            "./tests/fixtures/tiny_distilbert",
            "distilbert.transformer.layer",
            [
                "attention.q_lin",
                "attention.k_lin",
                "attention.v_lin",
                "attention",
                "ffn.lin1",
                "ffn.lin2",
                "sa_layer_norm",
            ],
        ),
        (
            "./tests/fixtures/tiny_bert",
            "bert.encoder.layer",
            [
                "attention.self.query",
                "attention.self.key",
                "attention.self.value",
                "attention",
                "intermediate.dense",
                "output.dense",
                "attention.output.LayerNorm",
            ],
        ),
    ] {
        let cell = Cell {
            model: model.into(),
            weights: Some(Weights::Random),
            task: Task::SequenceClassification,
            dtype: Dtype::Float32,
            gradient_checkpointing: Checkpointing::None,
            ..cell()
        };
        let (_, recording, _folder) = recorded(&cell, 2);
        let weights = model::Source::open(&cell.model_options(), &"".into())
            .expect("a model")
            .config()
            .weights();
        let is_layer = |name: &str| {
            let names = weights.iter().map(|tensor| &tensor.name);
            let mut modules = names.filter_map(|name| name.rsplit_once('.')).map(|(module, _)| module);
            modules.any(|module| module == name || module.starts_with(&format!("{name}.")))
        };
        let mut seen = std::collections::BTreeSet::new();
        for name in recording.names.iter().filter(|name| name.starts_with(block)) {
            let module = name.trim_end_matches(".sdpa").trim_end_matches(".bias");
            let module = module.trim_end_matches(".lora_A").trim_end_matches(".lora_B");
            assert!(is_layer(module), "{name} is not a module of {model}");
            seen.insert(module);
        }
        // What computes, as the peaks tell it, and what the backward pass keeps.
        let used: std::collections::BTreeSet<&str> = recording
            .events
            .iter()
            .map(|event| recording.names[usize::from(event.module)].as_str())
            .collect();
        for layer in layers {
            for index in 0..2 {
                let name = format!("{block}.{index}.{layer}");
                assert!(used.contains(name.as_str()), "nothing is of {name}: {used:?}");
            }
        }
    }
}

#[test]
fn checkpointing_keeps_the_inputs_of_blocks_alone() {
    let _turn = turn();
    let cell = Cell {
        gradient_checkpointing: Checkpointing::Full,
        ..cell()
    };
    let (_, recording, _folder) = recorded(&cell, 3);
    let steps = timeline::recorded_steps(&recording);
    let step = StepAnalysis::of(&recording, timeline::steady_step(&steps).expect("a steady step"));
    let kept = step
        .saved
        .tensors
        .iter()
        .filter(|((category, ..), _)| *category == Category::Activation);
    let modules: Vec<&str> = kept.map(|((_, module, _), _)| module.as_str()).collect();
    assert_eq!(modules, ["model.embed_tokens", "model.layers.*.mlp"]);
}

#[test]
fn a_recording_that_was_cut_short_is_read_up_to_there() {
    let _turn = turn();
    let (_, whole, folder) = recorded(&cell(), 2);
    let path = folder.path().join("timeline.bin");
    let bytes = std::fs::read(&path).expect("the recording");
    std::fs::write(&path, &bytes[..bytes.len() - 20]).expect("most of it");
    let most = read(&path);
    assert!(!most.complete && !most.events.is_empty() && most.events.len() < whole.events.len());

    // an event that is not there makes the sums wrong
    let alloc = whole
        .events
        .iter()
        .position(|event| event.kind == Kind::Alloc)
        .expect("an allocation");
    let needle = whole.events[alloc].encode();
    let at = bytes
        .windows(Event::SIZE)
        .position(|window| window == needle)
        .expect("the event");
    let mut wrong = bytes.clone();
    wrong[at + 12] ^= 1;
    std::fs::write(&path, &wrong).expect("another size");
    let error = timeline::read(&path).expect_err("a wrong sum").to_string();
    assert!(error.contains("timeline.bin` is damaged"), "{error}");
    std::fs::write(&path, b"something else").expect("a file");
    let error = timeline::read(&path).expect_err("no timeline").to_string();
    assert!(error.contains("is not a timeline"), "{error}");
}

#[test]
fn events_that_find_no_room_are_counted_and_end_the_recording() {
    const PAIRS: usize = 450_000;
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("timeline.bin");
    recorder::start(File::create(&path).expect("a file"), usize::MAX).expect("a recording");
    {
        let _scope = memory::scope(Category::Temporary);
        // Nobody writes them out meanwhile.
        for _ in 0..PAIRS {
            drop(std::hint::black_box(Vec::<u8>::with_capacity(64)));
        }
    }
    recorder::finish().expect("a file that can be written");
    let recording = read(&path);
    assert!(recording.complete && recording.lost > 0, "{} lost", recording.lost);
    let all = recording.events.len() + recording.lost as usize;
    // What was live before has events, too: at most one a category.
    assert!((2 * PAIRS..2 * PAIRS + 8).contains(&all), "{all} events");
}
