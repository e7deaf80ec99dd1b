//! How long a run will take, from the cells that it has finished.

/// The work of finished cells, and the time that it took.
#[derive(Debug, Default)]
pub(super) struct Eta {
    work: f64,
    seconds: f64,
}

impl Eta {
    /// Adds a cell that was tried.
    pub(super) fn finished(&mut self, work: f64, seconds: f64) {
        self.work += work;
        self.seconds += seconds;
    }

    /// `, 2 min 05 s left` for this much work, or nothing before a cell has finished.
    pub(super) fn left(&self, work: f64) -> String {
        let seconds = self.seconds * work / self.work;
        match seconds.is_finite() && self.work > 0.0 {
            true => format!(", {} left", base::text::format::seconds(seconds.round().into())),
            false => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_in_proportion_to_work() {
        let mut eta = Eta::default();
        assert_eq!(eta.left(3.0), "");
        for seconds in [49.0, 51.0] {
            eta.finished(2.0, seconds);
        }
        assert_eq!(eta.left(6.0), ", 2 min 30 s left", "three cells as large");
        assert_eq!(eta.left(0.4), ", 10.0 s left", "a fifth of a cell");
    }
}
