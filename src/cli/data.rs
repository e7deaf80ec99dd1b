//! `expctl data DATA`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use base::text::{format, visible};
use cell::Stack;
use clap::ValueEnum;
use data::{Preview, Shown, Tokens, preview};
use runner::Purpose;
use serde_json::json;
use spec::{Names, Overrides, Recipe};

use super::fetch::{fetch, fetch_description};
use super::print;

const EXAMPLES: &str = "Examples:
  expctl data chats.jsonl --model ./my-model
  expctl data alpaca.json --set data.chat_template=chatml --model ./my-model
  expctl data owner/name --set data.split=test";

/// Columns of a histogram.
const WIDTH: usize = 40;

/// Lengths are grouped into so many at most.
const GROUPS: usize = 12;

/// Show what data are taken for, before anything is trained on them
///
/// Prints the files, their columns, what a sample is, the first sample as it is trained on with what is predicted marked,
/// the lengths of all samples, and what is not read or left out. Lengths and the text of conversations need the
/// tokenizer of --model.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The data: a file, a folder, a pattern such as 'texts/*.jsonl', or a name on the Hugging Face Hub
    data: String,
    /// The model whose tokenizer and chat template are taken: a directory, or a name on the Hugging Face Hub
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Set a key, such as data.chat_template=chatml or max_seq_length=2048; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The first samples that are shown
    #[arg(long, value_name = "N", default_value_t = 1)]
    samples: usize,
    /// How it is printed; json has the first rows as the file has them, and their token ids
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// An object
    Json,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // A preset of our trainer has no tokenizer of a model's, and stands for any.
    let (model, stack) = match &args.model {
        Some(model) => (model.as_str(), Stack::Torch),
        None => ("tiny", Stack::Candle),
    };
    let names = Names {
        model: model.into(),
        data: Some(args.data.clone()),
        gpu: None,
        stack,
        recipe: Recipe::frugal(),
        roots: fetch_description(model)?,
    };
    let mut study = names.study(&Overrides::from_environment(args.set.clone())?)?;
    fetch(&mut study, Purpose::Plan, |_| true)?;
    let Some(study_cell) = study.cells.first() else {
        bail!("no data")
    };
    let (options, roots) = (study_cell.cell.data_options(), study.roots());
    let config = arch::locate(&options.model, &roots)?.config()?;
    let seen = preview(&options, &config, &roots, args.samples)?;
    print(&match args.format {
        Format::Text => for_people(&seen, options.max_seq_length),
        Format::Json => format!("{:#}\n", as_json(&seen)),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(seen: &Preview) -> serde_json::Value {
    let ids = |samples: &Vec<Shown>| samples.iter().map(|shown| shown.ids.clone()).collect::<Vec<_>>();
    let tokens = seen.tokens.as_ref().map(|tokens| {
        json!({
            "samples": tokens.lengths.len(),
            "tokens": tokens.lengths.iter().sum::<usize>(),
            "predicted": tokens.predicted,
            "longest": tokens.lengths.last(),
            "largest_micro_batch": tokens.largest.map(|(sequences, tokens)| json!({"sequences": sequences, "tokens": tokens})),
        })
    });
    json!({
        "files": seen.files,
        "columns": seen.columns,
        "taken_for": seen.form,
        "read": seen.read,
        "rows": seen.rows,
        "first": seen.first,
        "ids": seen.samples.as_ref().map(ids),
        "training": tokens,
        "remarks": seen.remarks,
    })
}

fn for_people(seen: &Preview, max_seq_length: usize) -> String {
    let mut out = String::new();
    let columns: Vec<String> = seen.columns.iter().map(|column| visible(column).into_owned()).collect();
    let read: Vec<String> = seen
        .read
        .iter()
        .map(|column| format!("`{}`", visible(column)))
        .collect();
    // Writing to a string cannot fail.
    if seen.files.len() != 1 {
        let _ = writeln!(out, "{}", visible(&seen.origin));
    }
    let indent = if seen.files.len() == 1 { "" } else { "  " };
    for file in seen.files.iter().take(5) {
        let _ = writeln!(out, "{indent}{}", visible(file));
    }
    if seen.files.len() > 5 {
        let _ = writeln!(out, "  and {} more", seen.files.len() - 5);
    }
    if !columns.is_empty() {
        let _ = writeln!(out, "columns: {}", columns.join(", "));
    }
    let _ = write!(out, "{} samples, taken for {}", integer(seen.rows as u64), seen.form);
    let _ = match read.is_empty() {
        true => writeln!(out),
        false => writeln!(out, " in {}", read.join(" and ")),
    };
    for (number, shown) in seen.samples.iter().flatten().enumerate() {
        let _ = writeln!(out, "\nsample {} (what is predicted is marked with |)", number + 1);
        for (text, is_predicted) in &shown.parts {
            let mark = if *is_predicted { '|' } else { ' ' };
            for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                let _ = writeln!(out, "  {mark} {}", visible(line));
            }
        }
        let (tokens, predicted) = (shown.ids.len(), shown.predicted());
        let _ = writeln!(out, "  {tokens} tokens, {predicted} of them predicted");
    }
    match &seen.tokens {
        Some(tokens) => lengths(tokens, max_seq_length, &mut out),
        None => {
            let _ = writeln!(
                out,
                "\nthe text of samples and their lengths need a tokenizer: name the model, as in --model ./my-model"
            );
        }
    }
    for remark in &seen.remarks {
        let _ = writeln!(out, "note: {}", visible(remark));
    }
    out
}

fn lengths(tokens: &Tokens, max_seq_length: usize, out: &mut String) {
    let lengths = &tokens.lengths;
    let (Some(&shortest), Some(&longest)) = (lengths.first(), lengths.last()) else {
        return;
    };
    let count = lengths.len();
    let all: usize = lengths.iter().sum();
    let at = |share: f64| lengths[((count - 1) as f64 * share).round() as usize];
    let number = |number: usize| integer(number as u64);
    let _ = writeln!(
        out,
        "\ntrained on: {} samples, {} tokens, {} of them predicted",
        number(count),
        number(all),
        integer(tokens.predicted)
    );
    let _ = writeln!(
        out,
        "tokens of a sample, cut at {}: shortest {}, median {}, 95 % at most {}, longest {}",
        number(max_seq_length),
        number(shortest),
        number(at(0.5)),
        number(at(0.95)),
        number(longest)
    );
    // Groups of a round number of tokens.
    let span = longest - shortest + 1;
    let step = (0..)
        .map(|power| 1usize << power)
        .find(|step| span.div_ceil(*step) < GROUPS)
        .unwrap_or(span);
    let first = shortest / step;
    let mut groups = vec![0usize; longest / step - first + 1];
    lengths.iter().for_each(|length| groups[length / step - first] += 1);
    let most = groups.iter().copied().max().unwrap_or(1);
    for (index, samples) in groups.iter().enumerate() {
        let start = (first + index) * step;
        let range = match step {
            1 => number(start),
            _ => format!("{} to {}", number(start), number(start + step - 1)),
        };
        let bar = "#".repeat((samples * WIDTH).div_ceil(most));
        let _ = writeln!(out, "  {range:>16}  {:>8}  {bar}", number(*samples));
    }
    if let Some((sequences, tokens)) = tokens.largest {
        let of = if sequences == 1 {
            "1 sequence".to_owned()
        } else {
            format!("{sequences} sequences")
        };
        let _ = writeln!(out, "largest micro-batch: {of}, {} tokens with padding", number(tokens));
    }
}

fn integer(number: u64) -> String {
    format::number(number.into(), 0)
}
