//! `expctl list` and `expctl show`.

use std::fs;
use std::path::Path;

use crate::common::project::Project;
use crate::{Recorded, SPEC};

#[test]
fn list_shows_cells() {
    let recorded = Recorded::new(SPEC);
    let text = |args: &[&str]| recorded.expctl(args).exits(0).stdout;
    insta::assert_snapshot!("list", text(&["list", "results/rank_sweep"]));
    let csv = text(&["list", "--format", "csv"]);
    assert!(
        csv.starts_with("cell_id,status,dtype,rank,seed,allocated_peak_bytes,tokens_per_second\n"),
        "{csv}"
    );
    let json: serde_json::Value = serde_json::from_str(&text(&["list", "--format", "json"])).unwrap();
    assert_eq!(json[0]["rank"], 4);
    assert_eq!(json[0]["allocated_peak_bytes"], 493_887_488_u64);

    fs::create_dir(recorded.path("results/copy")).unwrap();
    fs::copy(recorded.dir.study_yaml(), recorded.path("results/copy/study.yaml")).unwrap();
    let both = text(&["list"]);
    assert!(both.lines().nth(1).unwrap().starts_with("copy        "), "{both}");
    assert!(both.contains("dtype=int4 rank=64"), "{both}");
    recorded.write("results/old/study.yaml", "format: 1\nname: old\n");
    let others = recorded.expctl(&["list"]).exits(0);
    others.stderr_has("format 1 was written by another version");
    others.stderr_has("`results/old` is left out");
    assert_eq!(others.stdout, both);
    recorded.write("older/a/study.yaml", "format: 1\nname: a\n");
    recorded.write("older/b/study.yaml", "format: 1\nname: b\n");
    recorded
        .expctl(&["list", "older"])
        .exits(2)
        .stderr_has("none of these studies can be read");
    recorded
        .expctl(&["list", "experiments"])
        .exits(2)
        .stderr_has("`experiments` holds no study");
}

#[test]
fn show_shows_a_cell() {
    let recorded = Recorded::new(SPEC);
    let id = &recorded.study.cells[0].id;
    let text = |args: &[&str]| recorded.expctl(args).exits(0).stdout;
    insta::assert_snapshot!("show", text(&["show", &id[..6]]));
    let folder = format!("results/rank_sweep/cells/{id}");
    assert_eq!(text(&["show", &id[..6]]), text(&["show", &folder]));
    assert_eq!(text(&["show", id]), text(&["show", &format!("{folder}/record.json")]));

    let json: serde_json::Value = serde_json::from_str(&text(&["show", id, "--format", "json"])).unwrap();
    assert_eq!(
        (&json["cell"]["rank"], &json["steps"][2]["step"]),
        (&4.into(), &3.into())
    );
    let csv = text(&["show", id, "--format", "csv"]);
    assert!(
        csv.starts_with("step,loss,gradient_norm,learning_rate,tokens,seconds,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 4);

    recorded
        .expctl(&["show", "zz"])
        .exits(2)
        .stderr_has("no cell has an id that begins with `zz`");
    recorded
        .expctl(&["show", ""])
        .exits(2)
        .stderr_has("is 16 cells; name one by its path");
}

/// The page of techniques, with the savings in the frames beside the committed reports; `INSTA_UPDATE=always` writes it.
#[test]
fn the_page_of_techniques_is_what_is_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let reports = root.join("reports").display().to_string();
    let page = Project::empty()
        .expctl(&["list", "--techniques", &reports])
        .exits(0)
        .stdout;
    let path = root.join("docs/techniques.md");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == page,
        "docs/techniques.md is stale; write it again: cargo run --release -- list --techniques > docs/techniques.md"
    );
}
