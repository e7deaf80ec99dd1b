//! A report as one HTML file that loads nothing.

mod body;
mod page;

pub(crate) use page::page;
