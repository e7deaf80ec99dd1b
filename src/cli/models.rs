//! `expctl list --models`.

use arch::Preset;
use base::text::Table;
use serde_json::json;

use super::Format;

/// The presets whose names `model` may have. Both stacks know each family.
pub(super) fn table(format: Format) -> Table {
    match format {
        Format::Table => rows([
            "model",
            "family",
            "parameters",
            "blocks",
            "hidden",
            "heads",
            "vocabulary",
            "window",
        ]),
        Format::Json | Format::Csv => rows([
            "model",
            "family",
            "parameters",
            "num_hidden_layers",
            "hidden_size",
            "num_attention_heads",
            "vocab_size",
            "sliding_window",
        ]),
    }
}

fn rows(headings: [&'static str; 8]) -> Table {
    let mut table = Table::new(headings);
    table.rows.extend(Preset::all().iter().map(|preset| {
        let config = preset.config();
        vec![
            json!(preset.name()),
            json!(config.family.name()),
            json!(config.parameter_count()),
            json!(config.num_hidden_layers),
            json!(config.hidden_size),
            json!(config.num_attention_heads),
            json!(config.vocab_size),
            json!(config.sliding_window.map(|window| window.tokens)),
        ]
    }));
    table
}
