//! Numbers of releases.

use std::fmt;
use std::str::FromStr;

use base::text::{Mistake, quoted};

/// The libraries whose releases are told apart, each with the first release that does what today's does.
pub const TODAY_SINCE: [(&str, &str); 5] = [
    ("transformers", "5.23.0"),
    ("peft", "0.20.0"),
    ("bitsandbytes", "0.50.0"),
    ("torch", "2.15.0"),
    ("deepspeed", "0.19.8"),
];

/// A release: major, minor and patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32, pub(crate) u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl FromStr for Version {
    type Err = Mistake;

    /// `4.38` or `4.38.2`; also `0.41.2.post2` and `2.13.0+cu130`, which are as `0.41.2` and `2.13.0`.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let malformed = || {
            let message = format!("{text:?} is not a version");
            Mistake::new(message).help("a version is a text such as \"4.38.2\"")
        };
        let public = text.split_once('+').map_or(text, |(public, _)| public);
        let (numbers, post) = public.split_once(".post").unwrap_or((public, "0"));
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse().map_err(|_| malformed()),
            false => Err(malformed()),
        };
        number(post)?;
        match numbers.split('.').map(number).collect::<Result<Vec<u32>, _>>()?[..] {
            [major, minor] => Ok(Self(major, minor, 0)),
            [major, minor, patch] => Ok(Self(major, minor, patch)),
            _ => Err(malformed()),
        }
    }
}

/// What stands before a release for which the nearest that has been studied will do.
const NEAREST: &str = "nearest ";

/// The version that `text` names, and true if the nearest one will do.
pub(super) fn asked(text: &str) -> Result<(Version, bool), Mistake> {
    match text.strip_prefix(NEAREST) {
        Some(version) => Ok((version.trim().parse()?, true)),
        None if text.trim().eq_ignore_ascii_case(NEAREST.trim()) => {
            let message = format!("{} stands before a release", quoted(text));
            Err(Mistake::new(message).help("for example `nearest 4.28.1`"))
        }
        None => Ok((text.parse()?, false)),
    }
}

/// The version that `text` names or has planned, if it is one of `library` that has been studied.
pub(super) fn studied(library: &str, text: &str, oldest: Version) -> Result<Version, Mistake> {
    match asked(text)? {
        (version, true) => Ok(version.max(oldest)),
        (version, false) if version < oldest => {
            let message = format!("{library} {text} is older than any whose memory has been studied");
            Err(Mistake::new(message).help(format!("the oldest is {oldest}, which `{NEAREST}{text}` stands for")))
        }
        (version, false) => Ok(version),
    }
}

/// What is planned for `text`, if that is a release with `nearest` before it.
pub(super) fn planned(text: &str, of: impl FnOnce() -> Result<Version, Mistake>) -> Option<String> {
    text.starts_with(NEAREST)
        .then(of)?
        .ok()
        .map(|version| version.to_string())
}
