//! A recording on disk; [`trace::recording`] describes the layout.

use std::path::{Path, PathBuf};

use base::foreign;
use records::store::StoreError;
use trace::recording::Event;
use trace::recording::{END, EVENTS, MAGIC, NAMES};
use trace::{ByCategory, Category};

use super::error::TimelineError;
use super::replay::State;

/// All events of a recording.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    /// Modules' names by number; the first one is empty and stands for no module.
    pub names: Vec<String>,
    /// The events in the order of time.
    pub events: Vec<Event>,
    /// The ledger's live bytes after a number of events.
    checks: Vec<(usize, ByCategory)>,
    /// Lost events; the recording ends at the first of them.
    pub lost: u64,
    /// False if the end of the process cut the recording short.
    pub complete: bool,
}

/// Reads a recording, and compares the sums of its events with the ledger's wherever the file has both.
///
/// # Errors
/// The file cannot be read, is not a timeline of this version, or contradicts the ledger.
pub fn read(path: &Path) -> Result<Recording, TimelineError> {
    let bytes = foreign::read(path).map_err(|source| StoreError::Io {
        action: "read",
        path: path.to_path_buf(),
        source,
    })?;
    let Some(chunks) = bytes.strip_prefix(MAGIC) else {
        return Err(TimelineError::Foreign(path.to_path_buf()));
    };
    let mut recording = Recording {
        path: path.to_path_buf(),
        names: vec![String::new()],
        events: Vec::new(),
        checks: Vec::new(),
        lost: 0,
        complete: false,
    };
    recording.take(chunks)?;
    recording.check()?;
    Ok(recording)
}

impl Recording {
    /// A recording of these events, which stands in no file.
    ///
    /// # Errors
    /// An event does not follow from those before it, such as the release of what is not live.
    pub fn of(names: Vec<String>, events: Vec<Event>) -> Result<Self, TimelineError> {
        let recording = Self {
            path: PathBuf::new(),
            names,
            checks: vec![],
            lost: 0,
            complete: true,
            events,
        };
        let mut state = State::new(&recording.names);
        for event in &recording.events {
            state.apply(event).map_err(|what| recording.damaged(&what))?;
        }
        Ok(recording)
    }

    fn take(&mut self, mut rest: &[u8]) -> Result<(), TimelineError> {
        // A kill may have cut the last chunk short.
        while let Some((&[kind, l0, l1, l2, l3], after)) = rest.split_first_chunk::<5>() {
            let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
            let Some((body, after)) = after.split_at_checked(length) else {
                break;
            };
            rest = after;
            match kind {
                NAMES => self.take_names(body)?,
                EVENTS => self.take_events(body)?,
                END => {
                    self.lost = number(body).ok_or_else(|| self.damaged("its end has no count"))?;
                    self.complete = true;
                }
                other => return Err(self.damaged(&format!("it holds a chunk of unknown kind {other}"))),
            }
        }
        Ok(())
    }

    fn take_names(&mut self, body: &[u8]) -> Result<(), TimelineError> {
        let text = std::str::from_utf8(body).map_err(|_| self.damaged("a name is not UTF-8"))?;
        self.names.extend(text.lines().map(str::to_owned));
        Ok(())
    }

    fn take_events(&mut self, body: &[u8]) -> Result<(), TimelineError> {
        let sums = Category::ALL.len() * 8;
        let Some((sums, events)) = body.split_at_checked(sums) else {
            return Err(self.damaged("a chunk of events is too short"));
        };
        let (events, rest) = events.as_chunks::<{ Event::SIZE }>();
        if !rest.is_empty() {
            return Err(self.damaged("a chunk of events ends within one"));
        }
        for event in events {
            let event = Event::decode(event).ok_or_else(|| self.damaged("it holds an unknown event"))?;
            if usize::from(event.module) >= self.names.len() {
                return Err(self.damaged("an event is of a module without a name"));
            }
            self.events.push(event);
        }
        let mut live = ByCategory::default();
        for (category, sum) in Category::ALL.into_iter().zip(sums.chunks_exact(8)) {
            live[category] = number(sum).unwrap_or_default();
        }
        self.checks.push((self.events.len(), live));
        Ok(())
    }

    /// Replays all events and compares the sums, except after lost events.
    fn check(&self) -> Result<(), TimelineError> {
        let mut state = State::new(&self.names);
        let mut done = 0;
        for (at, (end, live)) in self.checks.iter().enumerate() {
            for event in &self.events[done..*end] {
                state.apply(event).map_err(|what| self.damaged(&what))?;
            }
            done = *end;
            let last = at + 1 == self.checks.len();
            for category in Category::ALL.into_iter().filter(|category| category.is_tensor()) {
                if state.sums[category] != live[category] && !(last && self.lost > 0) {
                    return Err(self.damaged(&format!(
                        "after {end} events {} bytes of {} are live, and the ledger had {}",
                        state.sums[category],
                        category.name(),
                        live[category]
                    )));
                }
            }
        }
        Ok(())
    }

    fn damaged(&self, what: &str) -> TimelineError {
        TimelineError::Damaged {
            path: self.path.clone(),
            what: what.to_owned(),
        }
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}
