//! The events of a run in one queue: messages of children, their ends, and signals.

use std::ffi::c_int;
use std::io;
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
    /// The first signal that asked this run to stop.
    interrupted: Option<c_int>,
}

impl Events {
    /// Opens the queue and catches SIGINT and SIGTERM.
    pub(super) fn open() -> Result<Self, RunError> {
        let (sender, receiver) = mpsc::channel();
        let signals = Signals::new([SIGINT, SIGTERM]).map_err(RunError::Signals)?;
        let handle = signals.handle();
        let forward = sender.clone();
        spawn("signals", move || forward_signals(signals, &forward)).map_err(RunError::Signals)?;
        Ok(Self {
            sender,
            receiver,
            signals: handle,
            interrupted: None,
        })
    }

    /// A sender into the queue.
    pub(super) fn sender(&self) -> Sender<Message> {
        self.sender.clone()
    }

    /// The next message; `None` after `timeout`. Without a timeout it waits for ever.
    pub(super) fn receive(&mut self, timeout: Option<Duration>) -> Option<Message> {
        let message = match timeout {
            // This holds a sender itself, so the queue is never disconnected.
            None => self.receiver.recv().ok(),
            Some(timeout) => self.receiver.recv_timeout(timeout).ok(),
        };
        if let Some(Message::Signal(signal)) = message {
            self.interrupted.get_or_insert(signal);
        }
        message
    }

    /// The first signal that asked this run to stop.
    pub(super) fn interrupted(&mut self) -> Option<c_int> {
        while self.interrupted.is_none() && self.receive(Some(Duration::ZERO)).is_some() {}
        self.interrupted
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.signals.close();
    }
}

/// The first signal is a request. The second ends this process by default, and its child with it.
fn forward_signals(mut signals: Signals, forward: &Sender<Message>) {
    let mut asked = false;
    for signal in signals.forever() {
        if asked {
            let _ = emulate_default_handler(signal);
        }
        asked = true;
        if forward.send(Message::Signal(signal)).is_err() {
            return;
        }
    }
}

/// Starts a named thread.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}
