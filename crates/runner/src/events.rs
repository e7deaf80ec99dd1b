//! The events of a run in one queue: messages of children, their ends, and signals.

use std::ffi::c_int;
use std::io::{self, Write, stderr};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use records::Event;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use super::error::RunError;

/// An event of a run.
pub(super) enum Message {
    /// From the child with this serial number, which tells late messages of an earlier child apart.
    Child(usize, FromChild),
    /// SIGINT or SIGTERM.
    Signal(c_int),
}

/// A message of a child.
pub(super) enum FromChild {
    /// An event of its training.
    Event(Event),
    /// Its stdout is closed.
    StdoutClosed,
    /// It has ended and waits to be reaped.
    Exited,
}

/// The queue. It catches signals until it is dropped.
pub(super) struct Events {
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    signals: Handle,
    /// True while signals go to the queue. Else they end this process.
    queues: Arc<AtomicBool>,
    /// The first signal that asked this run to stop; 0 for none.
    interrupted: Arc<AtomicI32>,
    /// The number of the next child.
    serial: usize,
}

/// Signals go to the queue until this is dropped.
pub(super) struct Queued {
    queues: Arc<AtomicBool>,
    before: bool,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.queues.store(self.before, SeqCst);
    }
}

impl Events {
    /// Opens the queue and catches SIGINT and SIGTERM. They end this process at once until [`Self::queue_signals`]: the
    /// files of cells may take long to read for predictions, and nothing is lost meanwhile.
    pub(super) fn open() -> Result<Self, RunError> {
        let (sender, receiver) = mpsc::channel();
        let signals = Signals::new([SIGINT, SIGTERM]).map_err(RunError::Signals)?;
        let handle = signals.handle();
        let (queues, interrupted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI32::new(0)));
        let (forward, are_queued, first) = (sender.clone(), Arc::clone(&queues), Arc::clone(&interrupted));
        spawn("signals", move || {
            forward_signals(signals, &forward, &are_queued, &first)
        })
        .map_err(RunError::Signals)?;
        Ok(Self {
            queues,
            sender,
            receiver,
            signals: handle,
            interrupted,
            serial: 0,
        })
    }

    /// Has signals go to the queue.
    pub(super) fn queue_signals(&self) -> Queued {
        Queued {
            before: self.queues.swap(true, SeqCst),
            queues: Arc::clone(&self.queues),
        }
    }

    /// A sender into the queue.
    pub(super) fn sender(&self) -> Sender<Message> {
        self.sender.clone()
    }

    /// A number for a child, which no other has.
    pub(super) fn serial(&mut self) -> usize {
        self.serial += 1;
        self.serial
    }

    /// The next message; `None` after `timeout`. Without a timeout it waits for ever.
    pub(super) fn receive(&mut self, timeout: Option<Duration>) -> Option<Message> {
        match timeout {
            // This holds a sender itself, so the queue is never disconnected.
            None => self.receiver.recv().ok(),
            Some(timeout) => self.receiver.recv_timeout(timeout).ok(),
        }
    }

    /// The first signal that asked this run to stop.
    pub(super) fn interrupted(&self) -> Option<c_int> {
        Some(self.interrupted.load(SeqCst)).filter(|signal| *signal != 0)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.signals.close();
    }
}

/// Ends this process before the first cell is trained, when nothing is lost.
#[expect(clippy::exit, reason = "what predicts cannot be asked to stop")]
pub(super) fn end_at_once(signal: c_int) -> ! {
    let _ = writeln!(
        stderr(),
        "interrupted while cells are predicted; the same command goes on from here"
    );
    // As a run that is stopped later ends.
    process::exit(128 + signal)
}

/// While signals are queued, the first is a request. The second ends this process by default, and its child with it.
fn forward_signals(mut signals: Signals, forward: &Sender<Message>, are_queued: &AtomicBool, first: &AtomicI32) {
    for signal in signals.forever() {
        if !are_queued.load(SeqCst) {
            end_at_once(signal);
        }
        if first.compare_exchange(0, signal, SeqCst, SeqCst).is_err() {
            let _ = emulate_default_handler(signal);
        }
        if forward.send(Message::Signal(signal)).is_err() {
            return;
        }
    }
}

/// Starts a named thread.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}
