//! The timeline of a training run as a file: each event of the tensor categories, with its time and module.
//!
//! The file is [`MAGIC`] and then chunks: a byte for the kind, the length as a little-endian u32, and that many bytes.
//! A file that a kill cut short can be read up to its last whole chunk.

mod event;
mod format;

pub use event::{Event, Kind, RANK_SHIFT};
pub use format::{dtype_name, dtype_number};

/// The first bytes of a recording.
pub const MAGIC: &[u8; 16] = b"expctl timeline1";

/// Kind of a chunk of module names, one a line. The first name of a file has the number 1.
pub const NAMES: u8 = 1;
/// Kind of a chunk of events. The live bytes of each category after them (eight little-endian u64) stand in front.
pub const EVENTS: u8 = 2;
/// Kind of the last chunk: the number of lost events, a little-endian u64.
pub const END: u8 = 3;
