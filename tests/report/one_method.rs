//! `expctl report SPEC --only VALUE --baseline VALUE`.

use crate::{Recorded, SPEC};

fn pretrained() -> Recorded {
    Recorded::new(&SPEC.replace("defaults: {", "defaults: { model: ./model,"))
}

#[test]
fn a_value_is_compared_with_another_at_each_place() {
    let recorded = pretrained();
    let report = |only: &str, baseline: &str| {
        let arguments = ["report", "results/rank_sweep", "--only", only, "--baseline", baseline];
        recorded.expctl(&arguments)
    };
    let text = report("rank=16", "rank=4").exits(0).stdout;
    insta::assert_snapshot!("one_value", text);
    assert_eq!(text.matches("| Held-out loss ").count(), 2, "bfloat16 and int4");
    // The method of a cell follows from several keys.
    let methods = report("qlora", "LoRA").exits(0).stdout;
    assert!(
        methods.contains("Compared with `LoRA` at `rank 4`, `QLoRA` trains"),
        "{methods}"
    );
    assert_eq!(
        report("int4", "bfloat16").exits(0).stdout.matches("`int4`").count(),
        methods.matches("`QLoRA`").count()
    );

    let spec = "experiments/rank_sweep.yaml";
    let to_file = [
        "report",
        spec,
        "--only",
        "int4",
        "--baseline",
        "bfloat16",
        "--output",
        "int4.md",
    ];
    recorded.expctl(&to_file).exits(0).stdout_has("wrote int4.md");
    assert_eq!(recorded.read("int4.md"), report("int4", "bfloat16").exits(0).stdout);
}

#[test]
fn values_that_are_not_there_are_errors() {
    let recorded = pretrained();
    let refused = |arguments: &[&str], message: &str| {
        let arguments = [&["report", "results/rank_sweep"][..], arguments].concat();
        recorded.expctl(&arguments).exits(2).stderr_has(message);
    };
    refused(&["--only", "int8", "--baseline", "bfloat16"], "did you mean `int4`?");
    refused(
        &["--only", "int4", "--baseline", "rank=5"],
        "there are dtype bfloat16, int4; rank 4, 16, 64, 256",
    );
    refused(
        &["--only", "int4", "--baseline", "QLoRA"],
        "no two cells of `int4` and `QLoRA` agree in all else",
    );
    refused(&["--only", "int4"], "--baseline");
    refused(&["--only", "int4", "--baseline", "bfloat16", "--check"], "--check");
    let inside = [
        "--only",
        "int4",
        "--baseline",
        "bfloat16",
        "--output",
        "results/rank_sweep/cells.csv",
    ];
    refused(&inside, "that is a part of the study");
    let report = [&inside[..5], &["results/rank_sweep.md"]].concat();
    refused(&report, "that is the study's report");
}
