//! The verdict of a comparison, in a sentence.

use base::quantile;
use base::text::counted;
use base::text::format::{self, Quantity};
use report::compare::Comparison;

/// What a comparison is about: its columns, in words.
const FIGURES: [(&str, &str); 4] = [
    ("allocated_peak_bytes", "memory"),
    ("tokens_per_second", "speed"),
    ("loss_eval", "held-out loss"),
    ("loss_last", "loss"),
];

/// What B is to A over all matched cells: `B against A, over 4 cells: memory equal, speed 0.71×, loss 1.01×.`
pub(super) fn verdict(comparison: &Comparison<'_>) -> String {
    let known = FIGURES.iter().filter_map(|(column, words)| {
        let ratios = comparison.pairs.iter().filter_map(|pair| pair.ratio(column));
        Some((*words, amount(ratios.filter(|ratio| ratio.is_finite()).collect())?))
    });
    let mut known: Vec<(&str, String)> = known.collect();
    // One loss is enough.
    if known.iter().any(|(words, _)| *words == "held-out loss") {
        known.retain(|(words, _)| *words != "loss");
    }
    let known: Vec<String> = known
        .iter()
        .map(|(words, amount)| format!("{words} {amount}"))
        .collect();
    let over = counted(comparison.pairs.len(), "cell");
    match known.is_empty() {
        true => format!("B against A, over {over}: nothing was measured in both."),
        false => format!("B against A, over {over}: {}.", known.join(", ")),
    }
}

/// The ratios in words: equal, or their median with their range; `None` without one.
fn amount(mut ratios: Vec<f64>) -> Option<String> {
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (*ratios.first()?, *ratios.last()?);
    if format::reads_as_one(least) && format::reads_as_one(most) {
        return Some("equal".to_owned());
    }
    let times = |ratio: f64| format::ratio(Quantity::from(ratio));
    let median = times(quantile(&ratios, 0.5));
    Some(match times(least) == times(most) {
        true => median,
        false => format!("{median} ({} to {})", times(least), times(most)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_a_word_or_a_median_with_its_range() {
        let said = |ratios: &[f64]| amount(ratios.to_vec());
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[1.0, 0.9996, 1.0041]).unwrap(), "equal");
        assert_eq!(said(&[0.71]).unwrap(), "0.71×");
        assert_eq!(said(&[1.4, 0.98, 1.2]).unwrap(), "1.20× (0.98× to 1.40×)");
        assert_eq!(said(&[1.0, 2.0]).unwrap(), "1.50× (1.00× to 2.00×)");
    }
}
