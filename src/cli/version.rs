//! `expctl --version`.

use std::sync::LazyLock;

use runner::sources;

/// The target that this build is for, as rustc names it.
const TARGET: &str = env!("BUILT_FOR_TARGET");
/// The features of Cargo.toml that this build has.
const FEATURES: &[&str] = if cfg!(feature = "cuda") { &["cuda"] } else { &[] };

/// The version and, in brackets, what was built: the sources, the target and the features.
pub(super) fn line() -> &'static str {
    static LINE: LazyLock<String> = LazyLock::new(|| {
        let version = env!("CARGO_PKG_VERSION");
        let sources = sources().unwrap_or("unknown");
        format!(
            "{version} (sources {sources}, {TARGET}, features: {})",
            listed(FEATURES)
        )
    });
    &LINE
}

fn listed(features: &[&str]) -> String {
    if features.is_empty() {
        "none".to_owned()
    } else {
        features.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_named() {
        assert_eq!(listed(&[]), "none");
        assert_eq!(listed(&["cuda", "other"]), "cuda other");
    }

    #[test]
    fn the_line_names_what_was_built() {
        let (version, built) = line().split_once(" (").unwrap();
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        let parts: Vec<&str> = built.strip_suffix(')').unwrap().split(", ").collect();
        assert_eq!(parts.len(), 3, "{built}");
        assert!(parts[1].starts_with(std::env::consts::ARCH), "{built}");
        assert_eq!(parts[2] == "features: none", !cfg!(feature = "cuda"), "{built}");
    }
}
