//! The page of all claims with their verdicts.

use crate::Recorded;
use crate::common::project::Project;

const SPEC: &str = "name: rank_sweep
defaults: { dtype: int4, max_steps: 3 }
sweep: { grid: { rank: [4, 16] } }
report: { output: results/rank_sweep.md, publish: reports/rank_sweep.md }
";

/// A claim of each kind over our trainer's cells; the verdicts are those of made-up figures.
const CLAIMS: &str = "claims:
- { claim: Rank 4 takes less., source: A, holds: \"mean('allocated_peak_bytes', rank=4) < mean('allocated_peak_bytes', rank=16)\" }
- { claim: Rank 4 takes more., source: A, measured: { peak: { value: \"mean('allocated_peak_bytes', rank=4)\", unit: MiB } }, holds: \"peak > mean('allocated_peak_bytes', rank=16)\", expect: refuted }
- { claim: It is four., source: A, holds: 2 + 2 == 5, expect: refuted }
- { claim: It converges., source: A, untested: Nobody looked. }
";

/// The claims of a section of the page, with their cells.
fn rows(page: &str, section: &str) -> Vec<Vec<String>> {
    let (_, after) = page.split_once(&format!("## {section}\n")).unwrap();
    let part = after.split("\n## ").next().unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| ")).skip(2);
    let cells = |row: &str| {
        row.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

#[test]
fn the_refuted_come_first_with_the_verdict_of_each_stack() {
    let spec = SPEC.replace(
        "results/rank_sweep.md }",
        "results/rank_sweep.md, publish: reports/rank_sweep.md }",
    );
    let recorded = Recorded::new(&format!("{spec}{CLAIMS}"));
    let project = &recorded.project;
    let path = "experiments/rank_sweep.yaml";
    let early = project.expctl(&["verdicts", path]).exits(2);
    early.stderr_has("the report of `experiments/rank_sweep.yaml` is not published");
    project.expctl(&["report", "--publish", path]).exits(0);

    let page = project.expctl(&["verdicts", path]).exits(0).stdout;
    assert!(page.find("## Refuted") < page.find("## Untested"), "{page}");
    assert!(page.find("## Untested") < page.find("## Supported"), "{page}");
    let study = |number: u8| format!("[rank\\_sweep](../reports/rank_sweep.md), {number}");
    let refuted = rows(&page, "Refuted");
    assert_eq!(refuted.len(), 2, "{page}");
    assert_eq!(
        refuted[0][..2],
        ["Rank 4 takes more.", "—"],
        "nothing is judged on PyTorch's stack"
    );
    assert!(refuted[0][2].starts_with("**refuted**, peak: "), "{refuted:?}");
    assert_eq!(refuted[0][3], study(2));
    assert_eq!(refuted[1][..3], ["It is four.", "by its own numbers: **refuted**", "—"]);
    assert_eq!(rows(&page, "Untested")[0][2], "untested (Nobody looked.)");
    assert_eq!(rows(&page, "Supported")[0][2..], ["supported".to_owned(), study(1)]);
}

#[test]
fn a_stale_page_fails_the_check() {
    let spec = "name: alone\ndefaults: { stack: torch }\nclaims:\n- { claim: It is., source: A, holds: mean('allocated_peak_bytes') > 0 }\n";
    let project = Project::new(spec);
    let command = ["verdicts", "spec.yaml", "--output", "page.md"];
    project.expctl(&command).exits(0);
    assert_eq!(
        rows(&project.read("page.md"), "Supported")[0][1],
        "supported",
        "it is planned"
    );
    let check = [&command[..], &["--check"]].concat();
    project.expctl(&check).exits(0);
    project.write("spec.yaml", spec.replace("It is.", "It may be."));
    project.expctl(&check).exits(1).stderr_has("`page.md` is stale");
}
