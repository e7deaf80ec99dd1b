//! The hub's settings, from the variables that Python's `huggingface_hub` reads as well.

use std::fs;
use std::path::PathBuf;
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
        let path = |name: &str| text(name).map(PathBuf::from);
        let is_set = |name: &str| {
            let value = text(name).unwrap_or_default().to_ascii_uppercase();
            matches!(value.as_str(), "1" | "ON" | "YES" | "TRUE")
        };
        let user = || path("HOME").unwrap_or_default().join(".cache");
        let home = path("HF_HOME");
        let home = home.unwrap_or_else(|| path("XDG_CACHE_HOME").unwrap_or_else(user).join("huggingface"));
        let cache = path("HF_HUB_CACHE").or_else(|| path("HUGGINGFACE_HUB_CACHE"));
        let kept_token = || {
            let file = path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
            match is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
                true => None,
                false => fs::read_to_string(file).ok(),
            }
        };
        let token = text("HF_TOKEN").or_else(|| text("HUGGING_FACE_HUB_TOKEN"));
        let token = token.or_else(kept_token).map(|token| token.trim().to_owned());
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into());
        Self {
            endpoint: endpoint.trim().trim_end_matches('/').into(),
            cache: cache.unwrap_or_else(|| home.join("hub")),
            token: token.filter(|token| !token.is_empty()),
            offline: is_set("HF_HUB_OFFLINE") || is_set("TRANSFORMERS_OFFLINE"),
            patience: Patience::default(),
        }
    }
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
        assert_eq!(read(&[home, ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).token, None);
        assert_eq!(
            read(&[("HF_ENDPOINT", "http://localhost:9/")]).endpoint,
            "http://localhost:9"
        );
        let offline = |value| read(&[("HF_HUB_OFFLINE", value)]).offline;
        assert_eq!(["1", "true", "0", ""].map(offline), [true, true, false, false]);
    }
}
