//! That the suite can fail: a small page for each kind of fault.

use crate::common::project::Output;
use crate::markdown::Document;
use crate::printed::difference;
use crate::tree::Tree;

/// The commands of a page with their line, their exit code and their output.
fn read(page: &str) -> Vec<(usize, String, i32, Option<String>)> {
    let commands = Document::read("page.md", page).commands;
    let parts = |command: crate::command::Command| (command.line, command.text, command.exits, command.output);
    commands.into_iter().map(parts).collect()
}

fn command(line: usize, text: &str) -> (usize, String, i32, Option<String>) {
    (line, text.to_owned(), 0, None)
}

/// What is wrong with a page.
#[track_caller]
fn fault(page: &str) -> String {
    let mut faults = Document::read("page.md", page).faults_in(&Tree::copy());
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults.remove(0)
}

#[test]
fn commands_are_found_where_they_stand() {
    let page = "\
# A page

With `cargo run --release -- list --gpus` and `cargo`, or `expctl list
--models`.

    # a comment
    expctl plan a.yaml \\
        --budget 6GiB   # its answer
    mkdir -p b && cp a.yaml b
    git add b

```sh
RANK=4 expctl plan a.yaml
cat > b.yaml <<'END'
name: b
END
expctl plan b.yaml
```

```yaml
expctl: no command
```

    mkdir alone

| to | command |
|---|---|
| list | `expctl list` |
";
    let expected = [
        command(3, "cargo run --release -- list --gpus"),
        command(3, "expctl list --models"),
        command(7, "expctl plan a.yaml \\\n    --budget 6GiB   # its answer"),
        command(9, "mkdir -p b && cp a.yaml b"),
        command(10, "git add b"),
        command(13, "RANK=4 expctl plan a.yaml"),
        command(14, "cat > b.yaml <<'END'\nname: b\nEND"),
        command(17, "expctl plan b.yaml"),
        command(28, "expctl list"),
    ];
    assert_eq!(read(page), expected);
}

#[test]
fn outputs_and_exit_codes_belong_to_the_command_before_them() {
    let page = "\
<!-- exits 2 -->

    expctl plan a.yaml
    expctl plan b.yaml   # exits 1

It prints, as `expctl plan` does:

```text
oversize
```

```console
$ expctl list
one
$ expctl list --gpus
$ ls
b.yaml
```

<!-- expctl validate c.yaml -->

```text
wrong
```
";
    let with =
        |line, text: &str, exits, output: Option<&str>| (line, text.to_owned(), exits, output.map(str::to_owned));
    let expected = [
        with(3, "expctl plan a.yaml", 2, None),
        with(4, "expctl plan b.yaml   # exits 1", 1, Some("oversize\n")),
        with(6, "expctl plan", 0, None),
        with(13, "expctl list", 0, Some("one\n")),
        with(15, "expctl list --gpus", 0, None),
        with(20, "expctl validate c.yaml", 0, Some("wrong\n")),
    ];
    assert_eq!(read(page), expected);
}

#[test]
fn a_page_that_is_right_has_no_fault() {
    let page = "\
`expctl plan` and `expctl plan SPEC --budget SIZE|GPU` and `expctl COMMAND --help`

<!-- exits 2 -->

    expctl validate typo.yaml

```text
error: defaults.gradient_chekpointing: unknown key
 --> typo.yaml:…
…
  = help: did you mean `gradient_checkpointing`?
```
";
    assert_eq!(
        Document::read("page.md", page).faults_in(&Tree::copy()),
        Vec::<String>::new()
    );
}

#[test]
fn a_wrong_exit_code_is_a_fault() {
    let fault = fault("Text\n\n    expctl validate typo.yaml\n");
    assert!(
        fault.starts_with("page.md:3: expctl validate typo.yaml\nthe document says exit code 0: exit code 2\n"),
        "{fault}"
    );
    assert!(fault.contains("did you mean"), "{fault}");
}

