//! The key-value cache.

use crate::tape::Tensor;

/// Keys and values of a layer so far, if there are any.
pub(crate) type Cached<'t> = Option<[Tensor<'t>; 2]>;

/// What is cached of each layer.
pub(crate) type Cache<'t> = Vec<Cached<'t>>;
