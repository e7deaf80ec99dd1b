//! The optimizer's step, group by group.

use options::Optimizer;
use trace::Category;

use super::Sharing;
use crate::dtype::Dtype;
use crate::groups::Groups;
use crate::optimizer::OptimizerState;
use crate::tape::{Tape, Tensor};
use crate::view::StorageId;

/// Bytes of a number of 64 bits.
const DOUBLE: u64 = 8;

impl Tape {
    /// `step()` of the optimizer that shares: `masters` are the master weights of each group that is stepped by itself.
    pub(crate) fn step_of_zero<'t>(
        &'t self,
        optim: Optimizer,
        optimizer: &mut OptimizerState<'t>,
        masters: &[Tensor<'t>],
    ) {
        if self.prepare_step() {
            let mut groups = Groups::new(false);
            masters.iter().for_each(|master| groups.push(master.clone(), "weight"));
            optimizer.step_on_cpu(self, &groups, optim);
        } else {
            let is_first = !optimizer.has_states();
            for (number, master) in masters.iter().enumerate() {
                let gradient = self.master_gradient(number);
                optimizer.step_alone(self, master, is_first);
                self.release(gradient);
            }
        }
        self.end_step();
    }

    /// What comes before the first group: overflows, and norms. Returns true if the optimizer is on the CPU.
    fn prepare_step(&self) -> bool {
        match self.sharing.borrow_mut().as_mut() {
            Some(Sharing::Flat(flat)) => {
                if flat.zero.offload_optimizer.is_some() {
                    return true;
                }
                let checks = match flat.dtype {
                    Dtype::Float16 => true,
                    Dtype::Bfloat16 => flat.version.checks_bfloat16,
                    _ => false,
                };
                let own = flat
                    .parameters
                    .iter()
                    .map(|parameter| parameter.own)
                    .filter(|own| *own > 0);
                if checks && !flat.version.looks_at_extremes {
                    own.clone().for_each(|own| self.look_for_overflow(own, flat.dtype));
                }
                self.norms_of(own);
                false
            }
            Some(Sharing::Partitioned(partitioned)) => {
                partitioned.release_all(self);
                if partitioned.zero.offload_optimizer.is_some() {
                    return true;
                }
                if partitioned.dtype == Dtype::Float16 {
                    // `isinf` and `isnan` of all gradients, each a byte for a number; the first takes the magnitudes.
                    let elements = partitioned.own_elements();
                    let accumulates = partitioned.gradient_dtype();
                    let magnitudes = self.alloc(elements * accumulates.size(), Category::Temporary);
                    self.passing(elements);
                    self.release(magnitudes);
                    self.passing(elements);
                }
                for group in partitioned.sub_groups() {
                    self.norms_of(group.into_iter());
                }
                false
            }
            None => false,
        }
    }

    /// The gradient of a group's master weights, in their format.
    fn master_gradient(&self, number: usize) -> StorageId {
        match self.sharing.borrow_mut().as_mut() {
            Some(Sharing::Flat(flat)) => {
                let group = &flat.groups[number];
                let is_last = number + 1 == flat.groups.len();
                let of_group = flat
                    .parameters
                    .iter()
                    .filter(|parameter| parameter.group == number && parameter.own > 0);
                let pieces = of_group.count() + usize::from(group.padding > 0);
                let gradient = self.joined(pieces, group.share, flat.dtype, flat.zero.master_dtype);
                let sums = flat.parameters.iter_mut().filter(|parameter| parameter.group == number);
                sums.filter_map(|parameter| parameter.sum.take())
                    .for_each(|sum| self.release(sum));
                if is_last {
                    flat.sum.take().into_iter().for_each(|sum| self.release(sum));
                    flat.padding.drain(..).for_each(|padding| self.release(padding));
                }
                gradient
            }
            Some(Sharing::Partitioned(partitioned)) => partitioned.master_gradient(self, number),
            None => StorageId::NOWHERE,
        }
    }

    /// A gradient in the master weights' format, of pieces that are laid one after the other first.
    pub(super) fn joined(&self, pieces: usize, elements: u64, dtype: Dtype, master: Dtype) -> StorageId {
        let laid = (pieces > 1).then(|| self.alloc(elements * dtype.size(), Category::Gradient));
        if dtype == master {
            return laid.unwrap_or(StorageId::NOWHERE);
        }
        let converted = self.alloc(elements * master.size(), Category::Gradient);
        laid.into_iter().for_each(|laid| self.release(laid));
        converted
    }

    fn end_step(&self) {
        match self.sharing.borrow_mut().as_mut() {
            Some(Sharing::Flat(flat)) => {
                flat.norms.drain(..).for_each(|norm| self.release(norm));
            }
            Some(Sharing::Partitioned(partitioned)) => partitioned.end_step(self),
            None => {}
        }
    }

    /// The norm of so many numbers, of a copy in 64 bits.
    pub(super) fn norm(&self, elements: u64) -> StorageId {
        let copy = self.alloc(elements * DOUBLE, Category::Temporary);
        let norm = self.alloc(DOUBLE, Category::Temporary);
        self.release(copy);
        norm
    }

    /// The norms of gradients with so many numbers, and of all.
    fn norms_of(&self, gradients: impl Iterator<Item = u64>) {
        let norms: Vec<_> = gradients.map(|elements| self.norm(elements)).collect();
        let stacked = self.alloc(norms.len() as u64 * DOUBLE, Category::Temporary);
        norms.into_iter().for_each(|norm| self.release(norm));
        self.release(stacked);
    }

    /// `_has_inf_or_nan` of stages 1 and 2.
    pub(super) fn look_for_overflow(&self, elements: u64, dtype: Dtype) {
        let bytes = elements * Dtype::Float32.size();
        let numbers = (dtype != Dtype::Float32).then(|| self.alloc(bytes, Category::Temporary));
        let nan = self.alloc(elements, Category::Temporary);
        let magnitudes = self.alloc(bytes, Category::Temporary);
        let inf = self.alloc(elements, Category::Temporary);
        self.release(magnitudes);
        let either = self.alloc(elements, Category::Temporary);
        let as_numbers = self.alloc(bytes, Category::Temporary);
        let made = [as_numbers, either, inf, nan];
        made.into_iter()
            .chain(numbers)
            .for_each(|storage| self.release(storage));
    }
}
