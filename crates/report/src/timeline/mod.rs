//! The timelines of a report: the curve of a recorded step, its peaks, and the tensors saved for the backward pass. One
//! cell represents each group.

mod chart;
mod read;
mod view;

pub(crate) use read::timelines;
pub(crate) use view::Timeline;
