//! Published figures that stand in a file next to the spec.

use expctl::spec::{self, Overrides, Study};

const SPEC: &str = "
name: x
sweep: {grid: {rank: [4, 8, 16]}}
published:
- {column: allocated_peak_bytes, values: x.csv, unit: bytes, metric: allocated, source: us}
- {column: allocated_peak_bytes, value: 5, unit: GB, metric: allocated, source: them, cell: {rank: 8}}
";

fn load(csv: Option<&str>, settings: &[&str]) -> Result<Study, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.yaml");
    std::fs::write(&path, SPEC).unwrap();
    if let Some(csv) = csv {
        std::fs::write(folder.path().join("x.csv"), csv).unwrap();
    }
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    spec::load(&path, &Overrides::new([], settings)).map_err(|error| error.to_string())
}

#[test]
fn each_row_is_a_figure_of_its_cell() {
    let ids: Vec<String> = load(Some("cell_id,allocated_peak_bytes\n"), &[])
        .unwrap()
        .cells
        .into_iter()
        .map(|cell| cell.id)
        .collect();
    let csv = format!("allocated_peak_bytes,cell_id\n1000,{}\n2000,{}\n", ids[2], ids[0]);
    let study = load(Some(&csv), &[]).unwrap();
    let figures: Vec<(String, String)> = study
        .published
        .iter()
        .map(|figure| (figure.value.clone(), figure.cell["rank"].to_string()))
        .collect();
    let expected = [("1000", "16"), ("2000", "4"), ("5", "8")].map(|(value, rank)| (value.to_owned(), rank.to_owned()));
    assert_eq!(figures, expected);
    let gap = format!("{csv},{}\n", ids[1]);
    let with_gap = load(Some(&gap), &[]).unwrap();
    assert_eq!(with_gap.published.len(), 3, "an empty field is no figure");
    let others = load(Some(&csv), &["batch_size=2"]).unwrap();
    assert_eq!(others.published.len(), 1, "an override makes other cells");
    for (notes, is_noted) in [
        (&study.notes, false),
        (&others.notes, true),
        (&load(Some("cell_id,allocated_peak_bytes\n"), &[]).unwrap().notes, true),
    ] {
        let says = |note: &String| note.contains("has no number of `allocated_peak_bytes` for these cells");
        assert_eq!(notes.iter().any(says), is_noted, "{notes:?}");
    }
}

#[test]
fn each_row_is_checked() {
    let ids: Vec<String> = load(Some("cell_id,allocated_peak_bytes\n"), &[])
        .unwrap()
        .cells
        .into_iter()
        .map(|cell| cell.id)
        .collect();
    let first = &ids[0];
    for (row, message) in [
        (format!("{},x", ids[1]), "expected a number such as"),
        (format!("{first},2"), "has a figure already"),
        ("0123456789ab,2".to_owned(), "the study has no cell `0123456789ab`"),
        (format!("{},2,3", ids[1]), "is not one of plain fields"),
    ] {
        let csv = format!("cell_id,allocated_peak_bytes\n\n{first},1\n{row}\n");
        let error = load(Some(&csv), &[]).unwrap_err();
        let place = error.starts_with("published[0].values: line 4 of ") && error.contains("x.yaml:5:42");
        assert!(place && error.contains(message), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_or_has_other_columns_is_a_mistake() {
    assert!(load(None, &[]).unwrap_err().contains("cannot read"));
    let error = load(Some("id,allocated_peak_bytes\n"), &[]).unwrap_err();
    assert!(
        error.contains("has no column `cell_id`") && error.contains("x.yaml:5:42"),
        "{error}"
    );
}
