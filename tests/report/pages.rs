//! Figures of ours in README and the documents: each has a marker beside it, and is what the marker's expression gives.
//!
//! * `19.2 GiB<!-- experiments/a.yaml: {{ mean('reserved_peak_bytes', rank=16) | GiB(1) }} -->`: the spec's kept frame, or its
//!   plan, gives the text before the marker. In a table a bar of the expression is `\|`.
//! * `15.8 GB<!-- published -->`: a figure of a source.
//! * `<!-- from results/a.md -->` … `<!-- end -->`: sentences and rows of a report, of which columns may be left out.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use expctl::plan::{Options, Planner};
use expctl::report::{self, About};
use expctl::results::frame::{self, KeptFrame};
use expctl::spec::{self, Overrides, Study};
use fancy_regex::Regex;
use polars_core::prelude::DataFrame;

use crate::figures::FIGURE;

/// Pages that a command prints. Others hold their figures to markers.
const PRINTED: [&str; 5] = ["accuracy.md", "gpus.md", "spec.md", "techniques.md", "verdicts.md"];

/// README, and the pages of `docs/` that are written by hand.
fn pages() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let written = names.filter(|name| name.ends_with(".md") && !PRINTED.contains(&name.as_str()));
    let mut pages: Vec<String> = written.map(|name| format!("docs/{name}")).collect();
    pages.push("README.md".to_owned());
    pages
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_figures_of_pages_are_those_of_their_markers() {
    let figure = Regex::new(FIGURE).unwrap();
    let mut studies = HashMap::new();
    let mut wrong = Vec::new();
    let mut markers = 0;
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        let text = without_excerpts(&text, &mut wrong);
        for line in without_code(&text) {
            markers += line.matches("<!-- experiments/").count();
            let rest = check_markers(&line, &mut studies).unwrap_or_else(|reason| {
                wrong.push(format!("{page}: {reason}"));
                String::new()
            });
            for typed in figure.find_iter(&rest) {
                wrong.push(format!("{page}: {} has no marker: {line}", typed.unwrap().as_str()));
            }
        }
    }
    assert!(markers > 0, "the pages have markers");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The words of a line without its figures that have markers; or the first marker that is wrong.
fn check_markers(line: &str, studies: &mut HashMap<String, (Study, DataFrame)>) -> Result<String, String> {
    let mut rest = String::new();
    let mut parts = line.split("<!-- ");
    rest.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (marker, after) = part.split_once(" -->").ok_or("a comment has no end")?;
        if marker == "published" {
            let figure = Regex::new(&format!("(?:{FIGURE})$")).unwrap();
            let found = figure.find(&rest).unwrap().map(|found| found.start());
            rest.truncate(found.ok_or_else(|| format!("no figure stands before `published`: {rest}"))?);
        } else if let Some((path, text)) = marker.split_once(".yaml: ") {
            let path = format!("{path}.yaml");
            let (study, frame) = studies.entry(path.clone()).or_insert_with(|| figures_of(&path));
            let text = text.replace("\\|", "|");
            let figure =
                report::evaluate(&text, &About::new(study), frame).map_err(|error| format!("{text}: {error}"))?;
            let before = rest.strip_suffix(&figure).map(str::to_owned);
            let before = before.filter(|before| !before.ends_with(|c: char| c.is_ascii_digit() || ".,-−".contains(c)));
            rest = before.ok_or_else(|| format!("{path} says {figure}: {rest}"))?;
        }
        rest.push_str(after);
    }
    Ok(rest)
}

/// A spec's study, and its kept frame or else its plan.
fn figures_of(path: &str) -> (Study, DataFrame) {
    let study = spec::load(&root().join(path), &Overrides::default()).unwrap();
    let frame = match kept_frame(&study) {
        Some(kept) => KeptFrame::read(&kept).unwrap().cells().unwrap(),
        None => {
            let planner = Planner::new(study.roots(), Options::default());
            let plans: Vec<_> = study
                .cells
                .iter()
                .map(|planned| planner.predict(&planned.cell).unwrap())
                .collect();
            frame::of_plan(&study, plans.iter().map(Some)).unwrap()
        }
    };
    (study, frame)
}

