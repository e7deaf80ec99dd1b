//! `expctl --version`.

use std::sync::LazyLock;

use runner::git_commit;

/// The target that this build is for, as rustc names it.
const TARGET: &str = env!("BUILT_FOR_TARGET");
/// The features of Cargo.toml that this build has.
const FEATURES: &[&str] = if cfg!(feature = "cuda") { &["cuda"] } else { &[] };

/// The version and, in brackets, what was built: the commit, the target and the features.
pub(super) fn line() -> &'static str {
    static LINE: LazyLock<String> = LazyLock::new(|| {
        let version = env!("CARGO_PKG_VERSION");
        let commit = git_commit().map_or_else(|| "no commit".to_owned(), short);
        format!("{version} ({commit}, {TARGET}, features: {})", listed(FEATURES))
    });
    &LINE
}

/// The first digits of a commit, and its mark if files had changed.
fn short(commit: &str) -> String {
    let (hash, mark) = commit.split_at(commit.find('-').unwrap_or(commit.len()));
    format!("{}{mark}", &hash[..hash.len().min(8)])
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
    fn a_commit_is_shortened_and_keeps_its_mark() {
        assert_eq!(short("a945503f6f0c1d2e3f40516273849506172839ab"), "a945503f");
        assert_eq!(
            short("a945503f6f0c1d2e3f40516273849506172839ab-dirty"),
            "a945503f-dirty"
        );
        assert_eq!(short("a945"), "a945");
    }

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
