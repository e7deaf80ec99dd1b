//! NVIDIA's GPUs: names and memory, from `cards.csv`.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use base::text::{Mistake, did_you_mean, either, nearest, quoted};
use options::ByteSize;

use super::capability::ComputeCapability;
use super::context::Context;

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The name in specs and on the command line.
    pub name: &'static str,
    /// True for the size that is meant where a model's name stands without one.
    is_usual_size: bool,
    /// What libraries ask of it to choose their kernels.
    pub capability: ComputeCapability,
    /// Memory by the box, in GiB.
    pub nominal_gib: u64,
    /// Its multiprocessors, if they are known.
    pub multiprocessors: Option<u64>,
    /// Bytes of memory as CUDA reports them (`totalGlobalMem`), less than on the box: the driver keeps some, and ECC
    /// takes some. Drivers differ by up to 2 %; of those seen, without Windows, it is the least.
    pub total_bytes: u64,
    /// The source of `total_bytes`.
    pub total_source: MemorySource,
    /// A process besides what PyTorch's allocator holds, if somebody measured and published it; [`Context::on`] has an
    /// estimate elsewhere.
    pub context: Option<Context>,
}

/// The source of a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySource {
    /// `deviceQuery` of NVIDIA's CUDA samples, in bytes.
    DeviceQuery,
    /// A program that prints whole MiB.
    Program(&'static str),
    /// An estimate: the share that this GPU has of the memory on its box.
    Like(&'static str),
}

impl MemorySource {
    /// True if nobody measured the figure.
    pub fn is_estimate(self) -> bool {
        matches!(self, Self::Like(_))
    }
}

impl fmt::Display for MemorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeviceQuery => f.write_str("deviceQuery of NVIDIA's CUDA samples"),
            Self::Program(name) => write!(f, "{name}, in whole MiB"),
            Self::Like(name) => write!(f, "an estimate from {name}"),
        }
    }
}

impl Context {
    /// The context on `gpu`, or on a GPU of any kind.
    pub fn on(gpu: Option<&Gpu>) -> Self {
        match gpu {
            None => Self::ANY,
            Some(gpu) => gpu.context.unwrap_or_else(|| Self::of_threads(gpu.threads())),
        }
    }

    /// The context of one of so many processes, each on such a GPU, with NCCL's buffers if there are several.
    pub fn of(gpu: Option<&Gpu>, world_size: usize) -> Self {
        match world_size {
            0 | 1 => Self::on(gpu),
            _ => Self::on(gpu).with_nccl(),
        }
    }
}

/// The table; the file says what its columns are.
static CARDS: &str = include_str!("cards.csv");

static GPUS: LazyLock<Vec<Gpu>> = LazyLock::new(|| {
    let mut gpus: Vec<Gpu> = rows().filter_map(Gpu::read).collect();
    for index in 0..gpus.len() {
        let MemorySource::Like(name) = gpus[index].total_source else {
            continue;
        };
        if let Some(like) = gpus.iter().find(|gpu| gpu.name == name) {
            gpus[index].total_bytes = like.total_bytes * gpus[index].nominal_gib / like.nominal_gib;
        }
    }
    gpus
});

fn rows() -> impl Iterator<Item = &'static str> {
    CARDS.lines().filter(|line| !line.starts_with('#'))
}

impl Gpu {
    /// A row of the table; an estimate has no memory yet.
    fn read(row: &'static str) -> Option<Self> {
        let mut columns = row.splitn(8, ',');
        let mut next = || columns.next();
        let (starred, capability, nominal_gib) = (next()?, next()?.parse().ok()?, next()?.parse().ok()?);
        let name = starred.trim_end_matches('*');
        let multiprocessors = next()?.parse().ok();
        let (total, source) = (next()?, next()?);
        let (total_bytes, total_source) = match source.split_once(' ') {
            Some(("like", name)) => (0, MemorySource::Like(name)),
            _ if source == "deviceQuery" => (ByteSize::from_str(total).ok()?.0, MemorySource::DeviceQuery),
            _ => (ByteSize::from_str(total).ok()?.0, MemorySource::Program(source)),
        };
        let context = match (next(), next()) {
            (Some(mib), Some(source)) => {
                let bytes = (mib.parse::<f64>().ok()? * f64::from(1 << 20)) as u64;
                Some(Context::measured(bytes, source))
            }
            _ => None,
        };
        Some(Self {
            name,
            is_usual_size: name != starred,
            capability,
            nominal_gib,
            multiprocessors,
            total_bytes,
            total_source,
            context,
        })
    }

