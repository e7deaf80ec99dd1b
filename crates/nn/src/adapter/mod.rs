//! Adapters of linear layers, one a file.

mod change;
mod decomposed;
mod dora;
mod down;
mod ia3;
mod interface;
mod loha;
mod lokr;
mod lora;
mod low_rank;
mod miss;
mod oft;
mod registry;
mod shared;
mod start;
mod up;
mod vera;

pub use change::{Change, Saved};
pub use dora::Dora;
pub use down::Down;
pub use ia3::Ia3;
pub use interface::{Adapter, Delta, DeltaGradients, InputMap, OutputScale};
pub use loha::Loha;
pub use lokr::Lokr;
pub use low_rank::LowRank;
pub use oft::Oft;
pub use registry::{Adapters, change};
pub use shared::SharedFactors;
pub use up::Up;
pub use up::UpRows;
