//! The keys of adapters.

use super::super::heeds::ADAPTER;
use super::super::{Adapter, Cell, TargetModules, stacks};
use super::found::Found;
use super::invalid::{Invalid, at_most, number};
use crate::arch::check;
use crate::text::did_you_mean;
use crate::text::{nearest, quoted};

impl Cell {
    pub(super) fn check_adapter(&self, found: &mut Found) {
        if self.rank == 0 && self.dtype.is_quantised() {
            found.add(
                Invalid::new(
                    "rank",
                    "rank 0 trains every weight, and quantised weights cannot be trained",
                )
                .with("dtype")
                .help("use `rank: 1` or more, or a `dtype` of float32, float16 or bfloat16"),
            );
        }
        found.check(at_most("rank", self.rank, 1 << 16));
        if let Some(alpha) = self.lora_alpha {
            found.check(number(
                "lora_alpha",
                alpha,
                alpha > 0.0 && alpha <= 1e6,
                "more than 0 and at most 1e6",
            ));
        }
        let dropout = self.lora_dropout;
        found.check(number(
            "lora_dropout",
            dropout,
            (0.0..1.0).contains(&dropout),
            "at least 0 and less than 1",
        ));
        if self.adapter == Adapter::Dora && dropout > 0.0 {
            found.add(
                Invalid::new(
                    "lora_dropout",
                    "DoRA is not trained with dropout yet: PEFT then needs a second product with the weight",
                )
                .with("adapter")
                .help("leave the key out, or use `adapter: lora`"),
            );
        }
        if self.rank == 0 {
            self.check_no_adapter(found);
        }
        let TargetModules::Names(names) = &self.target_modules else {
            return;
        };
        if names.is_empty() {
            found.add(Invalid::new("target_modules", "the list is empty").help("`rank: 0` trains without adapters"));
        }
        let modules = check::target_modules(self.stack, self.task);
        for (index, name) in names.iter().enumerate() {
            let invalid = |message| Invalid::new(format!("target_modules[{index}]"), message);
            if !modules.contains(&name.as_str()) {
                let near = nearest(name, modules.iter().copied()).map(did_you_mean);
                let help = near.unwrap_or_else(|| format!("the modules are {}", modules.join(", ")));
                found.add(invalid(format!("{} is not a linear layer of this model", quoted(name))).help(help));
            }
            if names[..index].contains(name) {
                found.add(invalid(format!("`{name}` is here twice")));
            }
        }
    }

    /// Without adapters their keys would do nothing.
    fn check_no_adapter(&self, found: &mut Found) {
        let (keys, defaults) = (self.to_map(), Cell::default().to_map());
        // A key of the other stack is a mistake of its own.
        let in_stack = |key: &&str| stacks(key).contains(&self.stack);
        let given = ADAPTER
            .into_iter()
            .filter(in_stack)
            .filter(|key| keys.get(*key) != defaults.get(*key));
        for key in given {
            found.add(
                Invalid::new(key, "rank 0 trains every weight and has no adapter")
                    .with("rank")
                    .help("leave the key out, or use `rank: 1` or more"),
            );
        }
    }
}
