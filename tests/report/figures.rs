//! Figures in a spec's texts: how they are written, what is found to be wrong, and that shipped specs type none by hand.

use std::path::{Path, PathBuf};

use expctl::report::{self, About, Piece, Template};
use expctl::spec::{self, Overrides};
use fancy_regex::Regex;

use crate::Recorded;
use crate::common::project::Project;

/// A number with a unit of memory, time, speed or share, which claims a result.
pub const FIGURE: &str = r"[-−+<]?\d[\d.,]*(?: to [\d.,]+| and [\d.,]+)?(?:\s?(?:[KMGT]i?B|kB|ms|s|seconds?|minutes?|hours?|tokens/s)(?![\w/])|\s?%|×(?!\d))|\d+(?:,\d{3})+ bytes";

/// A study of ours and PyTorch's, whose description is `text`.
fn spec_with(text: &str) -> String {
    format!(
        "name: figures\ndescription: >-\n  {text}\ndefaults: {{ max_steps: 3 }}\n\
         sweep: {{ include: [{{ rank: 4 }}, {{ rank: 16 }}, {{ stack: torch, rank: 4 }}] }}\n"
    )
}

/// The description in the report of recorded cells.
fn written(text: &str) -> String {
    let recorded = Recorded::new(&spec_with(text));
    let markdown = recorded.render(&Template::named("comparison")).unwrap().markdown;
    markdown.lines().nth(2).unwrap().to_owned()
}

#[test]
fn figures_are_written_with_units() {
    let ours = "mean('allocated_peak_bytes', stack='candle', rank=16)";
    let bytes: f64 = written(&format!("{{{{ {ours} | bytes }}}}"))
        .trim_end_matches(" bytes")
        .replace(',', "")
        .parse()
        .unwrap();
    assert!(bytes > 0.0);
    let mib = format!("{:.1} MiB", bytes / 1024.0 / 1024.0);
    assert_eq!(
        written(&format!("It takes {{{{ {ours} | MiB }}}}.")),
        format!("It takes {mib}.")
    );
    for (text, expected) in [
        (
            "{{ (8 * 2048 * 32000 * 4) | GiB }}, {{ 1.6e9 | GB(1) }}",
            "1.95 GiB, 1.6 GB",
        ),
        (
            "{{ (3 / 4) | percent }}, {{ 0.5 | ratio }}, {{ 90 | seconds(0) }}",
            "75.0%, 0.50×, 90 seconds",
        ),
        ("{{ 12345.6 | count }}, {{ 4.4771 | number(2) }}", "12,346, 4.48"),
        (
            "a GPU with [published: 6 GB], [not a mark]",
            "a GPU with 6 GB, [not a mark]",
        ),
    ] {
        assert_eq!(written(text), expected);
    }
}

#[test]
fn a_figure_that_nothing_measured_is_said_to_be_missing() {
    let torch = "mean('allocated_peak_bytes', stack='torch')";
    let text = format!("{{{{ {torch} | GiB }}}} and {{{{ ({torch} / 2) | GiB }}}} and {{{{ (1 / 0) | ratio }}}}");
    assert_eq!(written(&text), "not measured and not measured and not measured");
}

#[test]
fn notes_have_figures_as_well() {
    let recorded = Recorded::new(
        "name: notes\ndefaults: { max_steps: 3 }\nsweep: { grid: { rank: [4, 16] } }\n\
         published:\n- { column: allocated_peak_bytes, value: 1, unit: MiB, metric: allocated, source: x, cell: { rank: 4 },\n    \
         note: 'Half are {{ (1 / 2) | percent(0) }}.' }\n\
         claims:\n- { claim: It is., source: x, holds: 1 == 1, note: 'A third is {{ (1 / 3) | percent }}.' }\n\
         - { claim: It may., source: x, untested: 'It takes {{ 7200 | hours }}.' }\n",
    );
    let markdown = recorded.markdown("comparison");
    for text in ["Half are 50%.", "A third is 33.3%.", "It takes 2.0 hours."] {
        assert!(markdown.contains(text), "{text} is missing: {markdown}");
    }
}

#[test]
fn mistakes_are_found_before_training() {
    for (text, message, place, help) in [
        (
            "It takes\n  {{ mean('allocated_peak_byte', rank=16) | GiB }}.",
            "description: `allocated_peak_byte` is not a column of measured numbers",
            "spec.yaml:4:6",
            "did you mean `allocated_peak_bytes`?",
        ),
        (
            "{{ mena('allocated_peak_bytes') | GiB }}",
            "description: `mena` is not a name that figures have",
            "spec.yaml:3:6",
            "did you mean `mean`?",
        ),
        (
            "{{ mean('tokens_per_second', stack='torch') | count }}",
            "description: `tokens_per_second` is measured and not predicted",
            "spec.yaml:3:6",
            "plans have",
        ),
        (
            "{{ mean('allocated_peak_bytes') | GiB }}",
            "description: the study is about 3 cells, and one is needed",
            "spec.yaml:3:6",
            "say which",
        ),
        (
            "{{ 4 - 3 | GiB }}",
            "description: tried to use - operator on unsupported types",
            "spec.yaml:3:6",
            "`(a - b) | GiB` has parentheses",
        ),
        (
            "{{ 1 + 1 }}",
            "description: `2` is not a figure with a unit",
            "spec.yaml:3:6",
            "a filter for the unit comes last",
        ),
        (
            "a {{ 1 | count",
            "description: the expression has no end: `}}`",
            "spec.yaml:3:5",
            "",
        ),
    ] {
        let project = Project::new(&spec_with(text));
        let output = project.expctl(&["validate", "spec.yaml"]).exits(2);
        output.stderr_has(message).stderr_has(place).stderr_has(help);
    }
}