    /// Threads that it runs at once.
    fn threads(&self) -> u64 {
        self.multiprocessors.unwrap_or(self.capability.multiprocessors()) * self.capability.threads()
    }

    /// All known GPUs.
    pub fn all() -> &'static [Self] {
        &GPUS
    }

    /// The GPU with this name, however it is spaced and with the maker's words or without: `NVIDIA GeForce RTX 3090` and
    /// `3090` are `rtx-3090`, and `NVIDIA A100-SXM4-80GB` is `a100-80gb`. A model that is sold with different memories
    /// needs its size, unless one of them is meant by the plain name.
    ///
    /// # Errors
    ///
    /// The text is not the name of a known GPU.
    pub fn named(text: &str) -> Result<&'static Self, Mistake> {
        if let Some(gpu) = GPUS.iter().find(|gpu| gpu.name == text) {
            return Ok(gpu);
        }
        let names = spellings(text);
        if let Some(gpu) = names.iter().find_map(|name| Self::with_plain_name(name)) {
            return Ok(gpu);
        }
        let sizes: Vec<&Gpu> = GPUS
            .iter()
            .filter(|gpu| gpu.without_size().is_some_and(|model| names.contains(&model)))
            .collect();
        match sizes.as_slice() {
            [] => Self::with_size(&names)
                .or_else(|| Self::with_bare_size(text))
                .unwrap_or_else(|| {
                    Err(Mistake {
                        message: format!("{} is not a known GPU", quoted(text)),
                        help: Some(help(text)),
                        range: None,
                    })
                }),
            [gpu] => Ok(gpu),
            several => {
                if let Some(usual) = several.iter().find(|gpu| gpu.is_usual_size) {
                    return Ok(usual);
                }
                let names: Vec<&str> = several.iter().map(|gpu| gpu.name).collect();
                let message = format!("{} comes with different memories", quoted(text));
                Err(Mistake::new(message).help(format!("write its size too: `{}`", names.join("` or `"))))
            }
        }
    }

    /// The GPU whose name is one of these with its memory at the end: `rtx409024gb`. `None` if there is no such name, an
    /// error if it has another size.
    fn with_size(names: &[String]) -> Option<Result<&'static Self, Mistake>> {
        let sized = |name: &String| {
            let gpus = GPUS.iter().filter_map(|gpu| {
                let size = name.strip_prefix(&plain(gpu.name))?.strip_suffix("gb")?;
                Some((gpu, size.parse::<u64>().ok()?))
            });
            // The longest name: an `rtx-3080-ti` is no `rtx-3080`.
            gpus.max_by_key(|(gpu, _)| gpu.name.len())
        };
        let (gpu, size) = names.iter().find_map(sized)?;
        Some(match size == gpu.nominal_gib {
            true => Ok(gpu),
            false => Err(Mistake::new(format!("`{gpu}` has {} GB, not {size}", gpu.nominal_gib))),
        })
    }

    /// The GPU with its memory at the end of its name, without a unit: `A100 40`.
    fn with_bare_size(text: &str) -> Option<Result<&'static Self, Mistake>> {
        if !text.ends_with(|c: char| c.is_ascii_digit()) || text.chars().all(|c| c.is_ascii_digit()) {
            return None;
        }
        let names: Vec<String> = spellings(text).iter().map(|name| format!("{name}gb")).collect();
        let whole = names.iter().find_map(|name| Self::with_plain_name(name));
        whole.map(Ok).or_else(|| Self::with_size(&names).filter(Result::is_ok))
    }

    fn with_plain_name(name: &str) -> Option<&'static Self> {
        GPUS.iter().find(|gpu| plain(gpu.name) == name)
    }

    /// The name in plain form without the size at its end; `None` without a size.
    fn without_size(&self) -> Option<String> {
        let (model, size) = self.name.rsplit_once('-')?;
        size.ends_with("gb").then(|| plain(model))
    }
}

