//! Linear layers on the CPU. Weights are dequantised panel by panel while they are multiplied, an adapter's second
//! product is a term of the weight's, its scale is applied as sums are stored, and layers that share an input share the
//! work on it.

mod accumulate;
mod backward;
mod delta;
mod forward;
mod input_map;
mod llm_int8;
mod low_rank;
mod masked;
mod output_gradients;
mod outputs;
mod products;

pub(super) use accumulate::accumulate;
pub(super) use backward::{input_gradient, without_input_gradient};
pub(super) use forward::forward;
