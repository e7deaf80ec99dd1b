//! The memory that the allocator and the process hold, in studies of the allocator.

use chart::{Bar, Bars, Colour, Part, Row};

use super::view::{ALLOCATED, Memory, PROCESS, RESERVED, View, few_enough};
use crate::group::Group;
use crate::labels::Labels;

/// Reserved and process memory of each group, if allocated memory is not what the study varies.
pub(super) fn allocator(view: &View<'_>) -> Result<Bars, String> {
    view.measured()?;
    if !view.sets_allocator() && view.varies(ALLOCATED) {
        return Err("the study does not vary the allocator".into());
    }
    let memories: Vec<Memory> = [RESERVED, PROCESS]
        .into_iter()
        .filter(|memory| view.varies(*memory))
        .collect();
    if memories.is_empty() {
        return Err("reserved and process memory are the same in all cells, within 2 %".into());
    }
    let columns: Vec<&str> = memories.iter().map(|memory| memory.column).collect();
    let shown = view.having(&columns);
    few_enough(&shown)?;
    let labels = Labels::new(&shown, view.axes);
    let row = |group: &&Group| {
        let name = labels.of(group);
        let bar = |(at, memory): (usize, &Memory)| {
            let bytes = view.value(group, memory.column).unwrap_or(0.0);
            Bar {
                start: 0.0,
                parts: vec![Part {
                    length: view.in_unit(bytes),
                    colour: Colour::Series(at),
                    says: format!("{name}: {} {}", memory.name.to_lowercase(), view.said(bytes)),
                }],
                note: view.said(bytes),
            }
        };
        Row {
            bars: memories.iter().enumerate().map(bar).collect(),
            label: name.clone(),
            carry: None,
        }
    };
    let named = |(at, memory): (usize, &Memory)| (memory.name.to_owned(), Colour::Series(at));
    Ok(Bars {
        title: view.title("Memory that the allocator and the process hold"),
        subtitle: view.subtitle(&format!("Each is the highest at any time.{}", labels.explained())),
        x_title: view.scale("Memory"),
        legend: memories.iter().enumerate().map(named).collect(),
        rows: shown.iter().map(row).collect(),
        line: constant_allocated(view, &shown),
    })
}

/// Allocated memory as a line, if it is the same in all groups.
fn constant_allocated(view: &View<'_>, shown: &[&Group]) -> Option<(f64, String)> {
    let bytes = view.value(shown.first()?, ALLOCATED.column)?;
    let is_same = shown
        .iter()
        .all(|group| view.value(group, ALLOCATED.column) == Some(bytes));
    is_same.then(|| {
        (
            view.in_unit(bytes),
            format!("allocated in all cells: {}", view.said(bytes)),
        )
    })
}
