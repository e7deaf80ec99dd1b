//! Samples that are left out.

use std::fmt;

/// The number of samples that nothing can be trained on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Samples of fewer than two tokens.
    pub(super) short: usize,
    /// Samples whose predicted tokens all lie beyond `max_seq_length`.
    pub(super) without_targets: usize,
}

impl Skipped {
    /// A sentence for the user; `None` if nothing was left out but samples of fewer than two tokens.
    pub fn remark(&self) -> Option<String> {
        (self.without_targets > 0).then(|| format!("samples: {self}"))
    }
}

/// Such as `3 shorter ones were left out`; empty if none was.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { short, without_targets } = self;
        if *short > 0 {
            write!(f, "{short} shorter ones were left out")?;
        }
        if *short > 0 && *without_targets > 0 {
            f.write_str("; ")?;
        }
        if *without_targets > 0 {
            write!(
                f,
                "{without_targets} were left out because `max_seq_length` cuts off all that is predicted"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted() {
        let of = |short, without_targets| Skipped { short, without_targets };
        assert_eq!(of(0, 0).to_string(), "");
        assert_eq!(of(3, 0).to_string(), "3 shorter ones were left out");
        assert_eq!((of(3, 0).remark(), of(0, 0).remark()), (None, None));
        let cut = "2 were left out because `max_seq_length` cuts off all that is predicted";
        assert_eq!(of(0, 2).remark(), Some(format!("samples: {cut}")));
        assert_eq!(of(1, 2).to_string(), format!("1 shorter ones were left out; {cut}"));
    }
}
