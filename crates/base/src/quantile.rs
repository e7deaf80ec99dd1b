//! Quantiles of figures.

/// The value below which `share` of the sorted values lie, on a line between neighbours (Hyndman and Fan's type 7); the
/// median at 0.5. NaN without a value.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = share * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}
