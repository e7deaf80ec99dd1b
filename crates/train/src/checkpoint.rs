//! Checkpoints within a run: all that it carries from step to step, so that another process goes on bit for bit.

use std::borrow::Cow;
use std::io::{self, BufRead, Read as _, Write};
use std::path::{Path, PathBuf};

use base::text::with_causes;
use candle_core::Device;
use nn::Carrier;
use options::StepsOrRatio;
use records::store::{CellDir, Checkpoint, StoreError, make_room, remove_checkpoints};
use records::{Provenance, Step};
use serde::{Deserialize, Serialize};

use super::memory_meter::{LoopMemory, MemoryMeter};
use super::{TrainError, Trainer};

/// When checkpoints are written, and how many stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saving {
    /// Steps from one to the next.
    pub every: StepsOrRatio,
    /// The latest that stay.
    pub limit: usize,
}

/// The checkpoints of a run.
pub struct Checkpoints {
    /// The program and the machine. The run adds its data.
    pub provenance: Provenance,
    /// The one to go on from.
    pub from: Option<Opened>,
    /// `None` for a run that writes none.
    pub saving: Option<Saving>,
    /// True if other cells may train beside this one. Its times are then no measurement, and are not gone on with by a run
    /// that measures them.
    pub shares_machine: bool,
}

impl Checkpoints {
    /// The one to go on from, if it is of the run's data.
    pub(super) fn take(&mut self, on_remark: &mut dyn FnMut(String)) -> Result<Option<Opened>, TrainError> {
        let Some(from) = self.from.take() else {
            return Ok(None);
        };
        if from.header.provenance.is_like(&self.provenance) {
            return Ok(Some(from));
        }
        on_remark(from.left_out("other data"));
        // So are those before it, and the timeline is of steps that are taken again.
        let folder = from.path.parent().and_then(Path::parent).unwrap_or(&from.path);
        let dir = CellDir::new(folder);
        remove_checkpoints(&dir)
            .and_then(|()| make_room(&dir.timeline()))
            .map_err(|source| from.failed(source))?;
        Ok(None)
    }
}

/// The first line of a checkpoint. The bits of what it has no room for follow: [`carry`].
#[derive(Serialize, Deserialize)]
struct Header<'a> {
    provenance: Cow<'a, Provenance>,
    carried: Cow<'a, Carried>,
    shares_machine: bool,
    memory: Cow<'a, LoopMemory>,
    steps: Cow<'a, [Step]>,
}

/// What a run carries along unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Carried {
    /// Steps after which another process went on.
    pub(super) resumed: Vec<usize>,
    /// The bits of the loss on the data whose forgetting is measured, before the first step.
    forgetting_before: Option<u64>,
}

impl Carried {
    pub(super) fn new(forgetting_before: Option<f64>) -> Self {
        Self {
            resumed: Vec::new(),
            forgetting_before: forgetting_before.map(f64::to_bits),
        }
    }

    pub(super) fn forgetting_before(&self) -> Option<f64> {
        self.forgetting_before.map(f64::from_bits)
    }
}

/// A checkpoint whose seal holds, to go on from.
pub struct Opened {
    /// The last step that it has.
    pub step: usize,
    path: PathBuf,
    header: Header<'static>,
    rest: Box<dyn BufRead + Send>,
}

/// The latest checkpoint in the cell's folder `dir` that holds and is of this provenance, but for its data, which no run
/// has read yet. `on_remark` is told of those that do not, and of one without speeds if this run measures them. It removes
/// those that cannot be gone on from, which would count among the latest.
///
/// # Errors
/// A file cannot be read or removed.
pub fn latest(
    dir: &Path,
    provenance: &Provenance,
    shares_machine: bool,
    on_remark: &mut dyn FnMut(String),
) -> Result<Option<Opened>, TrainError> {
    for checkpoint in Checkpoint::all(&CellDir::new(dir))? {
        let opened = match Opened::new(&checkpoint) {
            Ok(opened) => opened,
            // The system may read it the next time.
            Err(error @ TrainError::Store(StoreError::Io { .. })) => return Err(error),
            Err(error) => {
                on_remark(with_causes(&error));
                checkpoint.remove()?;
                continue;
            }
        };
        let saved = Provenance {
            data_sha256: provenance.data_sha256.clone(),
            init_adapter_sha256: provenance.init_adapter_sha256.clone(),
            ..opened.header.provenance.clone().into_owned()
        };
        match saved.is_like(provenance) {
            false => on_remark(opened.left_out("another build, processor or environment")),
            true if opened.header.shares_machine && !shares_machine => {
                on_remark(opened.left_out("a run that measured no speeds"));
            }
            true => return Ok(Some(opened)),
        }
        checkpoint.remove()?;
    }
    Ok(None)
}

impl Opened {
    fn new(checkpoint: &Checkpoint) -> Result<Self, TrainError> {
        let mut rest = checkpoint.open()?;
        let failed = |source| TrainError::Checkpoint {
            path: checkpoint.path().to_path_buf(),
            source,
        };
        let mut line = Vec::new();
        rest.read_until(b'\n', &mut line).map_err(failed)?;
        Ok(Self {
            step: checkpoint.step,
            path: checkpoint.path().to_path_buf(),
            header: serde_json::from_slice(&line).map_err(|error| failed(error.into()))?,
            rest: Box::new(rest),
        })
    }

