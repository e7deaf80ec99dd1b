//! LoKr, as PEFT computes it (`tuners/lokr/layer.py`).

use super::base::BaseLayer;
use super::interface::Adapter;
use super::place::Place;
use crate::tape::Tensor;

/// LoKr's two matrices.
pub(super) struct Lokr<'t> {
    first: Matrix<'t>,
    second: Matrix<'t>,
}

/// A matrix, or the factors of which it is the product.
enum Matrix<'t> {
    Whole(Tensor<'t>),
    Product(Tensor<'t>, Tensor<'t>),
}

impl<'t> Lokr<'t> {
    pub(super) fn new(lokr: &options::Lokr, place: &mut Place<'_, 't>) -> Self {
        let [rows, columns] = place.dims().map(|dim| dim as usize);
        let shape = lokr.shape(place.options.rank_of(place.name), rows, columns);
        Self {
            first: Matrix::new(place, options::methods::LOKR_W1, shape.first, shape.first_rank),
            second: Matrix::new(place, options::methods::LOKR_W2, shape.second, shape.second_rank),
        }
    }

    /// `get_delta_weight`.
    fn delta_weight(&self) -> Tensor<'t> {
        let first = self.first.product();
        let second = self.second.product();
        let rebuilt = first.kron(&second);
        rebuilt.scale()
    }
}

impl<'t> Matrix<'t> {
    fn new(place: &mut Place<'_, 't>, names: [&'static str; 3], dims: [usize; 2], rank: Option<usize>) -> Self {
        let mut train = |name, dims: [usize; 2]| {
            let factor = place.factor(&dims.map(|dim| dim as u32));
            place.train(name, factor)
        };
        let [rows, columns] = dims;
        match rank {
            None => Self::Whole(train(names[0], dims)),
            Some(rank) => {
                let left = train(names[1], [rows, rank]);
                Self::Product(left, train(names[2], [rank, columns]))
            }
        }
    }

    fn product(&self) -> Tensor<'t> {
        match self {
            Self::Whole(whole) => whole.clone(),
            Self::Product(left, right) => left.bmm(right),
        }
    }
}

impl<'t> Adapter<'t> for Lokr<'t> {
    fn forward(&self, layer: &BaseLayer<'t>, input: &Tensor<'t>) -> Tensor<'t> {
        layer.forward_beside(input, || self.delta_weight())
    }
}

impl<'t> Tensor<'t> {
    /// `torch.kron(self, other)` of matrices.
    fn kron(&self, other: &Self) -> Tensor<'t> {
        let ([l, m], [k, n]) = (self.rows_and_width(), other.rows_and_width());
        let this = self.reshape(&[l, 1, m, 1]);
        let other = other.reshape(&[1, k, 1, n]);
        this.mul(&other).reshape(&[l * k, m * n])
    }
}
