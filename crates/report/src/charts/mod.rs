//! The charts of a report, made from its groups. Each shows what varies in the study, or says why it shows nothing.

mod allocator;
mod categories;
mod draw;
mod growth;
mod heat_map;
mod rates;
mod scatter;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod view;
mod waterfall;

pub(crate) use draw::Charts;
#[cfg(test)]
pub(crate) use testing::study;