    fn failed(&self, source: io::Error) -> TrainError {
        TrainError::Checkpoint {
            path: self.path.clone(),
            source,
        }
    }

    /// A remark on a checkpoint that is not gone on from.
    fn left_out(&self, of: &str) -> String {
        format!("the checkpoint of step {} is left out: it is of {of}", self.step)
    }

    /// What the run carries along, with this checkpoint.
    pub(super) fn carried(&self) -> Carried {
        let mut carried = self.header.carried.clone().into_owned();
        carried.resumed.push(self.step);
        carried
    }

    /// Brings a trainer that was just loaded to where it was. Returns the steps so far, and their memory.
    pub(super) fn restore(self, trainer: &mut Trainer) -> Result<(Vec<Step>, LoopMemory), TrainError> {
        let path = self.path;
        let mut steps = self.header.steps.into_owned();
        let mut rest = Restore(self.rest);
        carry(trainer, &mut steps, &mut rest)?;
        let failed = |source| TrainError::Checkpoint { path, source };
        match rest.0.fill_buf() {
            Ok([]) => Ok((steps, self.header.memory.into_owned())),
            Ok(_) => Err(failed(io::Error::other("it has more than this cell carries"))),
            Err(source) => Err(failed(source)),
        }
    }
}

/// Writes the checkpoints of a run.
pub(super) struct Writer<'a> {
    dir: CellDir,
    every: usize,
    limit: usize,
    provenance: &'a Provenance,
    shares_machine: bool,
    carried: &'a Carried,
}

impl<'a> Writer<'a> {
    /// A writer into the cell's folder `dir` for a training of `steps` steps; `None` if there are to be no checkpoints.
    pub(super) fn new(checkpoints: &'a Checkpoints, dir: &Path, steps: usize, carried: &'a Carried) -> Option<Self> {
        let saving = checkpoints.saving?;
        Some(Self {
            dir: CellDir::new(dir),
            every: saving.every.of(steps).max(1),
            limit: saving.limit,
            provenance: &checkpoints.provenance,
            shares_machine: checkpoints.shares_machine,
            carried,
        })
    }

    /// Writes a checkpoint if one is due after these steps. It shows neither in their figures nor in those of later ones.
    /// A timeline has the first steps of one process, so none is due before it ends.
    pub(super) fn after(
        &self,
        steps: &mut [Step],
        trainer: &mut Trainer,
        meter: &mut MemoryMeter,
    ) -> Result<(), TrainError> {
        if !steps.len().is_multiple_of(self.every) || memory::timeline::is_recording() {
            return Ok(());
        }
        let device: Device = trainer.device().clone();
        meter.aside(&device, |memory| {
            Checkpoint::write(&self.dir, steps.len(), self.limit, |out| {
                let header = Header {
                    provenance: Cow::Borrowed(self.provenance),
                    carried: Cow::Borrowed(self.carried),
                    shares_machine: self.shares_machine,
                    memory: Cow::Borrowed(memory),
                    steps: Cow::Borrowed(&*steps),
                };
                serde_json::to_writer(&mut *out, &header)?;
                out.write_all(b"\n")?;
                carry(trainer, steps, &mut Save(out)).map_err(io::Error::other)
            })
        })?;
        Ok(())
    }
}

/// Saves or restores the bits of all that changes from step to step.
fn carry(trainer: &mut Trainer, steps: &mut [Step], carrier: &mut dyn Carrier) -> Result<(), TrainError> {
    for step in steps {
        numbers(step).try_for_each(|number| carrier.number(number))?;
    }
    trainer.carry(carrier)
}

/// The numbers of a step that their text in JSON may not bring back to the last bit.
fn numbers(step: &mut Step) -> impl Iterator<Item = &mut f64> {
    let numbers = [
        Some(&mut step.loss),
        Some(&mut step.gradient_norm),
        Some(&mut step.learning_rate),
        step.loss_scale.as_mut(),
        Some(&mut step.seconds),
        step.system_used_percent.as_mut(),
        step.empty_cache.as_mut().map(|emptied| &mut emptied.seconds),
    ];
    numbers.into_iter().flatten()
}

struct Save<'a>(&'a mut dyn Write);

impl Carrier for Save<'_> {
    fn bytes(&mut self, bytes: &mut [u8]) -> candle_core::Result<()> {
        Ok(self.0.write_all(bytes)?)
    }
}

struct Restore(Box<dyn BufRead + Send>);

impl Carrier for Restore {
    fn bytes(&mut self, bytes: &mut [u8]) -> candle_core::Result<()> {
        Ok(self.0.read_exact(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use records::EmptyCache;
    use records::sample;

    use super::*;

    /// Every number of a step is carried: this one has a number nearby that its text could be read as.
    #[test]
    fn numbers_are_all_that_are_not_whole() {
        let mut step = Step {
            loss_scale: Some(65536.0),
            system_used_percent: Some(12.5),
            empty_cache: Some(EmptyCache {
                seconds: 0.5,
                reserved_before_bytes: None,
                reserved_after_bytes: None,
                process_before_bytes: None,
                process_after_bytes: None,
            }),
            ..sample::step(3)
        };
        numbers(&mut step).for_each(|number| *number = 0.1 + 0.2);
        let text = serde_json::to_string(&step).unwrap();
        assert_eq!(
            text.matches("0.30000000000000004").count(),
            text.matches('.').count(),
            "{text}"
        );
        assert_eq!(numbers(&mut step).count(), 7);
    }
}
