//! Chat templates by name, for models without one of their own: the formats that these models were published with.

/// The templates, but for the model's own.
const TEMPLATES: [(&str, &str); 8] = [
    ("alpaca", include_str!("named/alpaca.jinja")),
    ("chatml", include_str!("named/chatml.jinja")),
    ("gemma", include_str!("named/gemma.jinja")),
    ("llama3", include_str!("named/llama3.jinja")),
    ("mistral_v1", include_str!("named/mistral_v1.jinja")),
    ("phi3", include_str!("named/phi3.jinja")),
    ("qwen2_5", include_str!("named/qwen2_5.jinja")),
    ("qwen3", include_str!("named/qwen3.jinja")),
];

/// The name for messages, and the template.
pub(super) fn find(name: &str) -> (String, String) {
    let found = TEMPLATES.iter().find(|(known, _)| *known == name);
    (
        format!("chat_template: {name}"),
        found.map_or_else(String::new, |(_, template)| (*template).to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use options::{CHAT_TEMPLATES, OWN_TEMPLATE};

    use super::*;

    #[test]
    fn every_name_has_a_template() {
        let names = TEMPLATES.iter().map(|(name, _)| *name).chain([OWN_TEMPLATE]);
        assert!(names.eq(CHAT_TEMPLATES));
    }
}
