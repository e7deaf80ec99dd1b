//! Sentences put to the test: their verdicts, what `--check` makes of them, and what is said of wrong ones.

use expctl::report::Template;

use crate::common::project::Project;
use crate::{Recorded, SPEC};

/// One claim of each verdict, and one that is known not to hold.
const CLAIMS: &str = "\
claims:
- claim: 4-bit weights save a third of the peak
  source: 'A guide, https://example.org/memory_guide'
  cells: { rank: 16 }
  measured:
    saved: { value: \"1 - mean('allocated_peak_bytes', dtype='int4') / mean('allocated_peak_bytes', dtype='bfloat16')\", unit: '%' }
  holds: between(saved, 0.30, 0.36)
- claim: Rank 64 is at most 10 % slower | than rank 4
  source: Somebody
  note: Made-up numbers; see https://example.org/speed.
  measured:
    speeds: { value: \"means('tokens_per_second', dtype='bfloat16', rank=4) + means('tokens_per_second', {'dtype': 'bfloat16', 'rank': 64})\", unit: tokens/s }
    slower: { value: \"speeds[0] / speeds[1] - 1\", unit: '%', decimals: 2 }
  holds: slower <= 0.10
  expect: refuted
- claim: Rank 256 trains in 4 bits
  source: Somebody
  measured:
    peak: { value: \"mean('allocated_peak_bytes', dtype='int4', rank=256)\", unit: MiB }
  holds: peak > 0
- claim: Rank 256 does not fit
  source: Somebody
  cells: { dtype: bfloat16 }
  measured: { outcome: { value: status(rank=256) }, most: { value: \"groups | map(attribute='ok') | max\" } }
  holds: outcome == 'oom' and most == 2
";

#[test]
fn claims_have_verdicts() {
    let recorded = Recorded::new(&format!("{SPEC}{CLAIMS}"));
    for template in ["comparison", "method_comparison"] {
        let markdown = recorded.markdown(template);
        let (_, part) = markdown.split_once("## Claims").unwrap();
        let (part, _) = part.split_once("\n## ").unwrap();
        insta::assert_snapshot!("claims", part);
    }
}

#[test]
fn claims_have_a_template_of_their_own() {
    let recorded = Recorded::new(&format!("{SPEC}{CLAIMS}"));
    let rendered = recorded.render(&Template::named("claims")).unwrap();
    insta::assert_snapshot!("template", rendered.markdown);
    assert!(rendered.files.is_empty(), "it has no charts");
}

/// All cells have three steps, which no mistake of the spec is.
#[test]
fn a_figure_that_cannot_be_divided_by_leaves_a_claim_untested() {
    let claim = "claims:\n- claim: A\n  source: B\n  holds: 1 / (mean('steps', dtype='int4', rank=4) - 3) > 0\n";
    let markdown = Recorded::new(&format!("{SPEC}{claim}")).markdown("claims");
    assert!(markdown.contains("   * untested: unable to calculate"), "{markdown}");
}

/// The first seed of int4 · 4 makes 1684 or 1697 tokens a second.
#[test]
fn a_single_run_decides_what_ten_percent_do_not_change() {
    let claim = |holds: &str| {
        let claims = format!("claims:\n- claim: A\n  source: B\n  holds: {holds}\n");
        let recorded = Recorded::new(&format!("{SPEC}{claims}").replace("repeats: 2", "repeats: 1"));
        recorded.markdown("claims")
    };
    let speed = "mean('tokens_per_second', dtype='int4', rank=4)";
    let bytes = "mean('allocated_peak_bytes', dtype='int4', rank=4)";
    for (holds, verdict) in [
        (format!("{speed} > 1000"), "**supported**"),
        (format!("{speed} > 1600"), "undecided"),
        (format!("{speed} < 1600"), "undecided"),
        (format!("{speed} > 3000"), "**refuted**"),
        (format!("{bytes} < 1.000001 * {bytes}"), "**supported**"),
    ] {
        let markdown = claim(&holds);
        assert!(markdown.contains(&format!("| {verdict} |")), "{holds}: {markdown}");
    }
    assert!(
        claim(&format!("{speed} > 1600"))
            .contains("it is supported by a single run, and refuted with tokens\\_per\\_second of")
    );
}

/// The two seeds make 1684 and 1697 tokens a second.
const SPREAD: &str = "\
claims:
- claim: Rank 4 is fast in 4 bits
  source: Somebody
  measured:
    speed: { value: \"mean('tokens_per_second', dtype='int4', rank=4)\", unit: tokens/s, decimals: 0 }
    cells: { value: \"means('steps', dtype='int4', rank=4) | length\" }
  holds: speed BOUND
";

#[test]
fn what_repeats_disagree_about_is_undecided() {
    let check = |bound: &str, expect: &str| {
        let claims = SPREAD.replace("BOUND", bound);
        let recorded = Recorded::new(&format!("{SPEC}{claims}  expect: {expect}\n"));
        recorded.expctl(&["report", "experiments/rank_sweep.yaml"]).exits(0);
        let markdown = recorded.read("results/rank_sweep.md");
        let output = recorded.expctl(&["report", "experiments/rank_sweep.yaml", "--check=pages"]);
        (markdown, output.stderr, output.code)
    };
    for expect in ["supported", "refuted"] {
        for (bound, verdict) in [("< 1688", "refuted"), ("> 1688", "supported")] {
            let (markdown, stderr, code) = check(bound, expect);
            let why = format!("it is {verdict} by the means, and by 1 of 2 repeats alone");
            assert_eq!(code, 0, "{stderr}");
            assert!(
                markdown.contains("Undecided: the repeats, or a single run, do not decide it."),
                "{markdown}"
            );
            assert!(markdown.contains(&format!("   * undecided: {why}\n")), "{markdown}");
            assert!(
                markdown.contains("| undecided | speed: 1,690 tokens/s (1,684 to 1,697); cells: 1 |"),
                "{markdown}"
            );
            assert!(
                stderr.contains(&format!("undecided: Rank 4 is fast in 4 bits ({why}; speed: 1,690")),
                "{stderr}"
            );
        }
        for (bound, verdict, other, direction) in [
            ("> 1680", "supported", "refuted", "lower"),
            ("> 1700", "refuted", "supported", "higher"),
        ] {
            let (_, stderr, code) = check(bound, expect);
            let why = format!("it is {verdict}, and {other} with speed two standard deviations {direction}");
            assert!(code == 0 && stderr.contains(&why), "{stderr}");
        }
        for (bound, verdict) in [("> 1600", "supported"), ("< 1600", "refuted")] {
            let (markdown, stderr, code) = check(bound, expect);
            assert_eq!(code, i32::from(verdict != expect), "{stderr}");
            assert!(markdown.contains(&format!("| **{verdict}** | speed")), "{markdown}");
        }
    }
}

#[test]
fn a_check_asks_for_fresh_files_and_for_claims_that_hold() {
    let recorded = Recorded::new(&format!("{SPEC}{CLAIMS}"));
    let spec = "experiments/rank_sweep.yaml";
    let report = || recorded.expctl(&["report", spec]);
    let check = || recorded.expctl(&["report", spec, "--check=pages"]).to_string();
    insta::assert_snapshot!("check_of_stale_files", check());
    report();
    insta::assert_snapshot!("check_of_claims", check());

    let (kept, _) = CLAIMS.split_once("- claim: Rank 256 trains").unwrap();
    recorded.write(spec, format!("{SPEC}{kept}"));
    assert!(
        check().starts_with("exit code 1"),
        "a claim that went makes the report stale"
    );
    report();
    insta::assert_snapshot!("check_of_what_is_expected", check());
    recorded.write(spec, format!("{SPEC}{}", kept.replace("  expect: refuted\n", "")));
    assert!(check().contains("exit code 1\nresults/rank_sweep.md is up to date with results/rank_sweep\n2 claims"));
}

#[test]
fn a_wrong_claim_is_shown_where_it_stands() {
    let claim = |keys: &str| {
        format!(
            "{SPEC}claims:\n- claim: A\n  source: B\n  {}\n",
            keys.replace('\n', "\n  ")
        )
    };
    for (name, keys) in [
        ("claim_syntax", "holds: mean('allocated_peak_bytes', rank=4"),
        (
            "claim_with_unknown_name",
            "holds: savd > 0.5\nmeasured: {saved: {value: 1}}",
        ),
        (
            "claim_with_unknown_column",
            "holds: mean('alocated_peak_bytes', rank=4, dtype='int4') > 1",
        ),
        (
            "claim_behind_and",
            "holds: 1 < 0.5 + mean('steps', rank=4, dtype='int4') / 100 and mean('step', rank=4, dtype='int4') > 1",
        ),
        ("claim_with_unknown_key", "holds: \"mean('steps', rnak=4) > 1\""),
        (
            "claim_without_cells",
            "cells: {rank: 4}\nholds: \"mean('steps', dtype='int8') > 1\"",
        ),
        ("claim_with_cells_of_none", "cells: {rank: 8}\nholds: mean('steps') > 1"),
        ("claim_with_many_cells", "holds: mean('steps', rank=4) > 1"),
        ("claim_with_all_cells", "holds: mean('steps') > 1"),
        ("claim_with_text_for_cells", "holds: mean('steps', 'int4') > 1"),
        (
            "claim_that_is_no_condition",
            "holds: mean('steps', rank=4, dtype='int4')",
        ),
        (
            "claim_with_later_value",
            "holds: a > 1\nmeasured: {a: {value: b + 1}, b: {value: 1}}",
        ),
        (
            "claim_with_text_and_unit",
            "holds: a == 'ok'\nmeasured: {a: {value: \"status(rank=4, dtype='int4')\", unit: MiB}}",
        ),
        (
            "claim_with_impossible_name",
            "holds: 'true'\nmeasured: {1st: {value: 1}}",
        ),
        ("claim_without_condition", "measured: {a: {value: 1}}"),
        ("claim_expecting_nothing_known", "holds: 'true'\nexpect: untested"),
        (
            "claim_in_a_block",
            "holds: |\n  mean('steps', rank=4, dtype='int4') > 1\n  and mean('step', rank=4, dtype='int4') > 1",
        ),
    ] {
        let mistake = Project::new(&claim(keys)).expctl(&["validate", "spec.yaml"]).exits(2);
        insta::assert_snapshot!(name, mistake.stderr.strip_prefix("error: ").unwrap());
    }
}