/// What stands between a count and a name.
const TIMES: [char; 4] = ['x', 'X', '*', '×'];

/// A count of GPUs, and not the name of one.
fn count(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|count| *count < 1000)
}

/// The count in front of the name or the size of several GPUs, such as `2xa100-80gb`, and the rest.
pub fn counted(text: &str) -> Option<(usize, &str)> {
    let (times, each) = text.split_once(TIMES).filter(|(_, each)| !each.is_empty())?;
    Some((count(times)?, each))
}

/// Plain names that may be meant by a text: people leave the series out, and shorten what follows the number.
fn spellings(text: &str) -> Vec<String> {
    let name = plain(text);
    let name = match NICKNAMES.iter().find(|(nickname, _)| *nickname == name) {
        Some((_, name)) => plain(name),
        None => name,
    };
    let number = name.trim_end_matches("tis").trim_end_matches('s');
    let is_short = number.len() < name.len() && number.ends_with(|c: char| c.is_ascii_digit());
    let long = match name.strip_suffix("tis") {
        Some(number) => format!("{number}tisuper"),
        None => format!("{number}super"),
    };
    let whole = SERIES.map(|series| format!("{series}{name}")).into_iter();
    whole
        .chain(
            is_short
                .then(|| SERIES.map(|series| format!("{series}{long}")))
                .into_iter()
                .flatten(),
        )
        .collect()
}

/// What may be written for a GPU that is not known.
fn help(text: &str) -> String {
    let text = text.trim().to_ascii_lowercase();
    let is_apple = APPLE.iter().any(|chip| text.split(' ').next() == Some(chip));
    if is_apple || is_amd(&text) || OTHER_MAKERS.iter().any(|maker| text.contains(maker)) {
        return "memory is predicted for NVIDIA's GPUs alone".into();
    }
    let after = text
        .rsplit_once(TIMES)
        .filter(|(gpu, _)| gpu.contains(|c: char| c.is_ascii_digit()));
    if counted(&text).is_some() || after.is_some_and(|(_, times)| count(times).is_some()) {
        return "several GPUs are `--gpu 2xa100-80gb`, or `world_size: 2` in a spec".into();
    }
    let name = plain(&text);
    let known = || GPUS.iter().map(|gpu| gpu.name);
    let of_number: Vec<&str> = known().filter(|gpu| digits(gpu) == digits(&name)).collect();
    let begun: Vec<&str> = known()
        .filter(|gpu| name.len() > 2 && digits(&name).is_empty() && plain(gpu).starts_with(&name))
        .collect();
    // A number that is no model's is a size.
    let number = text.trim_end_matches(['g', 'm', 'b', 'i', ' ']);
    let is_number =
        number.starts_with(|c: char| c.is_ascii_digit()) && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_number && !is_model_number(number) && number.parse::<f64>().is_ok_and(|number| number < 1000.0) {
        return format!("a size has a unit: `{number}GB`");
    }
    match (spelt(&name), begun.as_slice(), of_number.as_slice()) {
        (Some(near), ..) => did_you_mean(near),
        (None, [_, ..], _) if begun.len() <= MOST_LISTED => format!("write {}", either(&begun)),
        (None, _, [_, ..]) if !digits(&name).is_empty() && of_number.len() <= MOST_LISTED => {
            format!("of that number there is {}", either(&of_number))
        }
        _ => "`expctl list --gpus` prints those that are known".into(),
    }
}

/// More names than this are not listed.
const MOST_LISTED: usize = 8;

/// The GPU whose name is written with a slip. Another number is another GPU, unless a digit was written twice, left
/// out or swapped with its neighbour.
fn spelt(name: &str) -> Option<&'static str> {
    let is_slip = |gpu: &&'static Gpu| {
        let (asked, known) = (digits(name), digits(gpu.name));
        let sorted = |digits: &str| {
            let mut digits: Vec<char> = digits.chars().collect();
            digits.sort_unstable();
            digits
        };
        is_one_longer(&asked, &known)
            || is_one_longer(&known, &asked)
            || asked != known && sorted(&asked) == sorted(&known)
            || asked == known && plain(gpu.name).len() == name.len()
    };
    let series = |gpu: &'static Gpu| {
        let plain = plain(gpu.name);
        let short = plain.strip_prefix("rtx").or(plain.strip_prefix("gtx"));
        [Some(plain.clone()), short.map(str::to_owned)]
            .into_iter()
            .flatten()
            .map(move |name| (name, gpu.name))
    };
    let candidates: Vec<(String, &str)> = GPUS.iter().filter(is_slip).flat_map(series).collect();
    let near = nearest(name, candidates.iter().map(|(name, _)| name.as_str()))?;
    let distant = near.len().abs_diff(name.len()) > 1;
    candidates
        .iter()
        .find(|(name, _)| name == near && !distant)
        .map(|(_, gpu)| *gpu)
}

