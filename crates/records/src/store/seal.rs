//! Seals: the SHA-256 in a file of the rest of it, so that a changed byte is noticed.
//!
//! A seal is also over the name of what the file belongs to, such as a cell's id: the file of another cell does not hold.
//! Files of older versions have none, and are unproven.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::{StoreError, io_error};

/// What stands before a seal in JSON, as its last key.
const LAST_KEY: &[u8] = b",\n  \"sha256\": \"";
const END: &[u8] = b"\"\n}\n";
/// What stands before a seal in YAML, on the first line.
const FIRST_LINE: &str = "# sha256: ";
const HEX: usize = 64;

/// The SHA-256 of these bytes, in lower-case hex digits.
pub fn sha256(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    let mut hex = String::with_capacity(HEX);
    for byte in hash.finalize() {
        // Writing into a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// The SHA-256 of a file; `None` if there is none.
///
/// # Errors
/// It cannot be read.
pub(super) fn sha256_of_file(path: &Path) -> Result<Option<String>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(sha256(&[&bytes]))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}

/// Adds a seal to the pretty JSON of a map.
pub(super) fn seal_json(json: &[u8], of: &str) -> Vec<u8> {
    let map = json.strip_suffix(b"\n}").unwrap_or(json);
    let hash = sha256(&[map, of.as_bytes()]);
    [map, LAST_KEY, hash.as_bytes(), END].concat()
}

/// Takes the seal out of JSON: the map without it, and whether there was one.
///
/// # Errors
/// It does not hold.
pub(super) fn open_json(sealed: &[u8], of: &str, path: &Path) -> Result<(Vec<u8>, bool), StoreError> {
    let parts = sealed.strip_suffix(END).and_then(|rest| {
        let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(HEX)?)?;
        Some((rest.strip_suffix(LAST_KEY)?, hash))
    });
    let Some((map, hash)) = parts else {
        return Ok((sealed.to_vec(), false));
    };
    if sha256(&[map, of.as_bytes()]).as_bytes() != hash {
        return Err(StoreError::Damaged(path.to_path_buf()));
    }
    Ok(([map, b"\n}\n"].concat(), true))
}

/// Adds a seal to YAML.
pub fn seal_yaml(yaml: &str, of: &str) -> String {
    format!("{FIRST_LINE}{}\n{yaml}", sha256(&[yaml.as_bytes(), of.as_bytes()]))
}

/// Checks the seal of YAML. Returns false if it has none.
///
/// # Errors
/// It does not hold.
pub fn check_yaml(sealed: &str, of: &str, path: &Path) -> Result<bool, StoreError> {
    let Some((first, yaml)) = sealed.split_once('\n').filter(|(first, _)| first.starts_with('#')) else {
        return Ok(false);
    };
    let hash = sha256(&[yaml.as_bytes(), of.as_bytes()]);
    match first.strip_prefix(FIRST_LINE) == Some(&hash) {
        true => Ok(true),
        false => Err(StoreError::Damaged(path.to_path_buf())),
    }
}
