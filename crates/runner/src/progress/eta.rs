//! How long a run will take, from the work that it has done.

use std::collections::BTreeMap;
use std::time::Instant;

use super::super::task::Task;

/// The work of a run's cells: what is done, under way and to come.
#[derive(Debug, Default)]
pub(super) struct Eta {
    started: Option<Instant>,
    finished: f64,
    /// The work of each cell that trains, and the part of it that is done.
    running: BTreeMap<String, (f64, f64)>,
    to_come: f64,
}

impl Eta {
    /// A cell starts.
    pub(super) fn started(&mut self, task: &Task) {
        self.started.get_or_insert_with(Instant::now);
        self.running.insert(task.cell_id.clone(), (task.work, 0.0));
        self.to_come = task.work_to_come;
    }

    /// A cell has done so many of its steps.
    pub(super) fn stepped(&mut self, task: &Task, step: usize, steps: usize) {
        if let Some((work, done)) = self.running.get_mut(&task.cell_id) {
            *done = *work * step as f64 / steps as f64;
        }
    }

    /// A cell has ended; one that was not tried has done no work.
    pub(super) fn finished(&mut self, task: &Task, is_tried: bool) {
        self.running.remove(&task.cell_id);
        if is_tried {
            self.finished += task.work;
        }
    }

    /// `, 2 min 05 s left`, or nothing before a cell has ended.
    pub(super) fn left(&self) -> String {
        let seconds = self.started.map(|started| started.elapsed().as_secs_f64());
        seconds.map_or_else(String::new, |seconds| self.left_after(seconds))
    }

    fn left_after(&self, seconds: f64) -> String {
        let done = self.finished + self.running.values().map(|(_, done)| done).sum::<f64>();
        let left = self.to_come + self.running.values().map(|(work, done)| work - done).sum::<f64>();
        let seconds = seconds * left / done;
        match self.finished > 0.0 && seconds.is_finite() {
            true => format!(", {} left", base::text::format::seconds(seconds.round().into())),
            false => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(cell_id: &str, work: f64, work_to_come: f64) -> Task {
        Task {
            work,
            work_to_come,
            ..Task::alone(cell_id)
        }
    }

    #[test]
    fn time_is_in_proportion_to_work() {
        let mut eta = Eta::default();
        assert_eq!(eta.left(), "");
        let (first, second) = (task("a", 2.0, 8.0), task("b", 2.0, 6.0));
        eta.started(&first);
        eta.stepped(&first, 5, 10);
        assert_eq!(eta.left_after(10.0), "", "before a cell has ended");
        eta.started(&second);
        eta.finished(&first, true);
        assert_eq!(eta.left_after(50.0), ", 3 min 20 s left", "the second and three more");
        eta.stepped(&second, 10, 10);
        assert_eq!(eta.left_after(100.0), ", 2 min 30 s left");
        eta.finished(&second, true);
        let third = task("c", 2.0, 4.0);
        eta.started(&third);
        eta.finished(&third, false);
        assert_eq!(
            eta.left_after(100.0),
            ", 1 min 40 s left",
            "one that was not tried took no time"
        );
    }
}
