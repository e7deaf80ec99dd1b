//! A reader that bounds what a parser may read for one row.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use super::row::LONGEST_SAMPLE;

/// Room for the buffer of a parser that reads ahead.
const READ_AHEAD: usize = 1 << 20;

/// A file that ends in an error if a row is longer than [`LONGEST_SAMPLE`].
pub(super) struct Metered {
    file: Box<dyn Read>,
    meter: Meter,
}

/// The bytes that may still be read for the current row.
#[derive(Clone)]
pub(super) struct Meter(Rc<Cell<usize>>);

impl Metered {
    pub(super) fn new(file: Box<dyn Read>) -> (Self, Meter) {
        let meter = Meter(Rc::default());
        meter.begin_row();
        let metered = Self {
            file,
            meter: meter.clone(),
        };
        (metered, meter)
    }
}

impl Meter {
    /// Forgets what was read for earlier rows.
    pub(super) fn begin_row(&self) {
        self.0.set(LONGEST_SAMPLE + READ_AHEAD);
    }

    /// True if the current row is too long.
    pub(super) fn is_exceeded(&self) -> bool {
        self.0.get() == 0
    }
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.meter.0.get();
        if left == 0 {
            return Err(io::Error::other("the row is too long"));
        }
        let most = buffer.len().min(left);
        let read = self.file.read(&mut buffer[..most])?;
        self.meter.0.set(left - read);
        Ok(read)
    }
}
