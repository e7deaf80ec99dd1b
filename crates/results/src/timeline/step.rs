//! One step of a recording: its curve, its peaks, and the tensors saved for its backward pass.

use std::collections::BTreeMap;

use trace::recording::Kind;
use trace::{ByCategory, Category, Phase};

use super::file::Recording;
use super::peaks::prominent;
use super::replay::{Shape, State};

/// A step that was recorded to its end, with its peak. As in the trainer's own figures, the peak is the highest point
/// since the end of the step before.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedStep {
    /// From 1.
    pub step: usize,
    /// Live tensor bytes at the peak.
    pub peak: u64,
    /// Live bytes by category at the peak.
    pub at_peak: ByCategory,
    /// Its events, up to the next step or the end of the recording.
    events: std::ops::Range<usize>,
}

/// All steps that were recorded to their end.
pub fn recorded_steps(recording: &Recording) -> Vec<RecordedStep> {
    let mut state = State::new(&recording.names);
    let mut steps: Vec<RecordedStep> = Vec::new();
    let (mut begin, mut peak, mut at_peak) = (None, 0, ByCategory::default());
    for (index, event) in recording.events.iter().enumerate() {
        // `read` has replayed all events.
        if state.apply(event).is_err() {
            break;
        }
        let allocated = state.allocated();
        // A buffer that makes the peak gets its label right after its allocation. The ledger's peak has that label.
        if allocated > peak || allocated == peak && event.kind == Kind::Relabel {
            (peak, at_peak) = (allocated, state.sums);
        }
        match event.kind {
            Kind::StepBegin => {
                if let Some(last) = steps.last_mut() {
                    last.events.end = index;
                } else {
                    (peak, at_peak) = (allocated, state.sums);
                }
                begin = Some(index);
            }
            Kind::StepEnd => {
                steps.extend(begin.take().map(|begin| RecordedStep {
                    step: event.bytes as usize,
                    peak,
                    at_peak,
                    events: begin..recording.events.len(),
                }));
                (peak, at_peak) = (allocated, state.sums);
            }
            _ => {}
        }
    }
    steps
}

/// The step that represents all recorded ones: the one with the highest peak, the last of equals. The first step is
/// left out if there are others, because it makes the optimizer's state.
pub fn steady_step(steps: &[RecordedStep]) -> Option<&RecordedStep> {
    let steady = if steps.len() > 1 { &steps[1..] } else { steps };
    steady.iter().max_by_key(|step| step.peak)
}

/// An instant of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// Nanoseconds since the step began.
    pub nanos: u64,
    /// The trainer's phase.
    pub phase: Phase,
    /// Live bytes by category.
    pub live: ByCategory,
}

impl Moment {
    /// Live tensor bytes.
    pub fn allocated(&self) -> u64 {
        self.live.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// A prominent peak with the live allocations.
#[derive(Debug, Clone, PartialEq)]
pub struct StepPeak {
    /// The instant of the peak.
    pub moment: Moment,
    /// The topographic prominence in bytes.
    pub prominence: u64,
    /// The module that was computed at that instant.
    pub module: String,
    /// The live allocations by category and by the pattern of the module that made them, the largest first.
    pub parts: Vec<(Category, String, Usage)>,
}

/// Several allocations together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of allocations.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The allocations that are live at the end of the forward pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SavedTensors {
    /// The allocations by category, pattern of the module, and dtype and dimensions if they are known.
    pub tensors: BTreeMap<(Category, String, Option<Shape>), Usage>,
    /// Activation bytes.
    activation: u64,
}

/// The analysis of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepAnalysis {
    /// From 1.
    pub step: usize,
    /// The instants after each event that changed something.
    pub curve: Vec<Moment>,
    /// The prominent peaks in their order.
    pub peaks: Vec<StepPeak>,
    /// The live allocations at the end of a forward pass. Of several micro-batches, the one that saves the most counts.
    pub saved: SavedTensors,
}

