//! Lists the presets: each file of `src/presets` is one, by its name.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/presets");
    let mut names = Vec::new();
    for entry in fs::read_dir("src/presets")? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        names.extend(name.filter(|_| path.extension().is_some_and(|end| end == "json")));
    }
    names.sort_unstable();
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("src/presets");
    let mut source = String::from("const FILES: &[Preset] = &[\n");
    for name in names {
        let file = folder.join(format!("{name}.json"));
        let _ = writeln!(source, "    Preset {{ name: {name:?}, json: include_str!({file:?}) }},");
    }
    source += "];\n";
    fs::write(
        PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("presets.rs"),
        source,
    )
}
