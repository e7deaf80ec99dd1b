//! The cell that the settings make: its values, and what has no effect in it.

use cell::Cell;
use yaml::de;
use yaml::diagnostic::Diagnostic;
use yaml::tree::Node;

use super::Run;
use crate::translation::Left;

impl Run<'_> {
    /// Types the values, and leaves out what has no effect beside the others.
    pub(super) fn check(&mut self) {
        loop {
            let mut tree = Node::empty_map(self.beginning());
            for (key, (value, setting)) in &self.settings {
                let path: Vec<String> = key.split('.').map(str::to_owned).collect();
                tree.set(&path, setting.place.unwrap_or(value.place), value.clone());
            }
            let (cell, errors) = de::read_all::<Cell>(&mut tree);
            for error in errors {
                let key = error.path.join(".");
                let mistake = error.diagnostic("");
                let message = mistake.message.clone();
                self.refuse(&key, message, mistake.help.first().cloned());
            }
            let Some(cell) = cell.filter(|_| self.mistakes.is_empty()) else {
                return;
            };
            let invalid = match cell.validate() {
                Ok(()) => self.unheeded(&cell),
                Err(found) => found
                    .0
                    .into_iter()
                    .map(|invalid| {
                        let help = invalid.mistake.help;
                        (invalid.key.to_string(), invalid.mistake.message, help, invalid.is_idle)
                    })
                    .collect(),
            };
            if invalid.is_empty() {
                return;
            }
            for (key, message, help, is_idle) in invalid {
                match is_idle && self.remove(&key, &message) {
                    true => {}
                    false => self.refuse(&key, format!("{key}: {message}"), help),
                }
            }
            if !self.mistakes.is_empty() {
                return;
            }
        }
    }

    /// Keys that the cell does not heed, though their values are the defaults.
    fn unheeded(&self, cell: &Cell) -> Vec<(String, String, Option<String>, bool)> {
        let unheeded = self.settings.keys().filter(|key| !cell.heeds(key));
        unheeded
            .map(|key| (key.clone(), "has no effect beside the others".to_owned(), None, true))
            .collect()
    }

    /// Takes a setting without effect out. False if there is none.
    fn remove(&mut self, key: &str, message: &str) -> bool {
        let base = key.split('[').next().unwrap_or(key);
        let below = format!("{base}.");
        let keys: Vec<String> = self
            .settings
            .keys()
            .filter(|own| *own == base || own.starts_with(&below))
            .cloned()
            .collect();
        for key in &keys {
            let Some((_, setting)) = self.settings.shift_remove(key) else {
                continue;
            };
            if setting.place.is_some() {
                let value = base::text::to_flow_yaml(&setting.value);
                self.idle.push(Left {
                    key: setting.from.join(", "),
                    value: String::new(),
                    why: format!("`{key}: {value}` {message}"),
                });
            }
        }
        !keys.is_empty()
    }

    /// A value that cannot be, at the key that it comes from.
    fn refuse(&mut self, key: &str, message: String, help: Option<String>) {
        let base = key.split('[').next().unwrap_or(key);
        let found = self.settings.get(base).or_else(|| {
            let mut all = self.settings.iter();
            all.find(|(own, _)| own.starts_with(&format!("{base}.")) || base.starts_with(&format!("{own}.")))
                .map(|(_, found)| found)
        });
        let place = found.and_then(|(_, setting)| setting.place).unwrap_or(self.beginning());
        let from = found.map(|(_, setting)| setting.from.join(", "));
        let mut mistake = Diagnostic::new(message).at(place);
        if let Some(from) = from {
            mistake = mistake.help(format!("`{key}` comes from {from}"));
        }
        self.mistakes.add(mistake.help_if(help));
    }
}
