//! The process: device, threads, allocator and environment.

use base::text::{Mistake, counted, did_you_mean, quoted};

use super::super::{AllocatorBackend, Cell, Device, Engine, InstructionSetChoice, Measure, Stack};
use super::found::Found;
use super::stack::PYTORCH_VARIABLES;
use options::invalid::{Checked, Invalid, at_least, at_most};

/// More threads than machines have cores; far more hang.
const MOST_THREADS: usize = 512;

/// Variables that the run sets, each with the key that says to what.
const RUN_VARIABLES: [(&str, &str); 3] = [
    ("RAYON_NUM_THREADS", "threads"),
    ("CANDLE_NUM_THREADS", "threads"),
    ("CELL_ALLOCATOR", "allocator.backend"),
];

/// Prefixes of variables that only one backend reads.
const BACKEND_VARIABLES: [(&str, AllocatorBackend); 3] = [
    ("MALLOC_", AllocatorBackend::System),
    ("GLIBC_TUNABLES", AllocatorBackend::System),
    ("MIMALLOC_", AllocatorBackend::Mimalloc),
];

impl Cell {
    pub(super) fn check_process(&self, found: &mut Found) {
        let name = self.device_name();
        let is_found_out = name == Device::AUTO && self.engine() == Some(Engine::Python);
        if self.device().is_none() && !is_found_out {
            let message = format!("{} is not a device; a device is `cpu` or `cuda:N`", quoted(name));
            let help = match name {
                Device::AUTO => Some("our trainer finds no GPU by itself; write `cuda:0`".to_owned()),
                "cuda" | "gpu" => Some(did_you_mean("cuda:0")),
                _ => None,
            };
            found.add(Invalid::of("device", Mistake::new(message).help_if(help)));
        }
        let on_cpu = self.device() == Some(Device::Cpu);
        if self.device_memory.is_some() && self.engine() == Some(Engine::Python) && on_cpu {
            let message = "PyTorch keeps no budget of the CPU's memory";
            let invalid = Invalid::new("device_memory", message).with("device");
            found.add(invalid.help("leave the key out for no budget"));
        }
        if self.device_memory.is_some() && self.engine() == Some(Engine::Candle) && !on_cpu {
            found.add(
                Invalid::new("device_memory", "a budget is kept on the cpu only so far")
                    .with("device")
                    .help("leave the key out for no budget"),
            );
        }
        if let Some(threads) = self.threads {
            found.check(at_least("threads", threads, 1));
            found.check(at_most("threads", threads, MOST_THREADS));
        }
        if self.instruction_set != InstructionSetChoice::Auto && self.device() != Some(Device::Cpu) {
            found.add(
                Invalid::idle("instruction_set", "the kernels that have one are for the cpu")
                    .with("device")
                    .help("leave the key out"),
            );
        }
        self.check_empty_cache(found);
        for (map, env) in [("env", &self.env), ("allocator.env", &self.allocator.env)] {
            for (name, value) in env {
                found.check(check_variable(map, name, value.as_deref()));
                found.check(self.check_reader(map, name, value.is_some()));
            }
        }
        for name in self.env.keys().filter(|name| self.allocator.env.contains_key(*name)) {
            let message = format!("{} is in allocator.env as well", quoted(name));
            found.add(Invalid::new(format!("env.{name}"), message).with("allocator"));
        }
    }

    /// A cache that cannot be returned, that is kept on purpose, or whose turn does not come is not emptied.
    fn check_empty_cache(&self, found: &mut Found) {
        if self.empty_cache_steps == 0 {
            return;
        }
        if self.stack == Stack::Candle {
            self.check_cache(found);
        }
        // The number of steps of epochs follows from the data.
        let steps = self.max_steps().filter(|_| self.measure == Measure::Epoch);
        if let Some(steps) = steps.filter(|&steps| steps < self.empty_cache_steps) {
            let message = format!(
                "the training has {}, so the cache would never be returned",
                counted(steps, "step")
            );
            let invalid = Invalid::idle("empty_cache_steps", message).with("max_steps");
            found.add(invalid.help(format!("write {steps} or less, or leave the key out")));
        }
    }

    /// The cache of our trainer's allocator.
    fn check_cache(&self, found: &mut Found) {
        if self.device() != Some(Device::Cpu) {
            found.add(
                Invalid::idle("empty_cache_steps", "candle keeps no cache of a GPU's memory")
                    .with("device")
                    .help("leave the key out"),
            );
        } else if self.backend() == AllocatorBackend::Retain {
            let message = "the allocator `retain` keeps freed pages on purpose";
            let invalid = Invalid::idle("empty_cache_steps", message);
            let invalid = match self.allocator.backend {
                Some(_) => invalid.with("allocator.backend"),
                None => invalid,
            };
            found.add(invalid.help("use `allocator.backend: system` or `mimalloc`"));
        }
    }

    /// Checks that the cell's allocator reads this variable, if any allocator does.
    fn check_reader(&self, map: &str, name: &str, is_set: bool) -> Checked {
        let reader = BACKEND_VARIABLES.iter().find(|(prefix, _)| name.starts_with(prefix));
        match reader {
            _ if PYTORCH_VARIABLES.contains(&name) && self.stack == Stack::Candle => match is_set {
                true => Err(
                    Invalid::idle(format!("{map}.{name}"), "the candle stack has no such allocator")
                        .with("stack")
                        .help("leave it out, or use `stack: torch`"),
                ),
                false => Ok(()),
            },
            Some((_, reader)) if is_set && *reader != self.backend() && self.stack == Stack::Candle => {
                let (backend, reader) = (self.backend().name(), reader.name());
                let message = format!("the allocator `{backend}` does not heed this variable");
                let invalid = Invalid::idle(format!("{map}.{name}"), message);
                let invalid = invalid.help(format!("set `allocator.backend: {reader}`"));
                Err(match self.allocator.backend {
                    Some(_) => invalid.with("allocator.backend"),
                    None => invalid,
                })
            }
            None if map == "allocator.env" && self.stack == Stack::Candle => {
                let invalid = Invalid::idle(format!("{map}.{name}"), "no allocator reads this variable").with("stack");
                Err(invalid.help("set it under `env`; allocators read MALLOC_…, GLIBC_TUNABLES and MIMALLOC_…"))
            }
            _ => Ok(()),
        }
    }
}

fn check_variable(map: &str, name: &str, value: Option<&str>) -> Checked {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(Invalid::new(
            map,
            format!("{} cannot be the name of an environment variable", quoted(name)),
        ));
    }
    if let Some((_, key)) = RUN_VARIABLES.iter().find(|(variable, _)| *variable == name) {
        return Err(
            Invalid::new(format!("{map}.{name}"), "the trainer sets this variable itself").help(format!("use `{key}`")),
        );
    }
    if value.is_some_and(|value| value.contains('\0')) {
        return Err(Invalid::new(
            format!("{map}.{name}"),
            "an environment variable cannot hold a NUL character",
        ));
    }
    Ok(())
}