#[test]
fn an_option_that_is_not_there_is_a_fault() {
    assert_eq!(
        fault("`expctl plan SPEC --budget SIZE --buget=SIZE`"),
        "page.md:1: expctl plan SPEC --budget SIZE --buget=SIZE\nit has no option `--buget`"
    );
    assert!(fault("`expctl plam SPEC`").contains("it is no command"));
    assert!(fault("`expctl compare experiments/none.yaml B`").ends_with("there is no `experiments/none.yaml`"));
    assert!(fault("`expctl validate my.yaml --budget 6GiB`").contains("exit code 2"));
}

#[test]
fn what_another_program_names_and_the_tree_has_not_is_a_fault() {
    let page = "    packaging/wheel x86_64-unknown-linux-gnu\n    cargo test --release --test documents\n\n`python python/golden/make.py`\n";
    let found = Document::read("page.md", page);
    assert_eq!(found.commands.len(), 3);
    assert_eq!(found.faults_in(&Tree::copy()), Vec::<String>::new());
    assert!(fault("    packaging/weel\n").ends_with("there is no `packaging/weel`"));
    assert!(fault("`cargo bench --bench alocator`").ends_with("there is no `benches/alocator.rs`"));
    assert!(fault("`python python/bench/against_torch.py --rounds 7`").ends_with("it has no option `--rounds`"));
}

#[test]
fn a_program_that_the_suite_does_not_know_is_a_fault() {
    let unknown = fault("```sh\nmake all\n```\n");
    assert!(
        unknown.starts_with("page.md:2: make all\nthe suite knows no program `make`"),
        "{unknown}"
    );
    let unknown = fault("```console\n$ expctl list\n…\n$ make all\n```\n");
    assert!(
        unknown.starts_with("page.md:4: make all\nthe suite knows no program `make`"),
        "{unknown}"
    );
    let left_out = "<!-- not run: it needs make -->\n\n```sh\nmake all\n```\n";
    assert!(Document::read("page.md", left_out).strays.is_empty());
}

#[test]
fn an_output_that_is_not_printed_is_a_fault() {
    let page = "```console\n$ expctl validate my.yaml\nmy.yaml is wrong\n…\n```\n";
    let fault = fault(page);
    assert!(
        fault.contains("it does not print\nmy.yaml is wrong\nbut exit code 0\n"),
        "{fault}"
    );
}

#[test]
fn an_output_of_a_command_that_is_not_run_is_a_fault() {
    let page = "    expctl validate SPEC\n\n```text\nall is well\n```\n";
    assert!(fault(page).ends_with("it is not run, so its output cannot be compared"));
}

#[test]
fn an_output_without_a_command_is_a_fault() {
    let page = "`expctl schema`\n\n## A heading\n\n```text\nan output\n```\n";
    assert!(fault(page).starts_with("page.md:5: this output belongs to no command"));
}

#[test]
fn lines_and_parts_are_left_out_with_an_ellipsis_alone() {
    let output = Output {
        code: 0,
        stdout: "cell 1: 3.2 s on a day\n\ncell 2: 4 s\nall\n".to_owned(),
        stderr: "a warning\n".to_owned(),
    };
    for shown in [
        "cell 1: 3.2 s on a day\n\ncell 2: 4 s\nall",
        "cell 1: … s on …\n…\nall",
        "cell…y\n[…]",
        "…\ncell 2: 4 s\nall\n…",
        "a warning",
    ] {
        assert_eq!(difference(shown, &output), None, "{shown}");
    }
    for (shown, said) in [
        ("cell 1: 3.2 s on a day", "left out without `…`"),
        ("…\nall\ncell 2: 4 s\n…", "in another order"),
        ("…\ncell 2: 5 s\n…", "does not print\ncell 2: 5 s\n"),
        ("cell 1: … m on …\n…", "does not print\ncell 1: … m on …\n"),
        ("cell … s on … night\n…", "does not print\ncell … s on … night\n"),
    ] {
        let difference = difference(shown, &output).expect(shown);
        assert!(difference.contains(said), "{difference}");
    }
}
