//! Products of one term.

use crate::kernels::gemm::{Operand, Segment, Source, Store, Term, multiply::Multiply, product};

/// `left ᵀ · right`, both `[tokens, …]`.
pub(super) fn token_sum<'a, P>(left: &'a dyn Source<P>, right: &'a dyn Source<P>, tokens: usize) -> Term<'a, P> {
    Term {
        left: Operand::depth_first(left),
        right: Operand::depth_first(right),
        depth: tokens,
    }
}

/// The sum of the terms.
pub(super) fn one_product<P: Multiply>(rows: usize, cols: usize, terms: Vec<Term<P>>, store: &dyn Store) {
    product(rows, &[Segment { cols, terms, store }]);
}
