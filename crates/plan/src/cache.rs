//! Values that are made once and kept, by a hash of what they are made from.

use std::collections::{HashMap, hash_map::Entry};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// A hash of all that a value is made from: whole options, so that no key of a cell is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// The hash of everything that `inputs` has, as its derived `Debug` lists it.
    pub(super) fn of(inputs: &impl fmt::Debug) -> Self {
        struct Hashed(Sha256);

        impl fmt::Write for Hashed {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.update(text.as_bytes());
                Ok(())
            }
        }

        let mut hashed = Hashed(Sha256::new());
        // Writing into a hash cannot fail.
        let _ = fmt::write(&mut hashed, format_args!("{inputs:?}"));
        Self(hashed.0.finalize().into())
    }
}

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
