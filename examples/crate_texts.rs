//! Collects prose to train on from the crates in `Cargo.lock`, which cargo has downloaded anyway.
//!
//!     cargo fetch --locked
//!     cargo run --release --example crate_texts -- FOLDER
//!
//! It writes `documentation.jsonl` (doc comments) and `guides.jsonl` (READMEs, change logs), a `text` of at most some
//! hundred words a line. One crate in sixteen is held out: its texts are in `documentation_held_out.jsonl` and
//! `guides_held_out.jsonl`, the former thinned out. Every crate is checked against its hash in `Cargo.lock`, so one lock file
//! gives the same texts everywhere. A text that several crates share is written once.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use expctl::text::hex;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

/// The most bytes of a text that consists of several paragraphs.
const LONGEST: usize = 900;
/// Shorter texts say little.
const SHORTEST: usize = 120;
/// One in so many of the documentation's texts that are held out is kept: enough to measure a loss with.
const HELD_OUT_DOCUMENTATION: usize = 16;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder] = &arguments[..] else {
        bail!("the argument is FOLDER");
    };
    let folder = Path::new(folder);
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut trained = Kinds::create(folder, "", 1)?;
    let mut held_out = Kinds::create(folder, "_held_out", HELD_OUT_DOCUMENTATION)?;
    let mut seen = HashSet::new();
    for package in packages()? {
        let Kinds { documentation, guides } = match package.is_held_out() {
            true => &mut held_out,
            false => &mut trained,
        };
        for (path, content) in package.files()? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_guide = ["README", "CHANGELOG", "CHANGES", "RELEASES"]
                .iter()
                .any(|guide| name.to_ascii_uppercase().starts_with(guide));
            if name.ends_with(".rs") {
                doc_comments(&content, &mut |text| documentation.add(text, &mut seen))?;
            } else if is_guide {
                pieces(&content, &mut |text| guides.add(text, &mut seen))?;
            }
        }
    }
    for kinds in [trained, held_out] {
        kinds.documentation.finish()?;
        kinds.guides.finish()?;
    }
    Ok(())
}

/// The two files of texts.
struct Kinds {
    documentation: Texts,
    guides: Texts,
}

impl Kinds {
    /// Empty files. One in `stride` of the documentation's texts is kept.
    fn create(folder: &Path, suffix: &str, stride: usize) -> anyhow::Result<Self> {
        let texts = |kind: &str, stride| Texts::create(folder.join(format!("{kind}{suffix}.jsonl")), stride);
        Ok(Self {
            documentation: texts("documentation", stride)?,
            guides: texts("guides", 1)?,
        })
    }
}

/// A package in `Cargo.lock` that comes from a registry.
struct Package {
    file: String,
    sha256: String,
}

/// The packages in the lock file's order, which is that of their names.
fn packages() -> anyhow::Result<Vec<Package>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock");
    let lock = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let value = |entry: &str, key: &str| {
        let line = entry
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|line| line.trim_end_matches('"').to_owned())
    };
    let entries = lock.split("[[package]]").skip(1);
    let package = |entry: &str| {
        let (name, version) = (value(entry, "name")?, value(entry, "version")?);
        Some(Package {
            file: format!("{name}-{version}.crate"),
            sha256: value(entry, "checksum")?,
        })
    };
    Ok(entries.filter_map(package).collect())
}

impl Package {
    /// True for one package in sixteen, whatever the others are.
    fn is_held_out(&self) -> bool {
        self.sha256.starts_with('0')
    }

    /// The text files of the package in the order of their paths.
    fn files(&self) -> anyhow::Result<Vec<(PathBuf, String)>> {
        let bytes = self.read()?;
        let mut archive = tar::Archive::new(GzDecoder::new(&bytes[..]));
        let mut files = Vec::new();
        for entry in archive.entries()? {
            let mut entry = entry.with_context(|| format!("{}: not an archive", self.file))?;
            let path = entry.path()?.into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            if let Ok(text) = String::from_utf8(content) {
                files.push((path, text));
            }
        }
        files.sort();
        Ok(files)
    }

    fn read(&self) -> anyhow::Result<Vec<u8>> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
        let cache = home.context("there is no home folder")?.join("registry/cache");
        let registries = fs::read_dir(&cache).with_context(|| format!("cannot read {}", cache.display()))?;
        for registry in registries {
            let path = registry?.path().join(&self.file);
            if let Ok(bytes) = fs::read(&path) {
                ensure!(
                    hex(&Sha256::digest(&bytes)) == self.sha256,
                    "{} is not the crate of Cargo.lock",
                    path.display()
                );
                return Ok(bytes);
            }
        }
        bail!(
            "{} is not in {}; run `cargo fetch --locked`",
            self.file,
            cache.display()
        )
    }
}

/// The doc comments of a source file, each block of lines by itself.
fn doc_comments(source: &str, add: &mut impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut block = String::new();
    for line in source.lines().chain([""]) {
        let line = line.trim_start();
        let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        match comment.filter(|comment| !comment.starts_with('/')) {
            Some(comment) => {
                block.push_str(comment.strip_prefix(' ').unwrap_or(comment));
                block.push('\n');
            }
            None if !block.is_empty() => {
                pieces(&block, add)?;
                block.clear();
            }
            None => {}
        }
    }
    Ok(())
}

/// A text in pieces of whole paragraphs.
fn pieces(text: &str, add: &mut impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut piece = String::new();
    for paragraph in text
        .split("\n\n")
        .map(str::trim_end)
        .filter(|paragraph| !paragraph.is_empty())
    {
        if !piece.is_empty() && piece.len() + paragraph.len() > LONGEST {
            add(&piece)?;
            piece.clear();
        }
        if !piece.is_empty() {
            piece.push_str("\n\n");
        }
        piece.push_str(paragraph);
    }
    add(&piece)
}

/// A file of texts.
struct Texts {
    path: PathBuf,
    out: BufWriter<File>,
    hash: Sha256,
    /// One text in so many is kept, the first and every one that follows at this distance.
    stride: usize,
    /// The texts so far, kept or not.
    offered: usize,
    count: usize,
    bytes: usize,
}

impl Texts {
    fn create(path: PathBuf, stride: usize) -> anyhow::Result<Self> {
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self {
            path,
            out: BufWriter::new(file),
            hash: Sha256::new(),
            stride,
            offered: 0,
            count: 0,
            bytes: 0,
        })
    }

    fn add(&mut self, text: &str, seen: &mut HashSet<[u8; 32]>) -> anyhow::Result<()> {
        let text = text.trim();
        if text.len() < SHORTEST || !seen.insert(Sha256::digest(text).into()) {
            return Ok(());
        }
        let is_kept = self.offered.is_multiple_of(self.stride);
        self.offered += 1;
        if !is_kept {
            return Ok(());
        }
        let mut line = serde_json::json!({ "text": text }).to_string();
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        self.hash.update(&line);
        self.count += 1;
        self.bytes += text.len();
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.out.flush()?;
        println!(
            "{}: {} texts, {} bytes, SHA-256 {}",
            self.path.display(),
            self.count,
            self.bytes,
            hex(&self.hash.finalize())
        );
        Ok(())
    }
}
