//! The lifetime of each allocation.

use results::timeline::{Allocation, Recording, Shape, State};
use trace::recording::Kind;
use trace::{Category, Phase};

/// An allocation at one address and of one size. A resize or a move begins another lifetime.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lifetime {
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// The last label: a temporary may become an activation.
    pub(super) category: Category,
    /// The number of the module.
    pub(super) module: u16,
    pub(super) shape: Option<Shape>,
    /// The phase at its beginning.
    pub(super) phase: Phase,
}

/// The beginning or the end of a lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) nanos: u64,
    /// The lifetime's index.
    pub(super) lifetime: usize,
    pub(super) begins: bool,
}

/// All lifetimes, and their endpoints in the order of time. An allocation that is live at the end of the recording has
/// no end.
pub(super) fn lifetimes(recording: &Recording) -> (Vec<Lifetime>, Vec<Endpoint>) {
    let mut state = State::new(&recording.names);
    let mut lifetimes: Vec<Lifetime> = Vec::new();
    let mut endpoints = Vec::new();
    // The index of the present lifetime, by the allocation's number.
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
            let lifetime = present[before.number as usize];
            // Labels may have changed during the lifetime.
            lifetimes[lifetime] = Lifetime {
                category: before.category,
                module: before.module,
                shape: before.shape.clone(),
                ..lifetimes[lifetime].clone()
            };
            endpoints.push(Endpoint {
                nanos: event.nanos,
                lifetime,
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
            present[number] = lifetimes.len();
            endpoints.push(Endpoint {
                nanos: event.nanos,
                lifetime: lifetimes.len(),
                begins: true,
            });
            lifetimes.push(Lifetime {
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
        let lifetime = &mut lifetimes[present[allocation.number as usize]];
        (lifetime.category, lifetime.module) = (allocation.category, allocation.module);
        lifetime.shape.clone_from(&allocation.shape);
    }
    (lifetimes, endpoints)
}

/// True if an event ends the lifetime before it.
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
        let (lifetimes, endpoints) = lifetimes(&recording);
        let seen: Vec<_> = lifetimes
            .iter()
            .map(|lifetime| (lifetime.address, lifetime.bytes, lifetime.category))
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
            lifetimes[1].shape.as_ref().map(ToString::to_string).as_deref(),
            Some("[4, 3]")
        );
        let order: Vec<_> = endpoints
            .iter()
            .map(|endpoint| (endpoint.lifetime, endpoint.begins))
            .collect();
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
