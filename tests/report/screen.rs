//! What terminals of 60, 80 and 120 columns get.

use crate::{Recorded, SPEC};

/// What a command prints on a screen of this width.
fn on_screen(recorded: &Recorded, width: usize, arguments: &[&str]) -> String {
    let mut command = recorded.project.command(arguments);
    let output = command.env("COLUMNS", width.to_string()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn tables_heed_the_width_of_the_screen() {
    let recorded = Recorded::new(SPEC);
    for width in [60, 80, 120] {
        for (name, arguments) in [
            ("list", &["list", "results/rank_sweep"][..]),
            ("compare", &["compare", "results/rank_sweep", "results/rank_sweep"]),
        ] {
            let text = on_screen(&recorded, width, arguments);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(longest <= width, "{longest} of {width}:\n{text}");
            insta::assert_snapshot!(format!("{name}_at_{width}"), text);
        }
    }
    let piped = recorded.expctl(&["list", "results/rank_sweep"]).exits(0).stdout;
    assert_eq!(piped, on_screen(&recorded, 300, &["list", "results/rank_sweep"]));
}
