//! The page of the models.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::project::Project;

/// The table of `docs/models.md`; `INSTA_UPDATE=always` writes it.
#[test]
fn the_page_has_the_table_that_is_printed() {
    let output = Project::empty().expctl(&["list", "--models", "--format=json"]);
    assert_eq!(output.code, 0, "{output}");
    let models: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    let mut table = String::from(
        "| preset | family | parameters, M | blocks | hidden | heads | vocabulary | window |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for model in &models {
        let text = |key: &str| model[key].as_str().unwrap_or_default();
        let number = |key: &str| {
            model[key]
                .as_u64()
                .map_or_else(String::new, |number| number.to_string())
        };
        writeln!(
            table,
            "| `{}` | `{}` | {:.0} | {} | {} | {} | {} | {} |",
            text("model"),
            text("family"),
            model["parameters"].as_f64().unwrap() / 1e6,
            number("num_hidden_layers"),
            number("hidden_size"),
            number("num_attention_heads"),
            number("vocab_size"),
            number("sliding_window"),
        )
        .unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/models.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, old) = page.split_at(page.find("| preset |").expect("a table"));
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&path, format!("{before}{table}")).unwrap();
        return;
    }
    assert!(
        old == table,
        "docs/models.md is stale: run this test with INSTA_UPDATE=always"
    );
}

/// Every family is explained.
#[test]
fn the_page_names_every_family() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/models.md")).unwrap();
    let (text, _) = page.split_at(page.find("| preset |").expect("a table"));
    for family in expctl::arch::Family::ALL {
        assert!(text.contains(&format!("`{}`", family.name())), "{}", family.name());
    }
}

#[test]
fn a_release_lacks_models_that_came_after_it() {
    let release = |version: &str| format!("torch.transformers_version={version}");
    let of = |version: &str| {
        let arguments = ["plan", "--model", "phi-4-mini", "--gpu", "a100-80gb", "--set"];
        Project::empty().expctl(&[&arguments[..], &[release(version).as_str()]].concat())
    };
    of("4.48.3")
        .exits(2)
        .stderr_has("transformers 4.48.3 has no Phi3 that rotates a share of each head");
    of("4.49.0").exits(0);
}