/// The frame that is kept beside a study's report.
fn kept_frame(study: &Study) -> Option<PathBuf> {
    let report = study.report.publish.as_ref()?;
    let frame = root().join(report).with_extension("parquet");
    frame.exists().then_some(frame)
}

/// The text without its excerpts of reports, each of which is checked.
fn without_excerpts(text: &str, wrong: &mut Vec<String>) -> String {
    let mut parts = text.split("<!-- from ");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (path, part) = part.split_once(" -->").expect("a comment has an end");
        let (excerpt, after) = part.split_once("<!-- end -->").expect("an excerpt has an end");
        let source = fs::read_to_string(root().join(path)).unwrap_or_default();
        wrong.extend(
            not_in(excerpt, &source)
                .into_iter()
                .map(|text| format!("{path} has no such text: {text}")),
        );
        rest.push_str(after);
    }
    rest
}

/// The sentences and rows of an excerpt that `source` does not have. Quotes and the folding of lines do not count.
fn not_in(excerpt: &str, source: &str) -> Vec<String> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cells = |row: &str| -> Vec<String> { row.trim().trim_matches('|').split('|').map(words).collect() };
    let rows: Vec<Vec<String>> = source.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let has_row = |row: &str| {
        rows.iter().any(|there| {
            let mut there = there.iter();
            cells(row).iter().all(|cell| there.any(|other| other == cell))
        })
    };
    let lines = excerpt.lines().map(|line| line.trim_start_matches('>').trim());
    let (table, prose): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('|'));
    let is_rule = |row: &&str| row.chars().all(|c| "|:- ".contains(c));
    let missing = table
        .into_iter()
        .filter(|row| !is_rule(row) && !has_row(row))
        .map(str::to_owned);
    let source = words(source);
    let prose = prose.join("\n").replace("\n* ", "\n\n* ");
    let paragraphs = prose
        .split("\n\n")
        .map(words)
        .filter(|text| !text.is_empty() && !text.starts_with('!'));
    missing
        .chain(paragraphs.filter(|text| !source.contains(text.as_str())))
        .collect()
}

/// The lines outside of code blocks, without code.
fn without_code(text: &str) -> Vec<String> {
    let code = Regex::new("`[^`]*`").unwrap();
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.starts_with("    ") {
            lines.push(code.replace_all(line, "").into_owned());
        }
    }
    lines
}

#[test]
fn an_excerpt_has_a_reports_words_and_rows() {
    let source = "* It takes\n  1 MiB. (`a`)\n\n| rank | MiB | s |\n| --- | ---: | - |\n| 4 | 1.0 | 2 |\n";
    assert!(
        not_in(
            "\n> * It takes 1\n>   MiB. (`a`)\n\n| rank | s |\n|---|---|\n| 4 | 2 |\n",
            source
        )
        .is_empty()
    );
    assert_eq!(
        not_in("| 4 | 3 |\n\nIt takes 2 MiB.", source),
        ["| 4 | 3 |", "It takes 2 MiB."]
    );
    assert_eq!(not_in("| 2 | 4 |", source), ["| 2 | 4 |"], "the order counts");
}

#[test]
fn a_marker_is_compared_with_the_text_before_it() {
    let check = |line: &str| check_markers(line, &mut HashMap::new());
    let spec = "experiments/quickstart.yaml";
    assert_eq!(check("a 6 GB<!-- published --> GPU").unwrap(), "a  GPU");
    assert_eq!(
        check(&format!("(0.50×<!-- {spec}: {{{{ 0.5 \\| ratio }}}} -->)")).unwrap(),
        "()"
    );
    let wrong = check(&format!("0.51×<!-- {spec}: {{{{ 0.5 | ratio }}}} -->")).unwrap_err();
    assert_eq!(wrong, format!("{spec} says 0.50×: 0.51×"));
    assert!(check("a GPU<!-- published -->").is_err());
    assert!(check(&format!("x<!-- {spec}: {{{{ mean('x') | GiB }}}} -->")).is_err());
}
