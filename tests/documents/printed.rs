//! What a document shows of an output, against what is printed.

use crate::common::project::Output;

/// Where the output differs from what is shown. It must be all of standard output or all of standard error.
pub fn difference(shown: &str, output: &Output) -> Option<String> {
    let shown: Vec<&str> = lines(shown);
    let streams = [lines(&output.stdout), lines(&output.stderr)];
    if streams.iter().any(|printed| agree(&shown, printed)) {
        return None;
    }
    let is_printed = |line: &&&str| streams.iter().flatten().any(|printed| line_agrees(line, printed));
    let missing: Vec<&str> = shown.iter().filter(|line| !is_printed(line)).copied().collect();
    let output = excerpt(output);
    Some(match missing.is_empty() {
        true => format!("its lines are shown in another order, or some are left out without `…`: {output}"),
        false => format!("it does not print\n{}\nbut {output}", missing.join("\n")),
    })
}

/// An output's exit code with its first lines.
pub fn excerpt(output: &Output) -> String {
    let first = |text: &str| -> String { text.lines().take(20).map(|line| format!("{line}\n")).collect() };
    Output {
        code: output.code,
        stdout: first(&output.stdout),
        stderr: first(&output.stderr),
    }
    .to_string()
}

fn lines(text: &str) -> Vec<&str> {
    text.trim().lines().map(str::trim_end).collect()
}

fn agree(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&("…" | "[…]"), shown)) => (0..=printed.len()).any(|skipped| agree(shown, &printed[skipped..])),
        Some((line, shown)) => printed
            .split_first()
            .is_some_and(|(first, printed)| line_agrees(line, first) && agree(shown, printed)),
    }
}

/// Whether a line is printed so, with anything in the places of `…`.
fn line_agrees(shown: &str, printed: &str) -> bool {
    let Some((begin, rest)) = shown.split_once('…') else {
        return shown == printed;
    };
    let Some(printed) = printed.strip_prefix(begin) else {
        return false;
    };
    let Some((middle, end)) = rest.rsplit_once('…') else {
        return printed.ends_with(rest);
    };
    let Some(mut printed) = printed.strip_suffix(end) else {
        return false;
    };
    middle.split('…').all(|part| match printed.split_once(part) {
        Some((_, behind)) => {
            printed = behind;
            true
        }
        None => false,
    })
}
