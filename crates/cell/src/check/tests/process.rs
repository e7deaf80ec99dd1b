//! What the keys of a cell's process are refused for.

use super::refused;
use crate::{AllocatorBackend, Cell, InstructionSet, InstructionSetChoice};

#[test]
fn a_variable_has_one_name_and_one_place() {
    let set = |cell: &mut Cell, name: &str| _ = cell.env.insert(name.into(), Some("x".into()));
    assert_eq!(refused(|cell| set(cell, "A=B")).as_deref(), Some("env"));
    assert_eq!(refused(|cell| set(cell, "")).as_deref(), Some("env"));
    let twice = |cell: &mut Cell| {
        cell.allocator.backend = Some(AllocatorBackend::System);
        set(cell, "MALLOC_ARENA_MAX");
        cell.allocator.env.insert("MALLOC_ARENA_MAX".into(), None);
    };
    assert_eq!(refused(twice).as_deref(), Some("env.MALLOC_ARENA_MAX"));
}

#[test]
fn a_variable_is_for_the_allocator_that_reads_it() {
    let with = |backend, name: &str, value: Option<&str>| {
        refused(|cell| {
            cell.allocator.backend = backend;
            cell.allocator.env.insert(name.into(), value.map(Into::into));
        })
    };
    let (malloc, mimalloc) = ("MALLOC_ARENA_MAX", "MIMALLOC_PURGE_DELAY");
    assert_eq!(with(Some(AllocatorBackend::System), malloc, Some("1")), None);
    assert_eq!(with(Some(AllocatorBackend::Mimalloc), mimalloc, Some("0")), None);
    for (backend, name) in [
        (Some(AllocatorBackend::Retain), malloc),
        (Some(AllocatorBackend::Mimalloc), malloc),
        (Some(AllocatorBackend::System), mimalloc),
        (None, mimalloc),
    ] {
        let key = format!("allocator.env.{name}");
        assert_eq!(with(backend, name, Some("1")), Some(key), "{backend:?}");
        assert_eq!(with(backend, name, None), None, "nobody minds what is not set");
    }
    for value in [None, Some("1")] {
        assert_eq!(with(None, "FOO", value).as_deref(), Some("allocator.env.FOO"));
    }
    assert_eq!(with(None, "PYTORCH_ALLOC_CONF", None), None);
    let plain = |cell: &mut Cell| {
        cell.allocator.backend = Some(AllocatorBackend::Retain);
        cell.env.insert("MALLOC_TOP_PAD_".into(), Some("0".into()));
    };
    assert_eq!(refused(plain).as_deref(), Some("env.MALLOC_TOP_PAD_"));
}

#[test]
fn an_instruction_set_is_the_cpus() {
    let on = |device: &str, level| refused(|cell| (cell.device, cell.instruction_set) = (Some(device.into()), level));
    assert_eq!(on("cpu", InstructionSetChoice::Level(InstructionSet::Amx)), None);
    assert_eq!(on("cuda:0", InstructionSetChoice::Auto), None);
    assert_eq!(
        on("cuda:0", InstructionSetChoice::Level(InstructionSet::Portable)).as_deref(),
        Some("instruction_set")
    );
}
