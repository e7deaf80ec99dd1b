//! A trace for chrome://tracing and ui.perfetto.dev: steps, phases and modules as slices, live bytes as a stacked
//! counter. Google's "Trace Event Format" describes it.

use std::io::{self, Write};

use results::timeline::{Recording, State};
use serde_json::{Map, Value, json};
use trace::recording::Kind;
use trace::{ByCategory, Category};

use super::categories;

/// The process, with a thread for each kind of slice.
const PROCESS: u32 = 1;
const TRACKS: [&str; 3] = ["step", "phase", "module"];

/// Writes the trace as one JSON object.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(recording: &Recording, name: &str, out: impl Write) -> io::Result<()> {
    let mut trace = TraceWriter {
        out,
        first: true,
        open: [const { Vec::new() }; TRACKS.len()],
    };
    trace.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    trace.event(&json!({ "ph": "M", "name": "process_name", "pid": PROCESS, "args": { "name": name } }))?;
    for (track, name) in (0..).zip(TRACKS) {
        trace.event(
            &json!({ "ph": "M", "name": "thread_name", "pid": PROCESS, "tid": track, "args": { "name": name } }),
        )?;
        let args = json!({ "sort_index": track });
        trace.event(&json!({ "ph": "M", "name": "thread_sort_index", "pid": PROCESS, "tid": track, "args": args }))?;
    }
    trace.recording(recording)?;
    trace.out.write_all(b"\n]}\n")?;
    trace.out.flush()
}

struct TraceWriter<W> {
    out: W,
    first: bool,
    /// Open slices by track: name and beginning.
    open: [Vec<(String, u64)>; TRACKS.len()],
}

impl<W: Write> TraceWriter<W> {
    fn recording(&mut self, recording: &Recording) -> io::Result<()> {
        let [step, phase, module] = [0, 1, 2];
        let used = used(recording);
        let mut state = State::new(&recording.names);
        let mut counted = None;
        for event in &recording.events {
            // `read` has replayed all events.
            if state.apply(event).is_err() {
                break;
            }
            let at = event.nanos;
            match event.kind {
                Kind::StepBegin => {
                    self.close(step, at, |_| true)?;
                    self.open[step].push((format!("step {}", event.bytes), at));
                }
                Kind::Phase => {
                    let name = state.phase.name();
                    if self.open[phase].last().is_none_or(|(open, _)| open != name) {
                        self.close(phase, at, |_| true)?;
                        self.open[phase].push((name.to_owned(), at));
                    }
                }
                Kind::Module => {
                    let name = recording.names[usize::from(event.module)].as_str();
                    self.close(module, at, |open| !is_within(name, open))?;
                    if !name.is_empty() && self.open[module].last().is_none_or(|(open, _)| open != name) {
                        self.open[module].push((name.to_owned(), at));
                    }
                }
                _ => {}
            }
            if counted != Some(state.sums) {
                self.counter(at, &used, state.sums)?;
                counted = Some(state.sums);
            }
        }
        let end = recording.events.last().map_or(0, |event| event.nanos);
        (0..TRACKS.len()).try_for_each(|track| self.close(track, end, |_| true))
    }

    /// Ends the innermost slices of a track while `ends` holds for their name.
    fn close(&mut self, track: usize, at: u64, ends: impl Fn(&str) -> bool) -> io::Result<()> {
        while let Some((name, begin)) = self.open[track].pop_if(|(name, _)| ends(name)) {
            self.event(&json!({
                "ph": "X",
                "name": name,
                "cat": TRACKS[track],
                "pid": PROCESS,
                "tid": track,
                "ts": begin as f64 / 1e3,
                "dur": (at - begin) as f64 / 1e3,
            }))?;
        }
        Ok(())
    }

    fn counter(&mut self, at: u64, used: &[Category], live: ByCategory) -> io::Result<()> {
        let args: Map<String, Value> = used
            .iter()
            .map(|&category| (category.name().to_owned(), live[category].into()))
            .collect();
        self.event(
            &json!({ "ph": "C", "name": "allocated bytes", "pid": PROCESS, "ts": at as f64 / 1e3, "args": args }),
        )
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "\n" } else { ",\n" };
        write!(self.out, "{comma}{event}")
    }
}

/// True if a module is `outer` or a part of it.
fn is_within(name: &str, outer: &str) -> bool {
    name.strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The categories that ever hold bytes.
fn used(recording: &Recording) -> Vec<Category> {
    let holds = |category: &Category| {
        let made = |kind| matches!(kind, Kind::Alloc | Kind::Relabel);
        let mut events = recording.events.iter();
        events.any(|event| made(event.kind) && event.category == *category)
    };
    categories().filter(holds).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn slices_nest_and_counters_add_up() {
        let mut bytes = Vec::new();
        write(&sample::recording(), "cell", &mut bytes).unwrap();
        let trace: Value = serde_json::from_slice(&bytes).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let slice = |name: &str| {
            let found = events.iter().find(|event| event["ph"] == "X" && event["name"] == name);
            let slice = found.unwrap_or_else(|| panic!("no slice {name}"));
            (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap())
        };
        // a slice is named by its module, and begins 1.5 µs after the event before it
        assert_eq!(slice("model.layers.0"), (6.0, 15.0));
        assert_eq!(slice("model.layers.0.mlp"), (7.5, 12.0));
        assert_eq!(slice("forward"), (4.5, 18.0));
        assert_eq!(slice("step 1").0, 3.0);
        let counters: Vec<_> = events.iter().filter(|event| event["ph"] == "C").collect();
        let total = |event: &Value| {
            event["args"]
                .as_object()
                .unwrap()
                .values()
                .filter_map(Value::as_u64)
                .sum::<u64>()
        };
        assert_eq!(counters.iter().map(|event| total(event)).max(), Some(4096 + 48 + 160));
        let last = counters.last().unwrap();
        assert_eq!(
            last["args"],
            json!({ "parameter": 4096, "activation": 0, "temporary": 0 })
        );
    }
}
