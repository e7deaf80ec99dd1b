//! Sentences put to the test: their verdicts, what `--check` makes of them, and what is said of wrong ones.

use std::fs;

use assert_cmd::Command;
use expctl::report::Template;

use crate::{Place, SPEC};

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
    let place = Place::new(&format!("{SPEC}{CLAIMS}"));
    for template in ["comparison", "method_comparison"] {
        let markdown = place.render(&Template::named(template)).unwrap().markdown;
        let (_, part) = markdown.split_once("## Claims").unwrap();
        let (part, _) = part.split_once("\n## ").unwrap();
        insta::assert_snapshot!("claims", part);
    }
}

#[test]
fn a_check_asks_for_fresh_files_and_for_claims_that_hold() {
    let place = Place::new(&format!("{SPEC}{CLAIMS}"));
    let check = |args: &[&str]| {
        let assert = place.expctl(&[&["report", "experiments/rank_sweep.yaml"], args].concat());
        let output = assert.get_output();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        format!(
            "exit code {}\n{}---\n{}",
            output.status.code().unwrap(),
            text(&output.stdout),
            text(&output.stderr)
        )
    };
    insta::assert_snapshot!("check_of_stale_files", check(&["--check"]));
    check(&[]);
    insta::assert_snapshot!("check_of_claims", check(&["--check"]));

    let path = place.path("experiments/rank_sweep.yaml");
    let (kept, _) = CLAIMS.split_once("- claim: Rank 256 trains").unwrap();
    fs::write(&path, format!("{SPEC}{kept}")).unwrap();
    assert!(
        check(&["--check"]).starts_with("exit code 1"),
        "a claim that went makes the report stale"
    );
    check(&[]);
    insta::assert_snapshot!("check_of_what_is_expected", check(&["--check"]));
    fs::write(&path, format!("{SPEC}{}", kept.replace("  expect: refuted\n", ""))).unwrap();
    assert!(check(&["--check"]).contains("exit code 1\nresults/rank_sweep.md is up to date\n2 claims"));
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
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.yaml"), claim(keys)).unwrap();
        let mut command = Command::cargo_bin("expctl").unwrap();
        let assert = command
            .current_dir(root.path())
            .args(["validate", "a.yaml"])
            .assert()
            .code(2);
        let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        insta::assert_snapshot!(name, text.strip_prefix("error: ").unwrap());
    }
}
