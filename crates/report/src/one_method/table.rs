//! The table: figures of both sides, and how far they are apart.

use base::text::format::{ABSENT, Quantity, bytes, number, percent, ratio, reads_as_one, seconds};

use super::pair::{Noise, Pair};
use crate::methods::{FORGETTING, HELD_OUT, Method};

/// A figure of the table.
struct Figure {
    name: &'static str,
    column: &'static str,
    write: fn(Quantity) -> String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Differs by an amount.
    Loss,
    /// Differs by a factor.
    Share,
    /// Differs by a factor, if the machine was quiet enough to compare times.
    Time,
}

const FIGURES: [Figure; 7] = [
    Figure {
        name: "Held-out loss",
        column: HELD_OUT,
        write: |loss| number(loss, DECIMALS),
        kind: Kind::Loss,
    },
    Figure {
        name: "Held-out accuracy",
        column: "accuracy_eval",
        write: percent,
        kind: Kind::Share,
    },
    Figure {
        name: "Forgetting",
        column: FORGETTING,
        write: |loss| number(loss, DECIMALS),
        kind: Kind::Loss,
    },
    Figure {
        name: "Peak of allocated memory",
        column: "allocated_peak_bytes",
        write: bytes,
        kind: Kind::Share,
    },
    Figure {
        name: "Peak of the process",
        column: "process_peak_bytes",
        write: bytes,
        kind: Kind::Share,
    },
    Figure {
        name: "Training time",
        column: "train_seconds",
        write: seconds,
        kind: Kind::Time,
    },
    Figure {
        name: "Step",
        column: "step_seconds_median",
        write: seconds,
        kind: Kind::Time,
    },
];

/// The decimals of a loss.
pub(super) const DECIMALS: usize = 3;

/// The table of a pair, whose sides are called `only` and `baseline`.
pub(super) fn table(pair: &Pair<'_>, only: &str, baseline: &str) -> String {
    let mut rows = vec![
        format!("| Figure | {only} | {baseline} | Difference |"),
        "| --- | ---: | ---: | --- |".into(),
    ];
    let names = [only, baseline];
    rows.extend(FIGURES.iter().filter_map(|figure| figure.row(pair, names)));
    rows.extend(counts(pair));
    rows.join("\n")
}

impl Figure {
    /// A row of the table; `None` if one of the two sides lacks the figure.
    fn row(&self, pair: &Pair<'_>, names: [&str; 2]) -> Option<String> {
        let (ours, theirs) = pair.stats(self.column)?;
        let Self { name, write, .. } = self;
        let is_too_noisy = self.kind == Kind::Time && !pair.has_speeds();
        let difference = match self.kind {
            _ if is_too_noisy => "too noisy to compare".into(),
            Kind::Loss => signed(ours.mean - theirs.mean),
            Kind::Share | Kind::Time => factor(ours.mean, theirs.mean),
        };
        let is_exact = self.column == "allocated_peak_bytes";
        let noise = match Noise::of(ours, theirs) {
            _ if ours.mean == theirs.mean || is_too_noisy || difference == SAME => String::new(),
            Noise::Unknown(_) if is_exact => String::new(),
            Noise::Unknown([true, true]) => ", single seeds".into(),
            Noise::Unknown([is_ours, _]) => format!(", one seed of {}", names[usize::from(!is_ours)]),
            Noise::Less => ", beyond the spread".into(),
            Noise::More => ", within the spread".into(),
        };
        let (ours, theirs) = (write(ours.into()), write(theirs.into()));
        Some(format!("| {name} | {ours} | {theirs} | {difference}{noise} |"))
    }
}

/// Rows of what seeds do not change: the trained share, and the saved file.
fn counts(pair: &Pair<'_>) -> Vec<String> {
    let methods = pair.groups().map(Method::of);
    let row = |name: &str, [ours, theirs]: [Option<f64>; 2], write: fn(Quantity) -> String| {
        let (ours, theirs) = ours.zip(theirs)?;
        let difference = factor(ours, theirs);
        let (ours, theirs) = (write(ours.into()), write(theirs.into()));
        Some(format!("| {name} | {ours} | {theirs} | {difference} |"))
    };
    let shares = [methods[0].trainable_share, methods[1].trainable_share];
    let files = [&methods[0].file, &methods[1].file].map(Option::as_ref);
    let is_predicted = files.iter().flatten().any(|file| file.is_predicted);
    let file = match is_predicted {
        true => "Saved file (a checkpoint's is predicted)",
        false => "Saved file",
    };
    let sizes = files.map(|file| file.map(|file| file.bytes));
    let rows = [row("Trained share", shares, percent), row(file, sizes, bytes)];
    rows.into_iter().flatten().collect()
}

/// A factor that reads as 1.
const SAME: &str = "the same to a hundredth";

/// One figure over another; that of nothing has no meaning.
fn factor(ours: f64, theirs: f64) -> String {
    match ours / theirs {
        _ if theirs == 0.0 => ABSENT.into(),
        one if reads_as_one(one) => SAME.into(),
        factor => ratio(factor.into()),
    }
}

/// True for a difference of losses that the decimals do not show.
pub(super) fn reads_as_zero(difference: f64) -> bool {
    difference.abs() < 0.5 * 0.1_f64.powi(DECIMALS as i32)
}

/// A difference with its sign, where `−` is U+2212.
fn signed(difference: f64) -> String {
    let amount = number(difference.abs().into(), DECIMALS);
    match difference {
        0.0 => "none".into(),
        small if reads_as_zero(small) => {
            format!("less than {}", number(0.1_f64.powi(DECIMALS as i32).into(), DECIMALS))
        }
        below if below < 0.0 => format!("−{amount}"),
        _ => format!("+{amount}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_that_reads_as_one_is_none() {
        assert_eq!(factor(100.4, 100.0), "the same to a hundredth");
        assert_eq!(
            (factor(100.6, 100.0), factor(1.0, 0.0)),
            ("1.01×".into(), ABSENT.into())
        );
    }

    #[test]
    fn a_difference_that_reads_as_zero_has_no_sign() {
        assert_eq!(signed(0.0), "none");
        assert_eq!(signed(-0.0004), "less than 0.001");
        assert_eq!(signed(0.0004), "less than 0.001");
        assert_eq!((signed(-0.0006), signed(0.25)), ("−0.001".into(), "+0.250".into()));
    }
}
