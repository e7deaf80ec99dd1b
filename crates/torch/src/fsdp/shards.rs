//! What the optimizer has of a sharded model.

use trace::Category;

use super::{Unit, Units};
use crate::groups::Groups;
use crate::layout::Layout;
use crate::tape::{Tape, Tensor};
use crate::view::{Target, UnitId};

impl Tape {
    /// The parameters as the optimizer of the first rank sees them, whose shards are the fullest: the shards of what is
    /// trained, or each parameter's part of them. They lie in the shards.
    pub(crate) fn sharded<'t>(&'t self, trainable: &Groups<'t>) -> Groups<'t> {
        let units = self.units.borrow();
        let Some(units) = units.as_ref() else {
            return Groups::new(false);
        };
        match units.fsdp.use_orig_params || units.fsdp.per_parameter {
            true => trainable.filter_map(|parameter| units.part(self, parameter)),
            false => {
                let mut shards = Groups::new(false);
                for unit in units.in_order_of_modules().filter(|unit| unit.trains) {
                    let layout = Layout::row(unit.shard_elements);
                    shards.push(self.weight(layout, unit.dtype, Category::Parameter), "weight");
                }
                shards
            }
        }
    }
}

impl Units {
    /// A module's own shard comes before those of the modules in it.
    fn in_order_of_modules(&self) -> impl Iterator<Item = &Unit> {
        let place = |id: UnitId| usize::from(id.0);
        let root = place(self.root);
        let mut order = vec![root];
        let mut first = 0;
        for block in self.blocks.iter().copied().map(place) {
            order.push(block);
            order.extend(first..block);
            first = block + 1;
        }
        order.extend(first..root);
        order.into_iter().map(|place| &self.units[place])
    }

    /// The part of a parameter that lies in the first rank's shard, if any.
    fn part<'t>(&self, tape: &'t Tape, parameter: &Tensor<'t>) -> Option<Tensor<'t>> {
        let Target::Leaf(leaf) = parameter.view.edge.target() else {
            return None;
        };
        if self.fsdp.per_parameter {
            let parameters = self.units.iter().flat_map(|unit| &unit.parameters);
            let of = parameters.clone().find(|parameter| parameter.leaf == Some(leaf))?;
            let layout = match *parameter.dims() {
                [rows, columns] => Layout::contiguous(&[rows.div_ceil(self.fsdp.ranks as u32), columns]),
                _ => Layout::row(of.shard_elements),
            };
            return Some(tape.weight(layout, of.dtype, Category::Parameter));
        }
        let id = tape.graph.borrow().leaves[leaf].unit?;
        let unit = &self.units[usize::from(id.0)];
        let before = unit.parameters.iter().take_while(|other| other.leaf != Some(leaf));
        let begin: u64 = before.map(|other| other.elements).sum();
        let end = begin + parameter.numel();
        let elements = end
            .min(unit.shard_elements)
            .checked_sub(begin)
            .filter(|&elements| elements > 0)?;
        let layout = Layout::row(elements);
        Some(tape.weight(layout, unit.dtype, Category::Parameter))
    }
}