#[test]
fn errors_are_those_of_the_predictions() {
    let text = "{{ errors('allocated_peak_bytes') | map('abs') | average | percent }}";
    let spec = format!(
        "{}published:\n- {{ column: allocated_peak_bytes, value: 1, unit: GiB, metric: allocated, source: x, cell: {{ stack: torch }} }}\n",
        spec_with(text)
    );
    let project = Project::new(&spec);
    project.expctl(&["plan", "spec.yaml", "--report=plan.md"]).exits(0);
    let page = project.read("plan.md");
    let line = page.lines().nth(2).unwrap();
    assert!(line.ends_with('%') && line != "not measured", "{line}");
    // Nothing predicts our own trainer's cells before a plan does, and that is no mistake.
    let ours = Project::new(&spec.replace("cell: { stack: torch }", "cell: { stack: candle, rank: 4 }"));
    ours.expctl(&["validate", "spec.yaml"]).exits(0);
    let wrong = project.path("spec.yaml");
    std::fs::write(
        &wrong,
        spec.replace("errors('allocated_peak_bytes')", "errors('reserved_peak_bytes')"),
    )
    .unwrap();
    let output = project.expctl(&["validate", "spec.yaml"]).exits(2);
    output.stderr_has("description: no published figure is of `reserved_peak_bytes`");
}

#[test]
fn a_text_is_evaluated_over_a_frame() {
    let recorded = Recorded::new(&spec_with("x"));
    let frame = expctl::results::collect::collect(&recorded.dir, &recorded.study, false).unwrap();
    let about = About::new(&recorded.study);
    let of = |text: &str| report::evaluate(text, &about, &frame.frame().unwrap());
    assert_eq!(of("{{ (1 / 4) | percent(0) }}").unwrap(), "25%");
    assert!(of("{{ mean('x') | GiB }}").is_err(), "a page's mistake is one");
}

/// Every spec that ships.
pub fn shipped() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let patterns = ["experiments/**/*.yaml", "benches/*.yaml"].map(|pattern| root.join(pattern));
    let paths = patterns
        .iter()
        .flat_map(|pattern| glob::glob(&pattern.to_string_lossy()).unwrap());
    paths.map(Result::unwrap).collect()
}

#[test]
fn no_shipped_spec_types_a_figure_by_hand() {
    let figure = Regex::new(FIGURE).unwrap();
    let mut found = Vec::new();
    let specs = shipped();
    for path in &specs {
        let study = spec::load(path, &Overrides::default()).unwrap();
        let notes = study.published.iter().filter_map(|figure| figure.note.as_deref());
        let claims = study.claims.iter();
        let claims = claims.flat_map(|claim| [claim.note.as_deref(), claim.untested.as_deref()]);
        let answer = study.report.answer.iter();
        let answer = answer.flat_map(|own| [Some(own.sentence.as_str()), own.otherwise.as_deref()]);
        let texts = notes.chain(claims.flatten()).chain(answer.flatten());
        for text in texts.chain([&*study.description]) {
            for piece in report::pieces(text).unwrap() {
                let Piece::Words(words) = piece else { continue };
                let typed = figure.find_iter(words).map(|found| found.unwrap().as_str().to_owned());
                found.extend(typed.map(|typed| format!("{}: {typed}", path.display())));
            }
        }
    }
    assert!(specs.len() > 50, "{}", specs.len());
    found.dedup();
    assert!(
        found.is_empty(),
        "a figure of ours is an expression, `{{{{ … | GiB }}}}`, and one of a source `[published: 6 GB]`: {found:#?}"
    );
}

#[test]
fn a_figure_is_a_number_with_a_unit() {
    let figure = Regex::new(FIGURE).unwrap();
    for text in [
        "63.21 GiB",
        "6GB",
        "74 %",
        "0.88×",
        "1,024 tokens/s",
        "30 s",
        "1.5 seconds",
        "15 minutes",
        "88 to 23 GiB",
        "12,345 bytes",
    ] {
        let found = figure.find(text).unwrap();
        assert_eq!(found.map(|found| found.as_str()), Some(text));
    }
    for text in [
        "4 × 512 tokens",
        "16 bytes",
        "8 bits",
        "Llama 2 7B",
        "rank 16",
        "65B, of which",
        "100 steps",
        "a 4-bit model",
        "2 samples a step",
    ] {
        assert!(!figure.is_match(text).unwrap(), "{text}");
    }
}

#[test]
fn a_figure_whose_cells_an_override_takes_away_is_not_measured() {
    let spec = "name: some\ndescription: \"Rank 4 takes {{ mean('allocated_peak_bytes', rank=4) | MiB }}.\"\n\
                defaults: { model: tiny, max_steps: 1 }\nsweep: { grid: { rank: [4, 8] } }\n";
    let project = Project::new(spec);
    project.expctl(&["validate", "spec.yaml"]).exits(0);
    project.expctl(&["validate", "spec.yaml", "--set", "rank=8"]).exits(0);
    project.write("spec.yaml", spec.replace("rank=4)", "rank=5)"));
    project
        .expctl(&["validate", "spec.yaml"])
        .exits(2)
        .stderr_has("no cell has rank=5");
}
