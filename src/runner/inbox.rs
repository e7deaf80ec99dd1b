//! Everything that happens while cells run, in one queue: what children say, that they ended, and signals.

use std::ffi::c_int;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use crate::results::record::Event;

use super::error::RunError;

pub(super) enum Message {
    /// From the n-th child; a late message of an earlier one must not be taken for the present one's.
    Child(usize, FromChild),
    /// SIGINT or SIGTERM.
    Signal(c_int),
}

pub(super) enum FromChild {
    Event(Event),
    /// Its stdout ended.
    Silent,
    /// It ended and waits to be reaped.
    Exited,
}

/// The queue, and the signals that it listens to until it is dropped.
pub(super) struct Inbox {
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    signals: Handle,
    /// The first signal that asked this run to stop.
    interrupted: Option<c_int>,
}

impl Inbox {
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

    pub(super) fn sender(&self) -> Sender<Message> {
        self.sender.clone()
    }

    /// The next message, or none after `patience` (for ever where there is none).
    pub(super) fn receive(&mut self, patience: Option<Duration>) -> Option<Message> {
        let message = match patience {
            // The inbox holds a sender itself, so the queue is never disconnected.
            None => self.receiver.recv().ok(),
            Some(patience) => self.receiver.recv_timeout(patience).ok(),
        };
        if let Some(Message::Signal(signal)) = message {
            self.interrupted.get_or_insert(signal);
        }
        message
    }

    /// The signal that asked this run to stop, if one came so far.
    pub(super) fn interrupted(&mut self) -> Option<c_int> {
        while self.interrupted.is_none() && self.receive(Some(Duration::ZERO)).is_some() {}
        self.interrupted
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.signals.close();
    }
}

/// The first signal is a request; the second ends this process as if nobody had listened, and its child with it.
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

pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}
