//! One step of a recording, looked at closely: its curve, its peaks, and what its backward pass keeps.

use std::collections::BTreeMap;

use super::file::Recording;
use super::peaks::prominent;
use super::replay::{Shape, State};
use crate::memory::event::Kind;
use crate::memory::{ByCategory, Category, Phase};

/// A step that was recorded to its end, and its highest point as the trainer's own figures have it: since the step before
/// was computed.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedStep {
    /// From 1.
    pub step: usize,
    /// Live tensor bytes at the highest point, and by category then.
    pub peak: u64,
    pub at_peak: ByCategory,
    /// Its events, from its beginning to that of the next or the end of the recording.
    events: std::ops::Range<usize>,
}

/// All steps that were recorded to their end.
pub fn steps(recording: &Recording) -> Vec<RecordedStep> {
    let mut state = State::new(&recording.names);
    let mut steps: Vec<RecordedStep> = Vec::new();
    let (mut begin, mut peak, mut at_peak) = (None, 0, ByCategory::default());
    for (index, event) in recording.events.iter().enumerate() {
        // `read` has replayed all events.
        if state.apply(event).is_err() {
            break;
        }
        let allocated = state.allocated();
        // A buffer that makes the peak is labelled right after it was allocated: the ledger tells the peak with the label.
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

/// The recorded step that stands for the others: the first makes the optimizer's state, so the highest of those after
/// it, and of equals the last.
pub fn studied(steps: &[RecordedStep]) -> Option<&RecordedStep> {
    let steady = if steps.len() > 1 { &steps[1..] } else { steps };
    steady.iter().max_by_key(|step| step.peak)
}

/// An instant of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// Since the step began.
    pub nanos: u64,
    pub phase: Phase,
    pub live: ByCategory,
}

impl Moment {
    pub fn allocated(&self) -> u64 {
        self.live.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// A prominent peak with what was alive then.
#[derive(Debug, Clone, PartialEq)]
pub struct PeakOfStep {
    pub moment: Moment,
    pub prominence: u64,
    /// What the trainer worked for when it was reached.
    pub module: String,
    /// Live bytes and allocations by category and by the modules that made them, blocks together; the largest first.
    pub parts: Vec<(Category, String, Held)>,
}

/// Some allocations together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    pub count: u64,
    pub bytes: u64,
}

/// What is live at the end of the forward pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kept {
    /// By category, the module that made it (blocks together), and dtype and dimensions where they are known.
    pub tensors: BTreeMap<(Category, String, Option<Shape>), Held>,
    /// Activation bytes.
    activation: u64,
}

/// A step in full.
#[derive(Debug, Clone, PartialEq)]
pub struct StudiedStep {
    pub step: usize,
    /// After each event that changed something.
    pub curve: Vec<Moment>,
    pub peaks: Vec<PeakOfStep>,
    /// At the end of the forward pass: of the micro-batch that keeps the most, where there are several.
    pub kept: Kept,
}

impl StudiedStep {
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
        // Of each moment, how many of the step's events it comes after.
        let mut places = Vec::new();
        let mut kept = Kept::default();
        for (index, event) in events.iter().enumerate() {
            let phase = state.phase;
            let _ = state.apply(event);
            if phase == Phase::Forward
                && state.phase == Phase::Backward
                && state.sums[Category::Activation] > kept.activation
            {
                kept = Kept::in_state(&state, recording);
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
            // A label that is given at once belongs to the peak.
            let same = heights[peak.at..]
                .iter()
                .take_while(|&&height| height == peak.height)
                .count();
            let at = peak.at + same - 1;
            for event in &events[done..places[at]] {
                let _ = state.apply(event);
            }
            done = places[at];
            peaks.push(PeakOfStep {
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
            kept,
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

fn parts(state: &State<'_>, recording: &Recording) -> Vec<(Category, String, Held)> {
    let mut parts: BTreeMap<(Category, String), Held> = BTreeMap::new();
    for allocation in state.live.values() {
        let module = folded(&recording.names[usize::from(allocation.module)]);
        let held = parts.entry((allocation.category, module)).or_default();
        held.count += 1;
        held.bytes += allocation.bytes;
    }
    let mut parts: Vec<_> = parts
        .into_iter()
        .map(|((category, module), held)| (category, module, held))
        .collect();
    parts.sort_by(|a, b| b.2.bytes.cmp(&a.2.bytes).then_with(|| (a.0, &a.1).cmp(&(b.0, &b.1))));
    parts
}

impl Kept {
    fn in_state(state: &State<'_>, recording: &Recording) -> Self {
        let mut kept = Self {
            activation: state.sums[Category::Activation],
            ..Self::default()
        };
        for allocation in state.live.values() {
            let module = folded(&recording.names[usize::from(allocation.module)]);
            let held = kept
                .tensors
                .entry((allocation.category, module, allocation.shape.clone()))
                .or_default();
            held.count += 1;
            held.bytes += allocation.bytes;
        }
        kept
    }
}

/// A module's name with a star for every number: `model.layers.*.mlp`.
pub fn folded(name: &str) -> String {
    let is_number = |segment: &str| !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit());
    let segments = name
        .split('.')
        .map(|segment| if is_number(segment) { "*" } else { segment });
    segments.collect::<Vec<_>>().join(".")
}