/// True if one text is the other with one more character.
fn is_one_longer(long: &str, short: &str) -> bool {
    long.len() == short.len() + 1
        && !short.is_empty()
        && (0..long.len()).any(|at| long[..at] == short[..at] && long[at + 1..] == short[at..])
}

/// The digits of a name, without those of its memory.
fn digits(name: &str) -> String {
    let name = name
        .rsplit_once('-')
        .filter(|(_, size)| size.ends_with("gb"))
        .map_or(name, |(name, _)| name);
    name.chars().filter(char::is_ascii_digit).collect()
}

/// True if a number is that of a GPU's model, known or older, and so not a size.
pub(super) fn is_model_number(text: &str) -> bool {
    let is_known = |gpu: &Gpu| digits(gpu.name) == text && text.len() > 2;
    let is_older = text.len() == 3 && text.starts_with(['6', '7', '9']) && text.ends_with('0');
    let is_later = text.len() >= 4 && text.chars().all(|c| c.is_ascii_digit());
    is_older || is_later || GPUS.iter().any(is_known)
}

/// True for names of AMD's GPUs, as people write them: `RX 7900 XTX`, `7900xt`, `W7900`.
fn is_amd(text: &str) -> bool {
    let is_series = text.starts_with("rx") || text.contains(" rx");
    let number = digits(&plain(text));
    let is_known = GPUS.iter().any(|gpu| digits(gpu.name) == number);
    is_series && !number.is_empty() && !is_known || text.ends_with("xtx") || text.ends_with("xt")
}

/// The series of names that people shorten to a number; none for whole names.
const SERIES: [&str; 3] = ["", "rtx", "gtx"];

/// Names of machines and others for a GPU.
const NICKNAMES: [(&str, &str); 4] = [
    ("dgxspark", "gb10"),
    ("spark", "gb10"),
    ("digits", "gb10"),
    ("projectdigits", "gb10"),
];

/// Apple's chips, as people begin their names.
const APPLE: [&str; 5] = ["m1", "m2", "m3", "m4", "m5"];

/// Words of GPUs for which PyTorch has another allocator, or none.
const OTHER_MAKERS: [&str; 12] = [
    "amd", "radeon", "instinct", "mi1", "mi2", "mi3", "w7900", "apple", "arc a", "arc b", "gaudi", "tpu",
];

/// Words that tell apart no GPUs of the table: the maker's, and those of forms and editions.
const DROPPED: [&str; 18] = [
    "nvidia",
    "geforce",
    "tesla",
    "gpu",
    "generation",
    "blackwell",
    "workstation",
    "server",
    "edition",
    "pcie",
    "sxm",
    "sxm2",
    "sxm3",
    "sxm4",
    "sxm5",
    "hbm2",
    "hbm2e",
    "hbm3",
];

