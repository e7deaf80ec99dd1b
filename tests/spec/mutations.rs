//! No text makes the reader panic, hang or take long.

use std::path::Path;
use std::time::{Duration, Instant};

use expctl::spec::Study;

use crate::{parse, study, sweep};

/// Texts that mutations start from: the shipped specs, and one with everything in it.
fn seeds() -> Vec<String> {
    const EVERYTHING: &str = "
name: everything
description: |
  Text.
defaults: &d
  model: tiny
  data: {synthetic: {lengths: [4, 8], samples: 16}}
  gradient_checkpointing: {every: 2}
  target_modules: [q_proj, v_proj]
  device_memory: 1.5GiB
  learning_rate: 1e-4
  allocator: {backend: system}
  env: {A: 'x', \"B\": null, <<: {C: 'y'}}
sweep:
  grid: {rank: [4, 8, 16], dtype: [bfloat16, int4], allocator.env.MALLOC_ARENA_MAX: ['1', null]}
  zip: {batch_size: [4, 1], gradient_accumulation_steps: [1, 4]}
  exclude: [\"rank == 4 and dtype == 'int4'\", rank > 8]
  include: [{rank: 0, dtype: float32, target_modules: all-linear}, {<<: *d, seed: 3}]
repeats: 2
limits: {timeout: 10m}
report: {template: comparison, output: results/x.md, baseline: {rank: 8, dtype: int4, batch_size: 1, allocator.env.MALLOC_ARENA_MAX: null}}
";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut seeds: Vec<String> = files
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    seeds.push(EVERYTHING.into());
    seeds
}

/// One random change: characters removed, doubled, swapped, replaced by those that mean something in YAML, or lines moved.
fn mutate(text: &str, random: &mut impl rand::Rng) -> String {
    const TOKENS: [&str; 24] = [
        ":",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "\n",
        "  ",
        "\t",
        "&a ",
        "*a",
        "<<: ",
        "!",
        "|",
        ">",
        "'",
        "\"",
        "#",
        "---\n",
        "null",
        "1e999",
        "-1",
        "\u{0}",
        "é\u{feff}",
    ];
    let boundaries: Vec<usize> = (0..=text.len()).filter(|&index| text.is_char_boundary(index)).collect();
    let mut pick = || boundaries[random.random_range(0..boundaries.len())];
    let (a, b) = (pick(), pick());
    let (start, end) = (a.min(b), a.max(b).min(a.min(b) + 40));
    let end = (end..=text.len())
        .find(|&index| text.is_char_boundary(index))
        .unwrap_or(start);
    let (head, middle, tail) = (&text[..start], &text[start..end], &text[end..]);
    match random.random_range(0..5) {
        0 => format!("{head}{tail}"),
        1 => format!("{head}{middle}{middle}{tail}"),
        2 => format!("{head}{}{middle}{tail}", TOKENS[random.random_range(0..TOKENS.len())]),
        3 => format!("{head}{}{tail}", TOKENS[random.random_range(0..TOKENS.len())]),
        _ => {
            let mut lines: Vec<&str> = text.split('\n').collect();
            let (a, b) = (random.random_range(0..lines.len()), random.random_range(0..lines.len()));
            lines.swap(a, b);
            lines.join("\n")
        }
    }
}

#[test]
fn ten_thousand_mutations_neither_panic_nor_hang() {
    use rand::SeedableRng as _;

    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let seeds = seeds();
    seeds.iter().for_each(|seed| drop(study(seed)));
    let (mut valid, mut slowest) = (0, Duration::ZERO);
    for round in 0..10_000 {
        let mut text = seeds[round % seeds.len()].clone();
        for _ in 0..1 + round % 4 {
            text = mutate(&text, &mut random);
        }
        let begin = Instant::now();
        match parse(&text, &[]) {
            Ok(study) => valid += usize::from(!study.cells.is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        slowest = slowest.max(begin.elapsed());
    }
    assert!((100..9_900).contains(&valid), "{valid} of the mutated specs are valid");
    assert!(slowest.as_secs() < 5, "one took {slowest:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn ten_thousand_cells_validate_in_seconds() {
    let list = |most: usize| (1..=most).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let text = sweep(&format!(
        "grid: {{rank: [{}], seed: [{}], dtype: [bfloat16, int4]}}\nexclude: rank == 200 and dtype == 'int4'",
        list(100),
        list(50)
    ));
    let quickest = (0..3)
        .map(|_| timed(|| assert_eq!(study(&text).cells.len(), 10_000)))
        .min();
    assert!(quickest < Some(Duration::from_secs(4)), "{quickest:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_study_of_ten_thousand_cells_is_written_and_read_in_seconds() {
    let list = (1..=10_000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let study = study(&sweep(&format!("grid: {{seed: [{list}]}}")));
    let folder = tempfile::tempdir().unwrap();
    let took = timed(|| {
        study.write(folder.path()).unwrap();
        assert!(Study::read(folder.path()).unwrap() == study);
    });
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// The CPU time of this thread, which does not grow if other programs run.
#[cfg(target_os = "linux")]
fn timed(work: impl FnOnce()) -> Duration {
    let begin = cpu_time();
    work();
    cpu_time() - begin
}

/// The first number of Linux's `schedstat`: nanoseconds on the CPU.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = text.split_whitespace().next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}
