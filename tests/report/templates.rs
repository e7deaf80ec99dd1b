//! Templates of the user's own.

use std::fs;

use expctl::report::Template;
use expctl::spec::{self, Overrides};

use crate::{Recorded, SPEC};

impl Recorded {
    /// The error of a template with this text.
    fn error(&self, text: &str) -> String {
        let path = self.path("mine/own.md.j2");
        self.write(&path, text);
        let error = self.render(&Template::File(path)).unwrap_err().to_string();
        error.replace(&self.path("").display().to_string(), "ROOT/")
    }
}

#[test]
fn an_error_in_a_template_shows_its_line() {
    let recorded = Recorded::new(SPEC);
    insta::assert_snapshot!(recorded.error("# {{ study.name }}\n{% for cell in cells %}\n{{ cell.peak }}\n{% endfor %}\n"), @r#"
    undefined value: `cell.peak` is undefined
     --> ROOT/mine/own.md.j2:3:4
      |
    3 | {{ cell.peak }}
      |    ^^^^^^^^^
    "#);
    insta::assert_snapshot!(recorded.error("# {{ study.name }}\n{% for cell in cells %}\n"), @r#"
    syntax error: unexpected end of input, expected end of block
     --> ROOT/mine/own.md.j2:2:22
      |
    2 | {% for cell in cells %}
      |                      ^^
    "#);
    insta::assert_snapshot!(recorded.error("{{ cells[0].allocated_peak_bytes | bytes(\"MB\") }}"), @r#"
    invalid operation: unknown unit `MB`; the units are B, KiB, MiB and GiB
     --> ROOT/mine/own.md.j2:1:36
      |
    1 | {{ cells[0].allocated_peak_bytes | bytes("MB") }}
      |                                    ^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(recorded.error("{{ chart('speed') }}"), @r#"
    invalid operation: unknown chart `speed`; the charts are allocator, categories, file_loss, growth, heat_map, loss_rates, memory_loss, memory_speed, waterfall
     --> ROOT/mine/own.md.j2:1:4
      |
    1 | {{ chart('speed') }}
      |    ^^^^^^^^^^^^^^
    "#);

    let own = recorded.path("mine/own.md.j2").display().to_string();
    recorded
        .expctl(&["report", "results/rank_sweep", "--template", &own])
        .exits(2)
        .stderr_has("own.md.j2:1");
}

#[test]
fn a_run_with_a_broken_template_does_not_begin() {
    let recorded = Recorded::new("name: broken\ndefaults: { model: tiny }\nreport: { template: ./none.md.j2 }\n");
    recorded
        .expctl(&["run", "experiments/broken.yaml"])
        .exits(2)
        .stderr_has("cannot read the template `");
    assert!(!recorded.dir.lock().exists());
}

#[test]
fn an_error_in_an_included_file_shows_that_file() {
    let recorded = Recorded::new(SPEC);
    fs::create_dir_all(recorded.path("mine/parts")).unwrap();
    recorded.write("mine/parts/head.md", "\n{{ nothing }}\n");
    insta::assert_snapshot!(recorded.error("{% include 'parts/head.md' %}"), @r#"
    undefined value: `nothing` is undefined
     --> ROOT/mine/parts/head.md:2:4
      |
    2 | {{ nothing }}
      |    ^^^^^^^
    "#);
}

#[test]
fn a_template_sees_its_own_folder_only() {
    let recorded = Recorded::new(SPEC);
    recorded.write("secret.txt", "secret");
    fs::create_dir_all(recorded.path("mine")).unwrap();
    std::os::unix::fs::symlink(recorded.path("secret.txt"), recorded.path("mine/link.txt")).unwrap();
    for include in [
        "../secret.txt",
        "/etc/passwd",
        "link.txt",
        "./own.md.j2",
        "parts/../../secret.txt",
    ] {
        let error = recorded.error(&format!("{{% include '{include}' %}}"));
        assert!(error.contains("own.md.j2:1"), "{include}: {error}");
    }
    recorded
        .expctl(&["report", "results/rank_sweep", "--template", "none.md.j2"])
        .exits(2)
        .stderr_has("cannot read the template `none.md.j2`: No such file");
}

#[test]
fn a_template_of_ones_own_can_use_the_parts() {
    let recorded = Recorded::new(SPEC);
    let own = "{% include 'parts/setup.md.j2' %}\n|a|\n|-|\n{% for g in groups %}\n|{{ g.label }}|\n{% endfor %}\n";
    recorded.write("experiments/own.md.j2", own);
    let spec = SPEC.replace("report: {", "report: { template: ./own.md.j2,");
    recorded.write("experiments/rank_sweep.yaml", spec);
    let study = spec::load(&recorded.path("experiments/rank_sweep.yaml"), &Overrides::default()).unwrap();
    study.write(recorded.dir.path()).unwrap();
    recorded.expctl(&["report", "experiments/rank_sweep.yaml"]).exits(0);
    let markdown = recorded.read("results/rank_sweep.md");
    assert!(
        markdown.contains("**Machine:**") && markdown.contains("| bfloat16 · 4   |"),
        "{markdown}"
    );
}

#[test]
fn a_chart_of_nothing_is_an_error_with_its_reason() {
    let recorded = Recorded::new("name: none\ndefaults: { dtype: int4, rank: 64, seed: 1 }\n");
    insta::assert_snapshot!(recorded.error("{{ has_chart('growth') }}\n{{ chart('memory_loss') }}"), @r#"
    invalid operation: nothing to draw in the chart `memory_loss`: no cell was measured; ask `has_chart("memory_loss")` first
     --> ROOT/mine/own.md.j2:2:4
      |
    2 | {{ chart('memory_loss') }}
      |    ^^^^^^^^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(Recorded::new(SPEC).error("{{ chart('waterfall') }}"), @r#"
    invalid operation: nothing to draw in the chart `waterfall`: the study does not change one key at a time; ask `has_chart("waterfall")` first
     --> ROOT/mine/own.md.j2:1:4
      |
    1 | {{ chart('waterfall') }}
      |    ^^^^^^^^^^^^^^^^^^
    "#);
    insta::assert_snapshot!(recorded.error("{{ has_chart('speed') }}"), @r#"
    invalid operation: unknown chart `speed`; the charts are allocator, categories, file_loss, growth, heat_map, loss_rates, memory_loss, memory_speed, waterfall
     --> ROOT/mine/own.md.j2:1:4
      |
    1 | {{ has_chart('speed') }}
      |    ^^^^^^^^^^^^^^^^^^
    "#);
}
