//! `report.answer`: the author's sentences come first, are judged, and their mistakes are found before a run.

use expctl::report::Template;
use expctl::spec::{self, Overrides};

use crate::common::project::Project;
use crate::figures::shipped;
use crate::{Recorded, SPEC};

/// The report's section of answers: one line a sentence.
fn answer(markdown: &str) -> Vec<String> {
    let (_, after) = markdown.split_once("## Answer\n").unwrap();
    let (part, _) = after.split_once("\n**").unwrap();
    let lines = part.lines().filter_map(|line| line.strip_prefix("* "));
    lines.map(ToOwned::to_owned).collect()
}

/// [`SPEC`] with this answer.
fn with_answer(answer: &str) -> String {
    SPEC.replace(
        "report: { output: results/rank_sweep.md }",
        &format!("report:\n  output: results/rank_sweep.md\n  answer:\n{answer}"),
    )
}

const PEAK: &str = "mean('allocated_peak_bytes', dtype='int4', rank=16)";

#[test]
fn the_authors_sentences_come_first() {
    let own = format!(
        "  - \"Rank 16 takes {{{{ {PEAK} | MiB(0) }}}}.\"\n  - sentence: Rank 4 takes less.\n    \
         holds: mean('allocated_peak_bytes', dtype='int4', rank=4) < {PEAK}\n"
    );
    let recorded = Recorded::new(&with_answer(&own));
    for template in ["comparison", "method_comparison"] {
        let lines = answer(&recorded.markdown(template));
        assert!(lines[0] == "Rank 16 takes 370 ± <1 MiB.", "{lines:#?}");
        assert!(lines[1] == "Rank 4 takes less.", "{lines:#?}");
        // What the author has said is not said again; what failed is.
        assert!(!lines.iter().any(|line| line.contains("Cheapest")), "{lines:#?}");
    }
    let failed = answer(&recorded.markdown("comparison"));
    assert!(
        failed.iter().any(|line| line.contains("ran out of memory")),
        "{failed:#?}"
    );
    let output = recorded
        .project
        .expctl(&["report", "experiments/rank_sweep.yaml", "--format", "html"]);
    output.exits(0);
    assert!(
        recorded
            .read("results/rank_sweep.html")
            .contains("<li>Rank 4 takes less.")
    );
}

#[test]
fn a_sentence_that_does_not_hold_fails_the_check() {
    let own = |otherwise: &str| {
        format!(
            "  - sentence: Rank 4 takes more.\n    holds: mean('allocated_peak_bytes', dtype='int4', rank=4) > {PEAK}\n{otherwise}"
        )
    };
    let recorded = Recorded::new(&with_answer(&own("")));
    let spec = "experiments/rank_sweep.yaml";
    recorded.project.expctl(&["report", spec]).exits(0);
    assert!(
        recorded
            .read("results/rank_sweep.md")
            .contains("* **Does not hold**: Rank 4 takes more.")
    );
    let check = recorded.project.expctl(&["report", "--check=pages", spec]).exits(1);
    check
        .stderr_has("rank_sweep.yaml:")
        .stderr_has(": refuted: Rank 4 takes more.");
    recorded.write(spec, with_answer(&own("    otherwise: Rank 4 takes less.\n")));
    recorded.project.expctl(&["report", spec]).exits(0);
    assert!(recorded.read("results/rank_sweep.md").contains("* Rank 4 takes less."));
    recorded.project.expctl(&["report", "--check=pages", spec]).exits(0);
}

#[test]
fn a_sentence_without_data_says_so() {
    // Rank 256 in bfloat16 runs out of memory.
    let own = "  - Rank 256 takes {{ mean('allocated_peak_bytes', dtype='bfloat16', rank=256) | MiB }}.\n";
    let rendered = Recorded::new(&with_answer(own))
        .render(&Template::named("comparison"))
        .unwrap();
    let lines = answer(&rendered.markdown);
    assert!(
        lines[0].starts_with("Undecided (bfloat16 · 256 is oom): Rank 256 takes not measured."),
        "{lines:#?}"
    );
}

#[test]
fn mistakes_are_found_before_training() {
    for (answer, message, place, help) in [
        (
            "  - \"It takes {{ mean('allocated_peak_byte', dtype='int4', rank=16) | MiB }}.\"\n",
            "report.answer[0]: `allocated_peak_byte` is not a column of measured numbers",
            "rank_sweep.yaml:10:",
            "did you mean `allocated_peak_bytes`?",
        ),
        (
            "  - It is.\n  - sentence: It is.\n    holds: mena('loss_last') > 0\n",
            "report.answer[1].holds: `mena` is not a name",
            "rank_sweep.yaml:12:12",
            "did you mean `mean`?",
        ),
        (
            "  - { sentence: It is., holds: 1 == 1, otherwise: \"{{ 1 + 1 }}\" }\n",
            "report.answer[0].otherwise: `2` is not a figure with a unit",
            "rank_sweep.yaml:10:",
            "a filter for the unit comes last",
        ),
        (
            "  - { sentence: It is., otherwise: It is not. }\n",
            "report.answer[0].otherwise: there is no condition that can be false",
            "rank_sweep.yaml:10:",
            "add `holds`, or leave it out",
        ),
        (
            "  - { sentence: It is., holds: 1 + 1 }\n",
            "report.answer[0].holds: the expression gives a number, not true or false",
            "rank_sweep.yaml:10:",
            "",
        ),
        ("  - ' '\n", "report.answer[0]: it is empty", "rank_sweep.yaml:10:5", ""),
        (
            "  - 7\n  - [It is.]\n",
            "report.answer[1]: ",
            "rank_sweep.yaml:11:5",
            "",
        ),
        (
            "  - a\n  - b\n  - c\n  - d\n  - e\n",
            "report.answer: an answer has at most 4 sentences, not 5",
            "rank_sweep.yaml:9:",
            "have room for more",
        ),
    ] {
        let project = Project::empty();
        project.write("rank_sweep.yaml", with_answer(answer));
        let output = project.expctl(&["validate", "rank_sweep.yaml"]).exits(2);
        output.stderr_has(message).stderr_has(place).stderr_has(help);
    }
}

#[test]
fn an_override_takes_no_answer_for_a_mistake() {
    let project = Project::empty();
    let own = "  - { sentence: \"{{ mean('steps', dtype='int4', rank=16) | count }}\", holds: \"mean('steps', dtype='int4', rank=64) > 0\" }\n";
    project.write("rank_sweep.yaml", with_answer(own));
    project
        .expctl(&["validate", "rank_sweep.yaml", "--set", "rank=8"])
        .exits(0);
}

/// The claims answer the questions of their studies, and the agreement those of published figures.
#[test]
fn every_shipped_question_has_an_answer() {
    let mut asked = 0;
    for path in shipped() {
        let study = spec::load(&path, &Overrides::default()).unwrap();
        let is_answered = study.report.template() == "claims" || !study.published.is_empty();
        if study.description.contains('?') && !is_answered {
            asked += 1;
            assert!(
                !study.report.answer.is_empty(),
                "{} asks and has no answer",
                path.display()
            );
        }
    }
    assert!(asked > 20, "{asked}");
}
