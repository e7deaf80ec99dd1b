//! What each key moves, as its `acts` say: in a plan and in a run of our trainer, and in a plan of PyTorch's stack.
#![cfg(target_os = "linux")]
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by a panic")]
#![expect(unreachable_pub, reason = "the modules of a suite share their items")]

#[path = "../common/mod.rs"]
mod common;
mod files;
mod moved;
mod tries;

use std::collections::BTreeSet;
use std::thread;

use expctl::cell::acts::{Act, Move};
use expctl::cell::{Facts, Stack};

use tries::Tries;

/// Every key with one of its acts.
fn acts() -> impl Iterator<Item = (String, &'static Act)> {
    let all = Facts::all().into_iter().filter(|(_, facts)| facts.untried.is_none());
    all.flat_map(|(key, facts)| facts.acts.iter().map(move |act| (key.clone(), act)))
}

/// Tries every act of a stack, and fails by those that do not move what they name.
fn hold(stack: Stack) {
    let acts: Vec<_> = acts().collect();
    // A run waits more than it computes.
    let breaches: Vec<String> = thread::scope(|scope| {
        let parts = acts.chunks(acts.len().div_ceil(4));
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || breaches(stack, part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(breaches.is_empty(), "on {}:\n{}", stack.name(), breaches.join("\n"));
}

fn breaches(stack: Stack, acts: &[(String, &Act)]) -> Vec<String> {
    let mut tries = Tries::new(stack);
    let mut breaches = Vec::new();
    for (key, act) in acts {
        let Some(named) = act.moves_of(stack) else { continue };
        // No test holds time; that the cell is planned and trained is all there is to try.
        let named: Vec<Move> = named.iter().copied().filter(|named| *named != Move::Time).collect();
        let breach = match moved(&mut tries, key, act, &named) {
            Ok(moved) if named.iter().all(|named| moved.contains(named)) => continue,
            Ok(moved) => format!("moves {moved:?}, not {named:?}"),
            Err(error) => error,
        };
        breaches.push(format!("{key}: {act:?}\n{breach}"));
    }
    breaches
}

/// What an act moves: in plans, and in runs if plans do not show all that it names.
fn moved(tries: &mut Tries, key: &str, act: &Act, named: &[Move]) -> Result<BTreeSet<Move>, String> {
    let [base, changed] = tries.cells(act, key);
    let mut moved = moved::in_plans(&tries.plan(&base)?, &tries.plan(&changed)?);
    let is_shown = named.iter().all(|named| moved.contains(named));
    if !is_shown && tries.stack() == Stack::Candle {
        moved.extend(moved::in_runs(&tries.run(&base)?, &tries.run(&changed)?));
    }
    Ok(moved)
}

#[test]
fn every_key_of_our_trainer_moves_what_it_names() {
    hold(Stack::Candle);
}

#[test]
fn every_key_of_pytorchs_stack_moves_what_it_names() {
    hold(Stack::Torch);
}

/// A key by which no plan of PyTorch's stack moves says so, and is right.
#[test]
fn facts_of_training_move_no_plan() {
    let mut tries = Tries::new(Stack::Torch);
    let mut breaches = Vec::new();
    // A cell that is planned alone refuses keys of engines.
    let is_planned = |facts: &Facts| facts.of_training && facts.idle.is_none_or(|idle| idle.by != "stack");
    for (key, facts) in Facts::all().into_iter().filter(|(_, facts)| is_planned(facts)) {
        for act in facts.acts {
            match moved(&mut tries, &key, act, &[]) {
                Ok(moved) if moved.is_empty() => {}
                Ok(moved) => breaches.push(format!("{key}: {act:?} moves {moved:?}")),
                Err(error) => breaches.push(format!("{key}: {act:?}\n{error}")),
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}
