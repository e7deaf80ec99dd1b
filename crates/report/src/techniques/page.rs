//! The page as Markdown.

use std::fmt::Write;

use base::text::format::{self, ABSENT};
use base::text::to_flow_yaml;
use cell::keys::keys;
use cell::{Cell, stacks};
use options::Stack;
use spec::values_of;
use techniques::{Pair, TECHNIQUES, Technique, pairs};

use super::super::markdown;
use super::measured::{Saving, StudyRows, savings};

/// The page of all techniques, with what these studies measured.
pub fn page(studies: &[StudyRows]) -> String {
    let measured: Vec<(&Technique, Vec<Saving>)> = TECHNIQUES
        .into_iter()
        .map(|technique| (technique, savings(technique, studies)))
        .collect();
    let mut text = String::from(INTRODUCTION);
    text += &summary(&measured);
    for (technique, savings) in &measured {
        text += &section(technique, savings);
    }
    text += &related();
    text += &together(&pairs());
    markdown::tidy(&text)
}

const INTRODUCTION: &str = "\
# Techniques that save memory

<!-- Written by `expctl list --techniques`; the texts are in `crates/techniques/src/`. -->

Each technique is one key of a cell, and `expctl fit` searches all of them. Savings and prices are measured: two
configurations of one study differ in the technique's keys alone, and the pair that saves most is shown. Memory is the peak
of live tensor bytes, or of the resident set for techniques that only change what an allocator keeps. A time is shown if
the noise of both speeds allows to compare them.

";

/// The largest saving of each technique.
fn summary(measured: &[(&Technique, Vec<Saving>)]) -> String {
    let mut text =
        String::from("| technique | stacks | most saved | time a token | study |\n|---|---|---:|---:|---|\n");
    for (technique, savings) in measured {
        let most = savings.iter().max_by(|a, b| a.share().total_cmp(&b.share()));
        let (saved, time, study) = match most {
            Some(saving) => (percent(saving), time(saving), saving.study.clone()),
            None => ("not measured".into(), ABSENT.into(), ABSENT.into()),
        };
        let (link, of) = (anchor(technique), of_stacks(technique));
        let _ = writeln!(
            text,
            "| [`{}`](#{link}) | {of} | {saved} | {time} | {} |",
            technique.key,
            markdown::escape(&study)
        );
    }
    text
}

fn section(technique: &Technique, savings: &[Saving]) -> String {
    let values = values_of(technique.key).unwrap_or_default();
    let default = to_flow_yaml(&Cell::default().value(technique.key));
    let mut text = format!(
        "\n## {}\n\n{}\n\n*{values} · default `{default}` · {}*\n\n**When not:** {}\n\n",
        technique.key,
        technique.does,
        of_stacks(technique),
        technique.avoid
    );
    if savings.is_empty() {
        return text + "Not measured: no study with a report changes this key alone.\n";
    }
    text += "| study | change | peak without | peak with | saved | time a token |\n|---|---|---:|---:|---:|---:|\n";
    for saving in savings {
        let [without, with] = saving.bytes.map(|bytes| format::bytes(bytes.into()));
        let _ = writeln!(
            text,
            "| {} | {} | {without} | {with} | {} | {} |",
            markdown::escape(&saving.study),
            markdown::escape(&saving.change),
            percent(saving),
            time(saving)
        );
    }
    text
}

fn percent(saving: &Saving) -> String {
    format::percent(saving.share().into())
}

fn time(saving: &Saving) -> String {
    format::or_absent(saving.slower, format::ratio)
}

fn of_stacks(technique: &Technique) -> &'static str {
    match stacks(technique.key) {
        [Stack::Candle] => "our trainer",
        [Stack::Torch] => "PyTorch's stack",
        _ => "both",
    }
}

/// The anchor that GitHub gives the section's heading.
fn anchor(technique: &Technique) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-');
    technique.key.to_lowercase().chars().filter(kept).collect()
}

/// Keys that decide how much of a technique a cell takes, or how samples come together, with the page that explains
/// them.
const RELATED: [(&str, &str); 5] = [
    ("auto_batch_size", "out_of_memory.md"),
    ("pad_to_multiple_of", "batches.md"),
    ("group_by_length", "batches.md"),
    ("length_buckets", "batches.md"),
    ("longest_first", "batches.md"),
];

fn related() -> String {
    let mut text = String::from(
        "\n## Related keys\n\nThese take no memory away by themselves: they choose a size, or the samples that come together. \
         `on_oom` and `skip_larger`, which answer an out-of-memory, are sections of a spec: [out_of_memory.md](out_of_memory.md).\n\n\
         | key | what it does | page |\n|---|---|---|\n",
    );
    for (key, page) in RELATED {
        let doc = keys()
            .iter()
            .find(|known| known.path == key)
            .map_or("", |known| &known.doc);
        let _ = writeln!(text, "| `{key}` | {} | [{page}]({page}) |", markdown::escape(doc));
    }
    text
}

/// The techniques that go together, and the reasons of the pairs that do not.
fn together(pairs: &[Pair]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut exceptions = String::new();
    for Pair { techniques, together } in pairs {
        let [first, second] = techniques.map(|technique| technique.key);
        for name in [first, second] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if let Err(reason) = together {
            let _ = writeln!(exceptions, "* `{first}` with `{second}`: {reason}");
        }
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let but = if exceptions.is_empty() {
        ""
    } else {
        ", but for the pairs below"
    };
    format!(
        "\n## Pairs\n\nAny two of these techniques go together in our trainer, each at its strongest value{but}:\n{}.\n\nA test \
         trains the cell of every pair, and its memory is the predicted one to the byte.\n\n{exceptions}",
        names.join(", ")
    )
}
