//! How a tensor's elements lie in its storage: what decides whether a reshape is a view or a copy.

use std::ops::Deref;

/// Most dimensions a tensor has here.
pub(super) const MAX_RANK: usize = 4;

/// Sizes of a tensor's dimensions; 1 where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dims {
    rank: u8,
    sizes: [u32; MAX_RANK],
}

impl Dims {
    pub(super) fn new(dims: &[u32]) -> Self {
        let mut sizes = [1; MAX_RANK];
        sizes[..dims.len()].copy_from_slice(dims);
        Self {
            rank: dims.len() as u8,
            sizes,
        }
    }

    /// These dimensions with another size of `axis`.
    pub(super) fn with(mut self, axis: usize, size: u32) -> Self {
        self.sizes[axis] = size;
        self
    }

    /// These dimensions with another size of the last one.
    pub(super) fn with_last(self, size: u32) -> Self {
        self.with(usize::from(self.rank) - 1, size)
    }
}

impl Deref for Dims {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.sizes[..usize::from(self.rank)]
    }
}

/// Dimensions and strides, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) dims: Dims,
    strides: [u64; MAX_RANK],
}

impl Layout {
    /// Rows after rows.
    pub(super) fn contiguous(dims: &[u32]) -> Self {
        let mut strides = [0; MAX_RANK];
        let mut stride = 1;
        for (axis, &dim) in dims.iter().enumerate().rev() {
            strides[axis] = stride;
            stride *= u64::from(dim.max(1));
        }
        Self {
            dims: Dims::new(dims),
            strides,
        }
    }

    /// So many elements in a row. Of more than a dimension can have here, there may be up to 65,535 more.
    pub(super) fn row(elements: u64) -> Self {
        const WIDTH: u32 = 1 << 16;
        match u32::try_from(elements) {
            Ok(elements) => Self::contiguous(&[elements]),
            Err(_) => Self::contiguous(&[elements.div_ceil(u64::from(WIDTH)) as u32, WIDTH]),
        }
    }

    pub(super) fn dims(&self) -> &[u32] {
        &self.dims
    }

    fn strides(&self) -> &[u64] {
        &self.strides[..self.rank()]
    }

    pub(super) fn rank(&self) -> usize {
        usize::from(self.dims.rank)
    }

    pub(super) fn numel(&self) -> u64 {
        self.dims().iter().map(|&dim| u64::from(dim)).product()
    }

    pub(super) fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&dim, &stride) in self.dims().iter().zip(self.strides()).rev() {
            if dim != 1 {
                if stride != expected {
                    return false;
                }
                expected *= u64::from(dim);
            }
        }
        true
    }

    /// True if its span has every element exactly once, in any order.
    pub(super) fn is_dense(&self) -> bool {
        if self.is_contiguous() {
            return true;
        }
        let axes = || self.dims().iter().zip(self.strides()).filter(|(dim, _)| **dim != 1);
        let mut expected = 1;
        axes().all(|_| {
            let next = axes().find(|(_, stride)| **stride == expected);
            next.inspect(|(dim, _)| expected *= u64::from(**dim)).is_some()
        })
    }

    /// The layout of a new tensor shaped like this one: the same order of dimensions, without gaps.
    pub(super) fn dense(&self) -> Self {
        if self.is_dense() {
            return *self;
        }
        let mut dense = Self::contiguous(self.dims());
        if self.strides().contains(&0) {
            return dense;
        }
        let mut axes: Vec<usize> = (0..self.rank()).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(self.strides[axis]));
        let mut stride = 1;
        for axis in axes.into_iter().rev() {
            dense.strides[axis] = stride;
            stride *= u64::from(self.dims[axis]);
        }
        dense
    }

    pub(super) fn transpose(mut self, a: usize, b: usize) -> Self {
        self.dims.sizes.swap(a, b);
        self.strides.swap(a, b);
        self
    }

    /// A layout of these elements under other dimensions; `None` if they would have to be copied.
    pub(super) fn view(&self, dims: &[u32]) -> Option<Self> {
        if self.is_contiguous() {
            return Some(Self::contiguous(dims));
        }
        let mut out = Self::contiguous(dims);
        let mut axis = dims.len();
        let mut run = 1;
        let mut base = *self.strides().last()?;
        for own in (0..self.rank()).rev() {
            run *= u64::from(self.dims[own]);
            let ends = own == 0 || (self.dims[own - 1] != 1 && self.strides[own - 1] != run * base);
            if !ends {
                continue;
            }
            let mut taken = 1;
            while axis > 0 && (taken < run || dims[axis - 1] == 1) {
                axis -= 1;
                out.strides[axis] = taken * base;
                taken *= u64::from(dims[axis]);
            }
            if taken != run {
                return None;
            }
            if own > 0 {
                base = self.strides[own - 1];
                run = 1;
            }
        }
        (axis == 0).then_some(out)
    }

    /// Without the dimension `axis`, which is 1.
    pub(super) fn squeeze(&self, axis: usize) -> Self {
        let mut out = *self;
        for later in axis..self.rank() - 1 {
            out.dims.sizes[later] = self.dims.sizes[later + 1];
            out.strides[later] = self.strides[later + 1];
        }
        out.dims.sizes[self.rank() - 1] = 1;
        out.dims.rank -= 1;
        out
    }

    /// A layout of these elements `size` times in the dimension `axis`, which is 1.
    pub(super) fn expand(mut self, axis: usize, size: u32) -> Self {
        self.dims = self.dims.with(axis, size);
        self.strides[axis] = 0;
        self
    }

    /// Part of the dimension `axis`.
    pub(super) fn narrow(mut self, axis: usize, len: u32) -> Self {
        self.dims = self.dims.with(axis, len);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn reshapes_that_need_no_copy_are_views() {
        let heads = Layout::contiguous(&[2, 64, 8, 32]).transpose(1, 2);
        assert!(heads.is_dense() && !heads.is_contiguous());
        assert_eq!(heads.view(&[16, 64, 32]), None);
        assert_eq!(
            heads.transpose(1, 2).view(&[2, 64, 256]),
            Some(Layout::contiguous(&[2, 64, 256]))
        );
        let one = Layout::contiguous(&[1, 64, 8, 32]).transpose(1, 2);
        assert_eq!(one.view(&[8, 64, 32]).unwrap().dims(), [8, 64, 32]);
    }

    #[test]
    fn one_head_is_repeated_without_a_copy() {
        let repeated = |batch| Layout::contiguous(&[batch, 1, 64, 32]).expand(1, 4);
        assert!(!repeated(1).is_contiguous() && !repeated(1).is_dense());
        assert_eq!(repeated(1).view(&[4, 64, 32]).unwrap().dims(), [4, 64, 32]);
        assert_eq!(repeated(2).view(&[8, 64, 32]), None);
    }

    #[test]
    fn narrowed_layouts_have_gaps() {
        let whole = Layout::contiguous(&[4, 64]);
        assert!(whole.is_dense() && !whole.narrow(1, 32).is_dense());
        assert_eq!(whole.narrow(1, 32).dense(), Layout::contiguous(&[4, 32]));
        assert_eq!(whole.narrow(1, 32).view(&[4, 2, 16]).unwrap().dims(), [4, 2, 16]);
    }
}
