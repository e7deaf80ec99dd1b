//! The change of memory by each change of a study that makes one at a time.

use base::text::format;
use chart::{Bar, Bars, Colour, Part, Row};

use super::view::{ALLOCATED, Memory, RESERVED, View};
use crate::change::{self, Order};
use crate::group::Group;

/// Bars from the first total over each change; to the last total, if changes are cumulative.
pub(super) fn waterfall(view: &View<'_>) -> Result<Bars, String> {
    view.memory()?;
    let shown: Vec<&Group> = view.groups.iter().collect();
    let (order, changed) = change::changes(&shown).ok_or("the study does not change one key at a time")?;
    let memory = memory(view, &shown, order);
    let bytes = |group: &Group| view.value(group, memory.column);
    if shown.iter().any(|group| bytes(group).is_none()) {
        return Err(format!(
            "{} memory is not known of every cell",
            memory.name.to_lowercase()
        ));
    }
    let known = |group: &Group| bytes(group).unwrap_or(0.0);
    let mut rows = vec![total(
        view,
        if order == Order::Cumulative { "start" } else { "base" },
        known(shown[0]),
    )];
    for (at, axes) in changed.iter().enumerate() {
        let from = shown[match order {
            Order::Cumulative => at,
            Order::FromBase => 0,
        }];
        let to = shown[at + 1];
        rows.push(step(
            view,
            &change::words(from, to, axes),
            known(from),
            known(to),
            order,
        ));
    }
    if order == Order::Cumulative {
        rows.extend(shown.last().map(|last| total(view, "end", known(last))));
    }
    if let Some(last) = rows.last_mut() {
        last.carry = None;
    }
    let subtitle = match order {
        Order::Cumulative => "Each row makes one more change, and keeps those above it.",
        Order::FromBase => "Each row makes one change to the base.",
    };
    Ok(Bars {
        title: view.title(&format!("{} memory, one change at a time", memory.name)),
        subtitle: view.subtitle(subtitle),
        x_title: view.scale(memory.name),
        legend: vec![
            ("total".into(), Colour::Total),
            ("less".into(), Colour::Less),
            ("more".into(), Colour::More),
        ],
        rows,
        line: None,
    })
}

/// The part of reserved memory that a change must move, for a chart to be about that memory.
const MOVED: f64 = 0.02;

/// The memory that shows the changes: allocated, unless one of them is about reserved memory. It is if it sets the
/// allocator, or moves reserved memory alone by more than a fiftieth.
fn memory(view: &View<'_>, shown: &[&Group], order: Order) -> Memory {
    let is_reserved_alone = |at: usize| {
        let before = shown[if order == Order::Cumulative { at } else { 0 }];
        let moved = |memory: Memory| {
            let value = |group| view.value(group, memory.column);
            let (before, after) = value(before).zip(value(shown[at + 1])).unwrap_or_default();
            (after - before).abs() / before.max(1.0)
        };
        moved(ALLOCATED) == 0.0 && moved(RESERVED) > MOVED
    };
    let has_reserved = view.having(&[RESERVED.column]).len() == shown.len();
    if has_reserved && view.varies(RESERVED) && (view.sets_allocator() || (0..shown.len() - 1).any(is_reserved_alone)) {
        RESERVED
    } else {
        ALLOCATED
    }
}

fn total(view: &View<'_>, label: &str, bytes: f64) -> Row {
    Row {
        label: label.into(),
        bars: vec![Bar {
            start: 0.0,
            parts: vec![Part {
                length: view.in_unit(bytes),
                colour: Colour::Total,
                says: format!("{label}: {}", view.said(bytes)),
            }],
            note: view.said(bytes),
        }],
        carry: Some(view.in_unit(bytes)),
    }
}

fn step(view: &View<'_>, label: &str, from: f64, to: f64, order: Order) -> Row {
    let rise = to - from;
    let sign = if rise < 0.0 { "−" } else { "+" };
    let share = 100.0 * rise.abs() / from.max(1.0);
    let decimals = if share < 10.0 { 1 } else { 0 };
    let note = if rise == 0.0 {
        "no change".to_owned()
    } else {
        format!(
            "{sign}{} ({sign}{} %)",
            view.said(rise.abs()),
            format::number(share.into(), decimals)
        )
    };
    Row {
        label: label.into(),
        bars: vec![Bar {
            start: view.in_unit(from.min(to)),
            parts: vec![Part {
                length: view.in_unit(rise.abs()),
                colour: if rise < 0.0 { Colour::Less } else { Colour::More },
                says: format!("{label}: {} to {}, {note}", view.said(from), view.said(to)),
            }],
            note,
        }],
        carry: Some(view.in_unit(match order {
            Order::Cumulative => to,
            Order::FromBase => from,
        })),
    }
}
