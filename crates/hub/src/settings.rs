//! The hub's settings, from the variables that Python's `huggingface_hub` reads as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the hub is, where its files are kept, and who asks.
#[derive(Clone)]
pub struct Settings {
    /// The server, without a slash at its end.
    pub endpoint: String,
    /// The folder of `models--owner--name` and its like.
    pub cache: PathBuf,
    /// The token of gated and private repositories. It is sent to the endpoint alone.
    pub token: Option<String>,
    /// Reads the cache alone.
    pub offline: bool,
    /// Times and counts.
    pub patience: Patience,
}

/// How long a server and other processes are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Attempts in a row that bring nothing.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles from there.
    pub first_wait: Duration,
    /// The longest wait, also for a server that asks for more.
    pub longest_wait: Duration,
    /// The longest time until a connection stands.
    pub connect: Duration,
    /// The longest silence of a server.
    pub silence: Duration,
    /// The longest time without progress of another process that downloads the same file.
    pub lock: Duration,
    /// The time without growth after which a part is one that a process left.
    pub quiet: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 6,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(120),
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            lock: Duration::from_secs(120),
            quiet: Duration::from_secs(2),
        }
    }
}

impl Settings {
    /// The settings of this process' environment: `HF_ENDPOINT`, `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, `HF_HOME`,
    /// `XDG_CACHE_HOME`, `HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_DISABLE_IMPLICIT_TOKEN`,
    /// `HF_HUB_OFFLINE` and `TRANSFORMERS_OFFLINE`.
    pub fn from_environment() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let user = text("HOME")
            .map(PathBuf::from)
            .or_else(std::env::home_dir)
            .unwrap_or_default();
        let path = |name: &str| text(name).map(|path| expand(&path, &user, &variable));
        let is_true = |value: String| matches!(value.to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE");

        let home = path("HF_HOME").unwrap_or_else(|| {
            let caches = path("XDG_CACHE_HOME").unwrap_or_else(|| user.join(".cache"));
            caches.join("huggingface")
        });
        let cache = path("HF_HUB_CACHE").or_else(|| path("HUGGINGFACE_HUB_CACHE"));
        let given = || text("HF_TOKEN").or_else(|| text("HUGGING_FACE_HUB_TOKEN"));
        let kept = || fs::read_to_string(path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"))).ok();
        // Nobody asks for a token here, so Python would send none either, not even the one of HF_TOKEN.
        let is_secret = text("HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some_and(is_true);
        let token = (!is_secret).then(|| given().or_else(kept)).flatten();
        let token = token.map(|token| token.trim().to_owned());
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into());
        Self {
            endpoint: endpoint.trim().trim_end_matches('/').into(),
            cache: cache.unwrap_or_else(|| home.join("hub")),
            token: token.filter(|token| !token.is_empty()),
            offline: text("HF_HUB_OFFLINE")
                .or_else(|| text("TRANSFORMERS_OFFLINE"))
                .is_some_and(is_true),
            patience: Patience::default(),
        }
    }
}

/// Puts the user's folder in place of a leading `~`, and values in place of `$NAME` and `${NAME}`, as Python's
/// `expanduser` and `expandvars` do. What has no value stays.
fn expand(path: &str, user: &Path, variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    let (mut out, mut rest) = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => (user.display().to_string(), rest),
        _ => (String::new(), path),
    };
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        let braces = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        let name = braces.map_or_else(
            || {
                after
                    .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .next()
                    .unwrap_or_default()
            },
            |(name, _)| name,
        );
        let length = name.len() + if braces.is_some() { 2 } else { 0 };
        out += &variable(name).unwrap_or_else(|| format!("${}", &after[..length]));
        rest = &after[length..];
    }
    PathBuf::from(out + rest)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        Settings::read(|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn the_cache_is_pythons() {
        let cache = |variables: &[(&str, &str)]| read(variables).cache.display().to_string();
        assert_eq!(cache(&[("HOME", "/h")]), "/h/.cache/huggingface/hub");
        assert_eq!(cache(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), "/x/huggingface/hub");
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x"), ("HF_HOME", "/f")]), "/f/hub");
        assert_eq!(cache(&[("HF_HOME", "/f"), ("HF_HUB_CACHE", "/c")]), "/c");
        let expanded = |path| cache(&[("HOME", "/h"), ("DISK", "/d"), ("HF_HUB_CACHE", path)]);
        for (path, expected) in [
            ("~", "/h"),
            ("~/hub", "/h/hub"),
            ("~other/hub", "~other/hub"),
            ("$DISK/hub", "/d/hub"),
            ("${DISK}hub/$DISK", "/dhub//d"),
            ("/a/$NONE/${NONE}/$", "/a/$NONE/${NONE}/$"),
        ] {
            assert_eq!(expanded(path), expected);
        }
        assert_eq!(cache(&[("HOME", "/h"), ("HF_HOME", "~/$X"), ("X", "x")]), "/h/x/hub");
    }

    #[test]
    fn endpoint_token_and_offline() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), "kept\n").unwrap();
        let home = ("HF_HOME", folder.path().to_str().unwrap());
        let plain = read(&[home]);
        assert_eq!(
            (plain.endpoint.as_str(), plain.offline),
            ("https://huggingface.co", false)
        );
        assert_eq!(plain.token.as_deref(), Some("kept"));
        assert_eq!(read(&[home, ("HF_TOKEN", " mine ")]).token.as_deref(), Some("mine"));
        let secret = ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
        assert_eq!(read(&[home, secret]).token, None);
        assert_eq!(read(&[home, secret, ("HF_TOKEN", "mine")]).token, None);
        assert_eq!(
            read(&[("HF_ENDPOINT", "http://localhost:9/")]).endpoint,
            "http://localhost:9"
        );
        let offline = |value| read(&[("HF_HUB_OFFLINE", value)]).offline;
        assert_eq!(["1", "true", "0", ""].map(offline), [true, true, false, false]);
        let both = |value| read(&[("HF_HUB_OFFLINE", value), ("TRANSFORMERS_OFFLINE", "1")]).offline;
        assert_eq!(["1", "0", ""].map(both), [true, false, true]);
    }
}
