//! The keys that are sizes in bytes.

/// True for the keys of budgets.
pub fn is_size(key: &str) -> bool {
    matches!(key, "device_memory" | "host_memory")
}
