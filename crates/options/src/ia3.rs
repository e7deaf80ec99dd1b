//! The options of IA3.

/// Options of IA3.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ia3Options {
    /// The layers whose inputs are scaled, by the ends of their names; PEFT's for the family without.
    pub feedforward_modules: Option<Vec<String>>,
}
