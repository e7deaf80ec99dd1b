//! The page of published figures names every source, and every spec that has figures.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use expctl::spec::{self, Overrides};

/// The sources that were searched for figures of one GPU.
const SOURCES: [&str; 40] = [
    "huggingface/transformers/blob/98513df/docs/source/en/perf_train_gpu_one.mdx",
    "modelscope/ms-swift/tree/3602360/examples/train/tuners",
    "modelscope/ms-swift/tree/3602360/examples/train/multi-gpu",
    "modelscope/ms-swift/tree/3602360/examples/train)",
    "modelscope/ms-swift/blob/3602360/docs/source_en/BestPractices/NPU-support.md",
    "pytorch/ao/blob/36027d8/torchao/optim",
    "pytorch/ao/blob/36027d8/torchao/prototype/quantized_training",
    "axolotl/tree/main/examples/colab-notebooks",
    "axolotl/tree/067b021/examples",
    "unslothai/unsloth/blob/bb66faaa33",
    "huggingface/trl/tree/f2cd577/examples/notebooks",
    "InternLM/xtuner/blob/b934f46",
    "Ledzy/BAdam/blob/bf989dc",
    "deepspeedai/DeepSpeedExamples/blob/516082c",
    "gist.github.com/chenyaofo",
    "ms-swift/blob/3602360/examples/train/liger",
    "ml-explore/mlx-lm/pull/330",
    "fms-acceleration/tree/24bdadb/scripts/benchmarks/refs)",
    "fms-acceleration/blob/24bdadb/scripts/benchmarks/refs/a100_80gb.csv)",
    "fms-acceleration/commits/24bdadb/scripts/benchmarks/refs)",
    "fms-acceleration/blob/733992a/scripts/benchmarks/refs/a100_80gb_liger.csv)",
    "fms-acceleration/tree/3cf092a/scripts/benchmarks/refs_orca",
    "fms-acceleration/tree/876e2ed/scripts/benchmarks/refs_orca",
    "Lightning-AI/litgpt/blob/26857050",
    "AnswerDotAI/fsdp_qlora/blob/05ed9f2a",
    "pytorch/torchtune/tree/bd2a0fc7#optimization-flags",
    "pytorch/torchtune/tree/bd2a0fc7/docs",
    "pytorch/torchtune/issues/1185",
    "arxiv.org/abs/2305.14314",
    "QwenLM/Qwen#profiling",
    "hiyouga/LLaMA-Factory/tree/ff6d4d12",
    "jiaweizzhao/GaLore/tree/0c63f639",
    "arxiv.org/abs/2403.17919",
    "arxiv.org/abs/2309.12307",
    "docs.unsloth.ai",
    "huggingface.co/docs/trl/unsloth_integration",
    "bitsandbytes/issues/1569",
    "axolotl/pull/602",
    "axolotl/tree/main/examples/llama-3",
    "cosmos-rl/pull/388",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join("docs/published.md")).unwrap()
}

/// The specs that the text links to.
fn links(text: &str) -> BTreeSet<PathBuf> {
    let targets = text.split("](../").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| target.ends_with(".yaml"))
        .map(PathBuf::from)
        .collect()
}

#[test]
fn every_source_is_planned_or_has_a_reason() {
    let page = page();
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| [") && line.matches('|').count() == 7)
        .collect();
    for source in SOURCES {
        let named = rows.iter().filter(|row| row.contains(source)).count();
        assert_eq!(named, 1, "{source}");
    }
    assert_eq!(rows.len(), SOURCES.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, figures, planned, left_out, spec, reason] = cells[..] else {
            panic!("{row}")
        };
        let [figures, planned, left_out] = [figures, planned, left_out].map(|count| count.parse::<u32>().unwrap());
        assert_eq!(figures, planned + left_out, "{row}");
        assert_eq!(planned > 0, !links(spec).is_empty(), "{row}");
        assert_eq!(left_out > 0, !reason.is_empty(), "{row}");
    }
}

#[test]
fn every_spec_with_published_figures_is_named() {
    let named = links(&page());
    for path in &named {
        assert!(root().join(path).is_file(), "{}", path.display());
    }
    let folder = Path::new("experiments/published");
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let name = PathBuf::from(entry.unwrap().file_name());
        let is_spec = name.extension().is_some_and(|extension| extension == "yaml");
        let text = || fs::read_to_string(root().join(folder).join(&name)).unwrap();
        if is_spec && text().lines().any(|line| line.starts_with("published:")) {
            assert!(
                named.contains(&folder.join(&name)),
                "docs/published.md lacks {}",
                name.display()
            );
        }
    }
}

/// The specs that the table of evidence names, by kind.
fn evidence() -> BTreeSet<(String, PathBuf)> {
    let page = page();
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.flat_map(|(kind, row)| links(row).into_iter().map(|spec| (kind.to_owned(), spec)))
        .collect()
}

#[test]
fn the_evidence_of_each_spec_is_named() {
    let mut expected = BTreeSet::new();
    for path in links(&page()) {
        let study = spec::load(&root().join(&path), &Overrides::default()).unwrap();
        let is_ours = path.to_string_lossy().contains("our_trainer");
        for figure in study.published.iter().filter(|_| !is_ours) {
            let kind = serde_json::to_value(figure.evidence).unwrap();
            expected.insert((kind.as_str().unwrap().to_owned(), path.clone()));
        }
    }
    assert_eq!(evidence(), expected);
}
