//! The page of techniques: what each does, what studies measured of it, and which go together.

mod measured;
mod page;

pub use measured::StudyRows;
pub use page::page;