/// A name without what people and drivers write differently.
fn plain(name: &str) -> String {
    let words = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::to_ascii_lowercase);
    words.filter(|word| !DROPPED.contains(&word.as_str())).collect()
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_is_a_gpu_with_less_memory_than_its_box_says() {
        assert_eq!(Gpu::all().len(), rows().count(), "a row could not be read");
        let names: BTreeSet<&str> = Gpu::all().iter().map(|gpu| gpu.name).collect();
        assert_eq!(names.len(), Gpu::all().len(), "a name is there twice");
        for gpu in Gpu::all() {
            let nominal = gpu.nominal_gib << 30;
            assert!(
                gpu.total_bytes < nominal + (2 << 30) && gpu.total_bytes > nominal / 100 * 90,
                "{gpu}"
            );
            if let Some((_, size)) = gpu.name.rsplit_once('-').filter(|(_, size)| size.ends_with("gb")) {
                assert_eq!(size, format!("{}gb", gpu.nominal_gib), "{gpu}");
            }
            assert!(gpu.context.is_none_or(|context| context.high < 1 << 30), "{gpu}");
            assert_eq!(Gpu::named(gpu.name), Ok(gpu));
        }
    }

    #[test]
    fn gpus_of_one_capability_differ_in_multiprocessors() {
        let count = |name| Gpu::named(name).unwrap().multiprocessors;
        assert_eq!((count("t4"), count("rtx-2080-ti")), (Some(40), Some(68)));
        assert_eq!((count("a100-80gb"), count("a30")), (Some(108), Some(56)));
        assert_eq!(count("quadro-rtx-4000"), None);
        for gpu in Gpu::all() {
            assert!(
                gpu.multiprocessors.is_none_or(|count| (5..=188).contains(&count)),
                "{gpu}"
            );
        }
    }

    #[test]
    fn an_estimate_is_from_a_measured_gpu_of_its_generation() {
        let estimates = Gpu::all().iter().filter(|gpu| gpu.total_source.is_estimate());
        for gpu in estimates {
            let MemorySource::Like(name) = gpu.total_source else {
                continue;
            };
            let like = Gpu::named(name).unwrap();
            assert!(!like.total_source.is_estimate(), "{gpu} like {name}");
            assert_eq!(gpu.capability.architecture(), like.capability.architecture(), "{gpu}");
        }
        let estimated = Gpu::named("rtx-4070-super").unwrap();
        assert_eq!(estimated.total_source.to_string(), "an estimate from rtx-4070");
        assert_eq!(
            estimated.total_bytes >> 20,
            Gpu::named("rtx-4070").unwrap().total_bytes >> 20
        );
    }

    #[test]
    fn names_are_read_as_people_and_drivers_write_them() {
        let names = [
            ("T4", "t4"),
            ("T4 16GB", "t4"),
            ("RTX 4090 24GB", "rtx-4090"),
            ("3080 Ti 12gb", "rtx-3080-ti"),
            ("H100 SXM5", "h100-80gb"),
            ("4090", "rtx-4090"),
            ("4060 Ti 16GB", "rtx-4060-ti-16gb"),
            ("3060", "rtx-3060-12gb"),
            ("RTX 3080", "rtx-3080-10gb"),
            ("a6000", "rtx-a6000"),
            ("1080 Ti", "gtx-1080-ti"),
            ("Tesla T4", "t4"),
            ("4080s", "rtx-4080-super"),
            ("RTX 4070 TiS", "rtx-4070-ti-super"),
            ("L40 S", "l40s"),
            ("A100 40", "a100-40gb"),
            ("a10080", "a100-80gb"),
            ("T4 16", "t4"),
            ("DGX Spark", "gb10"),
            ("NVIDIA GeForce RTX 3090", "rtx-3090"),
            ("RTX3060 12GB", "rtx-3060-12gb"),
            ("rtx 3070", "rtx-3070-8gb"),
            ("H100_80GB", "h100-80gb"),
            ("NVIDIA H100 80GB HBM3", "h100-80gb"),
            ("NVIDIA A100 40GB", "a100-40gb"),
            ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
            ("Tesla P100-PCIE-16GB", "p100-16gb"),
            ("NVIDIA GeForce RTX 4060 Laptop GPU", "rtx-4060-laptop"),
            ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
            ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ];
        for (text, name) in names {
            assert_eq!(Gpu::named(text).map(|gpu| gpu.name), Ok(name), "{text}");
        }
    }

    #[test]
    fn a_measured_context_has_no_range_and_lies_in_that_of_the_estimate() {
        for gpu in Gpu::all() {
            let context = Context::on(Some(gpu));
            let estimate = Context::of_threads(gpu.threads());
            assert!(context.low <= context.likely && context.likely <= context.high, "{gpu}");
            assert!(estimate.low <= context.low && context.high <= estimate.high, "{gpu}");
            assert_eq!(context.is_estimate(), gpu.context.is_none());
        }
        let h200 = Context::on(Gpu::named("h200").ok());
        assert_eq!((h200.low, h200.high), (742 * (1 << 20), 742 * (1 << 20)));
    }
}
