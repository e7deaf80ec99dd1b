//! The partner in B of each cell of A.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexSet;
use results::datum::Datum;
use serde::Serialize;

use super::pair::MatchedPair;
use crate::axes::{key_columns, varies};
use crate::entry::Entry;

/// The matched and the unmatched cells of two studies.
#[derive(Debug)]
pub struct Comparison<'c> {
    /// The pairs in A's order.
    pub pairs: Vec<MatchedPair<'c>>,
    /// The numbers of pairs.
    pub matched: Matched,
    /// The cells of A without a partner.
    pub only_in_a: Vec<&'c Entry>,
    /// The cells of B without a partner.
    pub only_in_b: Vec<&'c Entry>,
}

/// The numbers of pairs by the way of matching.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Matched {
    /// Pairs with the same id.
    pub by_id: usize,
    /// Pairs with the same values of the keys that vary.
    pub by_axes: usize,
    /// The keys that vary in A or in B.
    pub axes: Vec<String>,
}

/// Matches cells by their ids, and the others by the keys that vary.
pub fn compare<'c>(a: &'c [Entry], b: &'c [Entry]) -> Comparison<'c> {
    let by_id: BTreeMap<&str, usize> = b
        .iter()
        .enumerate()
        .filter_map(|(i, cell)| Some((cell.text("cell_id")?, i)))
        .collect();
    let mut partners: Vec<Option<usize>> = a
        .iter()
        .map(|cell| cell.text("cell_id").and_then(|id| by_id.get(id)).copied())
        .collect();
    let mut matched = Matched {
        by_id: partners.iter().flatten().count(),
        ..Matched::default()
    };
    let taken: BTreeSet<usize> = partners.iter().flatten().copied().collect();
    let left_a: Vec<usize> = (0..a.len()).filter(|&i| partners[i].is_none()).collect();
    let left_b: Vec<usize> = (0..b.len()).filter(|i| !taken.contains(i)).collect();
    if !left_a.is_empty() && !left_b.is_empty() {
        let axes = varying(a, b);
        let place = |cells: &'c [Entry], left: &[usize]| unique(cells, left, &axes);
        let (places_a, places_b) = (place(a, &left_a), place(b, &left_b));
        for (values, i) in places_a {
            if let (Some(i), Some(Some(j))) = (i, places_b.get(&values)) {
                partners[i] = Some(*j);
                matched.by_axes += 1;
            }
        }
        matched.axes = axes;
    }
    let taken: BTreeSet<usize> = partners.iter().flatten().copied().collect();
    let pair = |(a, partner): (&'c Entry, &Option<usize>)| Some(MatchedPair { a, b: &b[(*partner)?] });
    Comparison {
        pairs: a.iter().zip(&partners).filter_map(pair).collect(),
        matched,
        only_in_a: a
            .iter()
            .zip(&partners)
            .filter(|(_, partner)| partner.is_none())
            .map(|(cell, _)| cell)
            .collect(),
        only_in_b: b
            .iter()
            .enumerate()
            .filter(|(i, _)| !taken.contains(i))
            .map(|(_, cell)| cell)
            .collect(),
    }
}

/// The keys that vary within either study, including the seed.
pub fn varying(a: &[Entry], b: &[Entry]) -> Vec<String> {
    let mut keys: IndexSet<String> = key_columns(a).into_iter().chain(key_columns(b)).collect();
    keys.insert("seed".into());
    keys.into_iter()
        .filter(|key| varies(a, key) || varies(b, key))
        .collect()
}

/// The cells by their values; `None` if several share them.
fn unique(cells: &[Entry], left: &[usize], axes: &[String]) -> BTreeMap<Vec<String>, Option<usize>> {
    let mut places = BTreeMap::new();
    for &i in left {
        let values: Vec<String> = axes.iter().map(|axis| identity(cells[i].get(axis))).collect();
        places
            .entry(values)
            .and_modify(|there| *there = None)
            .or_insert(Some(i));
    }
    places
}

/// A text that only equal values share.
fn identity(value: &Datum) -> String {
    format!("{value:?}")
}
