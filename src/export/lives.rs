//! Each allocation from its beginning to its end.

use crate::memory::event::Kind;
use crate::memory::{Category, Phase};
use crate::results::timeline::{Allocation, Recording, Shape, State};

/// An allocation at one place and of one size: where it is resized or moved, another one begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Life {
    pub address: u64,
    pub bytes: u64,
    /// The last: it may be made as a temporary and kept as an activation.
    pub category: Category,
    pub module: u16,
    pub shape: Option<Shape>,
    /// In which it was made.
    pub phase: Phase,
}

/// The beginning or the end of the life with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub nanos: u64,
    pub life: usize,
    pub begins: bool,
}

/// All lives, and their beginnings and ends in the order of time. What lives at the end of the recording has no end.
pub fn lives(recording: &Recording) -> (Vec<Life>, Vec<Turn>) {
    let mut state = State::new(&recording.names);
    let mut lives: Vec<Life> = Vec::new();
    let mut turns = Vec::new();
    // By the allocation's number, the number of its present life.
    let mut present: Vec<usize> = Vec::new();
    for event in &recording.events {
        let before = match event.kind {
            Kind::Free | Kind::Resize | Kind::Relabel => state.live.get(&event.address).cloned(),
            Kind::Move => state.last_resized(),
            _ => None,
        };
        // `read` has replayed all events.
        if state.apply(event).is_err() {
            break;
        }
        let after = state.live.get(&event.address);
        if let Some(before) = &before
            && ends(event.kind, before, after)
        {
            let life = present[before.number as usize];
            // What it became known as while it lived.
            lives[life] = Life {
                category: before.category,
                module: before.module,
                shape: before.shape.clone(),
                ..lives[life].clone()
            };
            turns.push(Turn {
                nanos: event.nanos,
                life,
                begins: false,
            });
        }
        let Some(after) = after else { continue };
        let begins = match event.kind {
            Kind::Alloc | Kind::Move => true,
            Kind::Resize => before.is_some_and(|before| before.bytes != after.bytes),
            Kind::Relabel => before.is_none(),
            _ => false,
        };
        if begins {
            let number = after.number as usize;
            present.resize(present.len().max(number + 1), 0);
            present[number] = lives.len();
            turns.push(Turn {
                nanos: event.nanos,
                life: lives.len(),
                begins: true,
            });
            lives.push(Life {
                address: event.address,
                bytes: after.bytes,
                category: after.category,
                module: after.module,
                shape: after.shape.clone(),
                phase: state.phase,
            });
        }
    }
    for allocation in state.live.values() {
        let life = &mut lives[present[allocation.number as usize]];
        (life.category, life.module) = (allocation.category, allocation.module);
        life.shape.clone_from(&allocation.shape);
    }
    (lives, turns)
}

/// Whether an event ends what was there before it.
fn ends(kind: Kind, before: &Allocation, after: Option<&Allocation>) -> bool {
    match kind {
        Kind::Free | Kind::Move => true,
        Kind::Resize => after.is_some_and(|after| after.bytes != before.bytes),
        Kind::Relabel => after.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_life_has_its_last_label_and_ends_where_it_is_resized() {
        let recording = sample::recording();
        let (lives, turns) = lives(&recording);
        let seen: Vec<_> = lives
            .iter()
            .map(|life| (life.address, life.bytes, life.category))
            .collect();
        assert_eq!(
            seen,
            [
                (0x1000, 4096, Category::Parameter),
                (0x3000, 48, Category::Activation),
                (0x4000, 100, Category::Temporary),
                (0x4000, 160, Category::Temporary),
                (0x5000, 160, Category::Temporary),
            ]
        );
        assert_eq!(
            lives[1].shape.as_ref().map(ToString::to_string).as_deref(),
            Some("[4, 3]")
        );
        let order: Vec<_> = turns.iter().map(|turn| (turn.life, turn.begins)).collect();
        assert_eq!(
            order,
            [
                (0, true),
                (1, true),
                (2, true),
                (2, false),
                (3, true),
                (3, false),
                (4, true),
                (4, false),
                (1, false),
            ]
        );
    }
}
