//! Seals: the SHA-256 in a file of the rest of it, so that a changed byte is noticed.
//!
//! A seal is also over the name of what the file belongs to, such as a cell's id: the file of another cell does not hold.
//! Files of older versions have none, and are unproven.

use std::path::Path;

use base::text::hex;
use sha2::{Digest, Sha256};

use super::error::StoreError;
use super::place::read_in_place;

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
    hex(&hash.finalize())
}

/// The SHA-256 of a file; `None` if there is none.
///
/// # Errors
/// It cannot be read.
pub(super) fn sha256_of_file(path: &Path) -> Result<Option<String>, StoreError> {
    Ok(read_in_place(path)?.map(|bytes| sha256(&[&bytes])))
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
        let has_key = sealed.windows(LAST_KEY.len()).any(|window| window == LAST_KEY);
        return match (has_key, sealed.ends_with(b"}\n")) {
            (false, _) => Ok((sealed.to_vec(), false)),
            (true, true) => Err(StoreError::Damaged(path.to_path_buf())),
            (true, false) => Err(StoreError::CutShort(path.to_path_buf())),
        };
    };
    if sha256(&[map, of.as_bytes()]).as_bytes() != hash {
        return Err(StoreError::Damaged(path.to_path_buf()));
    }
    Ok(([map, b"\n}\n"].concat(), true))
}

/// True if a file of JSON ends as a sealed one does.
pub(super) fn is_sealed(json: &[u8]) -> bool {
    json.strip_suffix(END)
        .and_then(|rest| rest.split_at_checked(rest.len().checked_sub(HEX)?))
        .is_some_and(|(rest, _)| rest.ends_with(LAST_KEY))
}

/// Adds a seal to YAML.
pub fn seal_yaml(yaml: &str, of: &str) -> String {
    format!("{FIRST_LINE}{}\n{yaml}", sha256(&[yaml.as_bytes(), of.as_bytes()]))
}

/// Checks the seal of YAML, if it has one. Returns whether it has.
///
/// # Errors
/// It does not hold.
pub fn check_yaml(sealed: &str, of: &str, path: &Path) -> Result<bool, StoreError> {
    let (first, yaml) = sealed.split_once('\n').unwrap_or((sealed, ""));
    if !first.starts_with('#') && !sealed.trim().is_empty() {
        return Ok(false);
    }
    let hash = sha256(&[yaml.as_bytes(), of.as_bytes()]);
    match first.strip_prefix(FIRST_LINE) == Some(&hash) {
        true => Ok(true),
        false => Err(StoreError::Damaged(path.to_path_buf())),
    }
}
