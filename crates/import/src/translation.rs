//! What a configuration comes to.

use serde_json::Value as Json;
use yaml::place::Place;
use yaml::tree::Node;

use crate::recognise::Recognised;

/// A key of the spec.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Our key, dotted.
    pub key: String,
    /// Its value.
    pub value: Json,
    /// The keys that it comes from, each with its value: `load_in_4bit: true`; or the words of a tool's own doing.
    pub from: Vec<String>,
    /// The place of the first of them.
    pub place: Option<Place>,
}

/// A key of the file that the spec does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The key.
    pub key: String,
    /// Its value in one line.
    pub value: String,
    /// The reason.
    pub why: String,
}

/// What a configuration comes to.
#[derive(Debug, Clone)]
pub struct Translation {
    /// The tool, and what told.
    pub recognised: Recognised,
    /// The keys of the spec, in our order.
    pub settings: Vec<Setting>,
    /// Keys that change memory, and are lost.
    pub lost: Vec<Left>,
    /// Keys that change no memory.
    pub idle: Vec<Left>,
    /// Keys without a value.
    pub empty: Vec<String>,
    /// What the tool does besides that no plan has, and what a reader must know.
    pub remarks: Vec<String>,
}

impl Translation {
    /// The setting of a key.
    pub fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key == key)
    }
}

/// A key with its value, for a remark.
pub(crate) fn shown(key: &str, value: &Node) -> String {
    format!("{key}: {}", short(value))
}

/// The value in one line, cut.
pub(crate) fn short(value: &Node) -> String {
    const LONGEST: usize = 60;
    let text = value.to_flow_yaml().replace(['\n', '\r'], " ");
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}
