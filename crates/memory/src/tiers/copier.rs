//! A thread that copies between the tiers while the others compute. It is none of those that share a product's work,
//! which would wait for memory with work left to do.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use super::traffic;
use crate::is_dry_run;

type Job = Box<dyn FnOnce() + Send>;

/// The outcome of work that another thread may still be at.
#[derive(Debug)]
pub enum Pending<T> {
    /// Done.
    Ready(T),
    /// Under way.
    UnderWay(Receiver<T>),
}

impl<T> Pending<T> {
    /// Waits for the end of the work.
    ///
    /// # Panics
    /// If the work panicked.
    #[expect(clippy::expect_used, reason = "a panic of the work is a panic of who waits for it")]
    pub fn wait(self) -> T {
        match self {
            Self::Ready(outcome) => outcome,
            Self::UnderWay(receiver) => {
                let start = Instant::now();
                let outcome = receiver.recv().expect("the copies ended by a panic");
                traffic::count_waited(start.elapsed());
                outcome
            }
        }
    }
}

/// Runs `job` on the copying thread, one after the other; in a dry run, at once and here.
pub fn copy_aside<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
    let Some(jobs) = (!is_dry_run()).then(jobs).flatten() else {
        return Pending::Ready(job());
    };
    let (sender, receiver) = channel();
    let job: Job = Box::new(move || {
        // Nobody waits for the outcome of a pass that ended early.
        let _ = sender.send(job());
    });
    match jobs.send(job) {
        Ok(()) => Pending::UnderWay(receiver),
        // The thread is gone after a panic.
        Err(failed) => {
            (failed.0)();
            Pending::UnderWay(receiver)
        }
    }
}

/// The thread's queue; `None` if the system gives no thread.
fn jobs() -> Option<&'static Sender<Job>> {
    static JOBS: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    JOBS.get_or_init(|| {
        let (sender, receiver) = channel::<Job>();
        let work = move || receiver.into_iter().for_each(|job| job());
        let thread = thread::Builder::new().name("copies".into()).spawn(work);
        thread.is_ok().then_some(sender)
    })
    .as_ref()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The copy ends only if the work after it was begun runs meanwhile.
    #[test]
    fn copies_and_computing_overlap() {
        let (computed, wait_for_computing) = channel();
        let copy = copy_aside(move || wait_for_computing.recv_timeout(Duration::from_secs(60)).is_ok());
        computed.send(()).unwrap();
        assert!(copy.wait(), "the copy held up who asked for it");
    }
}
