//! Values that are made once and kept.

use std::collections::{HashMap, hash_map::Entry};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The value of a key, made at the first call; an error is not kept.
pub(super) fn cached<K: Eq + Hash, V: Clone, E>(
    made: &Mutex<HashMap<K, V>>,
    key: K,
    make: impl FnOnce() -> Result<V, E>,
) -> Result<V, E> {
    Ok(match lock(made).entry(key) {
        Entry::Occupied(known) => known.get().clone(),
        Entry::Vacant(new) => new.insert(make()?).clone(),
    })
}

/// The value of a key, made unless it is that of the last call; an error is not kept.
pub(super) fn cached_last<K: PartialEq, V, E>(
    last: &Mutex<Option<(K, Arc<V>)>>,
    key: K,
    make: impl FnOnce() -> Result<V, E>,
) -> Result<Arc<V>, E> {
    let mut last = lock(last);
    if let Some((known, value)) = &*last
        && *known == key
    {
        return Ok(Arc::clone(value));
    }
    let value = Arc::new(make()?);
    *last = Some((key, Arc::clone(&value)));
    Ok(value)
}

/// The value of a key, made at its first use. Threads that make the same one at once make it each.
pub(super) fn cached_apart<K: Eq + Hash + Clone, V: Clone>(
    made: &Mutex<HashMap<K, V>>,
    key: &K,
    make: impl FnOnce() -> V,
) -> V {
    if let Some(known) = lock(made).get(key) {
        return known.clone();
    }
    let value = make();
    lock(made).insert(key.clone(), value.clone());
    value
}

/// Locks a mutex; the entries are whole even if a thread panicked.
pub(super) fn lock<T>(behind: &Mutex<T>) -> MutexGuard<'_, T> {
    behind.lock().unwrap_or_else(PoisonError::into_inner)
}
