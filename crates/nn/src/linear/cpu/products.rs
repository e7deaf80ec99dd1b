//! Products of one term.

use kernels::gemm::{Epilogue, Operand, OperandReader, Segment, Term, multiply::Multiply, product};

/// `left ᵀ · right`, both `[tokens, …]`.
pub(super) fn token_sum<'a, P>(
    left: &'a dyn OperandReader<P>,
    right: &'a dyn OperandReader<P>,
    tokens: usize,
) -> Term<'a, P> {
    Term {
        left: Operand::depth_first(left),
        right: Operand::depth_first(right),
        depth: tokens,
    }
}

/// The sum of the terms.
pub(super) fn one_product<P: Multiply>(rows: usize, cols: usize, terms: Vec<Term<P>>, epilogue: &dyn Epilogue) {
    product(rows, &[Segment { cols, terms, epilogue }]);
}