impl StepAnalysis {
    /// Replays a recording up to the end of `step`.
    pub fn of(recording: &Recording, step: &RecordedStep) -> Self {
        let mut state = State::new(&recording.names);
        for event in &recording.events[..step.events.start] {
            let _ = state.apply(event);
        }
        let before = state_of(recording, step.events.start);
        let events = &recording.events[step.events.clone()];
        let begin = events.first().map_or(0, |event| event.nanos);
        let mut curve = Vec::new();
        // For each moment, the number of the step's events before it.
        let mut places = Vec::new();
        let mut saved = SavedTensors::default();
        for (index, event) in events.iter().enumerate() {
            let phase = state.phase;
            let _ = state.apply(event);
            if phase == Phase::Forward
                && state.phase == Phase::Backward
                && state.sums[Category::Activation] > saved.activation
            {
                saved = SavedTensors::of_state(&state, recording);
            }
            if curve
                .last()
                .is_none_or(|last: &Moment| last.live != state.sums || last.phase != state.phase)
            {
                places.push(index + 1);
                curve.push(Moment {
                    nanos: event.nanos.saturating_sub(begin),
                    phase: state.phase,
                    live: state.sums,
                });
            }
        }
        let heights: Vec<u64> = curve.iter().map(Moment::allocated).collect();
        let mut state = before;
        let mut done = 0;
        let mut peaks = Vec::new();
        for peak in prominent(&heights) {
            // A label that follows at once belongs to the peak.
            let same = heights[peak.at..]
                .iter()
                .take_while(|&&height| height == peak.height)
                .count();
            let at = peak.at + same - 1;
            for event in &events[done..places[at]] {
                let _ = state.apply(event);
            }
            done = places[at];
            peaks.push(StepPeak {
                moment: curve[at].clone(),
                prominence: peak.prominence,
                module: recording.names[usize::from(events[places[peak.at] - 1].module)].clone(),
                parts: parts(&state, recording),
            });
        }
        Self {
            step: step.step,
            curve,
            peaks,
            saved,
        }
    }
}

fn state_of(recording: &Recording, events: usize) -> State<'_> {
    let mut state = State::new(&recording.names);
    for event in &recording.events[..events] {
        let _ = state.apply(event);
    }
    state
}

fn parts(state: &State<'_>, recording: &Recording) -> Vec<(Category, String, Usage)> {
    let mut parts: BTreeMap<(Category, String), Usage> = BTreeMap::new();
    for allocation in state.live.values() {
        let module = module_pattern(&recording.names[usize::from(allocation.module)]);
        let usage = parts.entry((allocation.category, module)).or_default();
        usage.count += 1;
        usage.bytes += allocation.bytes;
    }
    let mut parts: Vec<_> = parts
        .into_iter()
        .map(|((category, module), usage)| (category, module, usage))
        .collect();
    parts.sort_by(|a, b| b.2.bytes.cmp(&a.2.bytes).then_with(|| (a.0, &a.1).cmp(&(b.0, &b.1))));
    parts
}

impl SavedTensors {
    fn of_state(state: &State<'_>, recording: &Recording) -> Self {
        let mut saved = Self {
            activation: state.sums[Category::Activation],
            ..Self::default()
        };
        for allocation in state.live.values() {
            let module = module_pattern(&recording.names[usize::from(allocation.module)]);
            let usage = saved
                .tensors
                .entry((allocation.category, module, allocation.shape.clone()))
                .or_default();
            usage.count += 1;
            usage.bytes += allocation.bytes;
        }
        saved
    }
}

/// A module's name with a star for every number, so that all blocks share it: `model.layers.*.mlp`.
pub fn module_pattern(name: &str) -> String {
    let is_number = |segment: &str| !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
    let segments = name
        .split('.')
        .map(|segment| if is_number(segment) { "*" } else { segment });
    segments.collect::<Vec<_>>().join(".")
}
