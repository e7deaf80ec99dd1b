//! What is worth a remark in how data are read.

use serde::{Deserialize, Serialize};

/// Columns that are named in a remark at most.
const NAMED: usize = 12;

/// Columns that are counted at most: a damaged file may have any number.
const MOST: usize = 1000;

/// What was read of the data, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Columns that are not read, with the samples that have them, in the order of their appearance.
    unread: Vec<(String, u64)>,
    /// What samples are taken for.
    taken_for: Vec<String>,
}

impl Reading {
    /// Counts a sample, or several, with a column that is not read.
    pub(super) fn unread(&mut self, column: &str, samples: u64) {
        match self.unread.iter().position(|(known, _)| known == column) {
            Some(known) => self.unread[known].1 += samples,
            None if self.unread.len() < MOST => self.unread.push((column.to_owned(), samples)),
            None => {}
        }
    }

    pub(super) fn take_for(&mut self, remark: String) {
        if !self.taken_for.contains(&remark) {
            self.taken_for.push(remark);
        }
    }

    /// Adds what is not read of another part of the data.
    pub(super) fn and(&mut self, other: Self) {
        for (column, samples) in other.unread {
            self.unread(&column, samples);
        }
        other.taken_for.into_iter().for_each(|remark| self.take_for(remark));
    }

    /// Sentences for the user.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let named = self
            .unread
            .iter()
            .take(NAMED)
            .map(|(column, samples)| format!("`{column}` ({samples})"));
        let mut named: Vec<String> = named.collect();
        if self.unread.len() > NAMED {
            named.push(format!("{} others", self.unread.len() - NAMED));
        }
        let unread = (!named.is_empty()).then(|| {
            format!(
                "columns that are not read, with the number of samples that have them: {}",
                named.join(", ")
            )
        });
        self.taken_for.iter().cloned().chain(unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_named_once_with_its_count() {
        let mut reading = Reading::default();
        assert_eq!(reading.remarks().count(), 0);
        for column in ["id", "source", "id"] {
            reading.unread(column, 1);
        }
        reading.take_for("what it is".into());
        reading.take_for("what it is".into());
        let remarks: Vec<String> = reading.remarks().collect();
        let unread = "columns that are not read, with the number of samples that have them: `id` (2), `source` (1)";
        assert_eq!(remarks, ["what it is", unread]);
        (0..2000).for_each(|column| reading.unread(&format!("c{column}"), 1));
        assert!(reading.remarks().last().unwrap().ends_with(", 988 others"));
    }
}
