//! Numbers for people. Data stays in bytes, seconds and counts; only the text here has units and few digits.

use super::unit::Unit;

/// The text for a missing value.
pub const ABSENT: &str = "—";

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;

/// A mean, with its sample standard deviation if there is more than one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// The mean, or the only value.
    pub mean: f64,
    /// The sample standard deviation.
    pub deviation: Option<f64>,
}

impl From<f64> for Quantity {
    fn from(mean: f64) -> Self {
        Self { mean, deviation: None }
    }
}

impl From<u64> for Quantity {
    fn from(count: u64) -> Self {
        (count as f64).into()
    }
}

impl From<usize> for Quantity {
    fn from(count: usize) -> Self {
        (count as f64).into()
    }
}

impl Quantity {
    /// Both numbers in another unit, with a fixed number of decimals: `412.3 ± 0.4`. A deviation of zero is left out,
    /// so that it does not look rounded.
    fn written(self, unit: f64, decimals: usize) -> String {
        let mean = grouped(self.mean / unit, decimals);
        match self.deviation.filter(|deviation| *deviation != 0.0) {
            None => mean,
            Some(deviation) => format!("{mean} ± {}", at_least(deviation / unit, decimals)),
        }
    }
}

/// A binary unit of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteUnit {
    /// 1 byte.
    Bytes,
    /// 2^10 bytes.
    KiB,
    /// 2^20 bytes.
    MiB,
    /// 2^30 bytes.
    GiB,
}

impl ByteUnit {
    /// The largest unit that keeps the number at least 1.
    pub fn of(bytes: f64) -> Self {
        match bytes.abs() {
            n if n >= GIB => Self::GiB,
            n if n >= MIB => Self::MiB,
            n if n >= KIB => Self::KiB,
            _ => Self::Bytes,
        }
    }

    /// The unit of this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Bytes, Self::KiB, Self::MiB, Self::GiB]
            .into_iter()
            .find(|unit| unit.name() == name)
    }

    /// The name: `B`, `KiB`, `MiB` or `GiB`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "B",
            Self::KiB => "KiB",
            Self::MiB => "MiB",
            Self::GiB => "GiB",
        }
    }

    /// The bytes of one unit.
    pub fn bytes(self) -> f64 {
        match self {
            Self::Bytes => 1.0,
            Self::KiB => KIB,
            Self::MiB => MIB,
            Self::GiB => GIB,
        }
    }

    /// The decimals of a number in this unit, so that it has about four digits.
    fn decimals(self, number: f64) -> usize {
        let most = match self {
            Self::Bytes => 0,
            Self::KiB | Self::MiB => 1,
            Self::GiB => 2,
        };
        match number.abs() {
            n if n >= 999.95 => 0,
            n if n >= 99.995 => most.min(1),
            _ => most,
        }
    }
}

/// `1.98 GiB`, `412.3 MiB`, `17 B`.
pub fn bytes(value: Quantity) -> String {
    let unit = ByteUnit::of(value.mean);
    format!("{} {}", bytes_in(value, unit), unit.name())
}

/// The number alone, for a column whose heading names the unit; `<0.1` for a positive number that would read as zero.
pub fn bytes_in(value: Quantity, unit: ByteUnit) -> String {
    let decimals = unit.decimals(value.mean / unit.bytes());
    if value.mean > 0.0 && value.deviation.is_none_or(|deviation| deviation == 0.0) {
        return at_least(value.mean / unit.bytes(), decimals);
    }
    value.written(unit.bytes(), decimals)
}

/// `12.4 ms`, `250 ms`, `1.52 s`, `2 min 05 s`, `1 h 02 min`.
pub fn seconds(value: Quantity) -> String {
    let Quantity { mean, deviation } = value;
    if mean >= 60.0 && deviation.is_none() {
        let whole = mean.round();
        return if whole < 3600.0 {
            format!("{} min {:02} s", (whole / 60.0).floor(), whole % 60.0)
        } else {
            let minutes = (mean / 60.0).round();
            format!("{} h {:02} min", (minutes / 60.0).floor(), minutes % 60.0)
        };
    }
    match mean {
        s if s < 0.1 => format!("{} ms", value.written(1e-3, 1)),
        s if s < 1.0 => format!("{} ms", value.written(1e-3, 0)),
        s if s < 10.0 => format!("{} s", value.written(1.0, 2)),
        _ => format!("{} s", value.written(1.0, 1)),
    }
}

/// A number with this many decimals and separated thousands: `1,234.5 ± 0.2`.
pub fn number(value: Quantity, decimals: usize) -> String {
    value.written(1.0, decimals)
}

/// A rate, with three significant digits: `1,024`, `98.3`, `0.714`, `0.0123`.
pub fn rate(value: Quantity) -> String {
    let decimals = match value.mean.abs() {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        n if n >= 1.0 => 2,
        n if n >= 0.1 || n == 0.0 => 3,
        n if n >= 0.01 => 4,
        _ => 5,
    };
    value.written(1.0, decimals)
}

/// The text of a value, or a dash without one.
pub fn or_absent(value: Option<impl Into<Quantity>>, write: fn(Quantity) -> String) -> String {
    value.map_or_else(|| ABSENT.to_owned(), |value| write(value.into()))
}

/// The number alone, in any unit.
pub fn in_unit(value: Quantity, unit: Unit, decimals: usize) -> String {
    value.written(unit.factor(), decimals)
}

/// A fraction as `3.63%`.
pub fn percent(value: Quantity) -> String {
    let decimals = match value.mean.abs() {
        share if share < 0.001 && share > 0.0 => 3,
        share if share < 0.1 => 2,
        _ => 1,
    };
    format!("{}%", value.written(0.01, decimals))
}

/// `0.64×`.
pub fn ratio(value: Quantity) -> String {
    format!("{}×", value.written(1.0, 2))
}

/// True for a ratio that [`ratio`] shows as 1.
pub fn reads_as_one(ratio: f64) -> bool {
    (ratio - 1.0).abs() < 0.005
}

/// A positive number with fixed decimals, or `<0.1` if that would read as zero.
fn at_least(number: f64, decimals: usize) -> String {
    let least = 0.1_f64.powi(decimals as i32);
    if number < least / 2.0 {
        return format!("<{}", grouped(least, decimals));
    }
    grouped(number, decimals)
}

/// Fixed decimals with commas between thousands.
fn grouped(number: f64, decimals: usize) -> String {
    if !number.is_finite() {
        return if number.is_nan() { "NaN" } else { "∞" }.to_string();
    }
    let text = format!("{number:.decimals$}");
    let (sign, digits) = match text.strip_prefix('-') {
        // A number that rounds to zero has no minus sign.
        Some(digits) if digits.bytes().all(|b| b == b'0' || b == b'.') => ("", digits),
        Some(digits) => ("-", digits),
        None => ("", text.as_str()),
    };
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_deviation(mean: f64, deviation: f64) -> Quantity {
        Quantity {
            mean,
            deviation: Some(deviation),
        }
    }

    #[test]
    fn bytes_have_binary_units_and_sensible_digits() {
        let cases = [
            (0.0, "0 B"),
            (17.0, "17 B"),
            (4096.0, "4.0 KiB"),
            (412.31 * MIB, "412.3 MiB"),
            (1023.0 * MIB, "1,023 MiB"),
            (1.984 * GIB, "1.98 GiB"),
            (12.0 * GIB, "12.00 GiB"),
            (141.2 * GIB, "141.2 GiB"),
        ];
        for (value, text) in cases {
            assert_eq!(bytes(value.into()), text);
        }
        assert_eq!(bytes(with_deviation(412.31 * MIB, 0.26 * MIB)), "412.3 ± 0.3 MiB");
        assert_eq!(bytes(with_deviation(412.31 * MIB, 0.0)), "412.3 MiB");
        assert_eq!(bytes(with_deviation(412.31 * MIB, 64.0)), "412.3 ± <0.1 MiB");
        assert_eq!(bytes_in((3.0 * GIB).into(), ByteUnit::MiB), "3,072");
        assert_eq!(bytes_in(8192.0.into(), ByteUnit::MiB), "<0.1");
        assert_eq!(bytes_in(0.0.into(), ByteUnit::MiB), "0.0");
    }

    #[test]
    fn seconds_change_their_unit() {
        let cases = [
            (0.0124, "12.4 ms"),
            (0.25, "250 ms"),
            (1.519, "1.52 s"),
            (12.52, "12.5 s"),
            (125.0, "2 min 05 s"),
            (3599.9, "1 h 00 min"),
            (3725.0, "1 h 02 min"),
        ];
        for (value, text) in cases {
            assert_eq!(seconds(value.into()), text);
        }
        assert_eq!(seconds(with_deviation(125.0, 1.25)), "125.0 ± 1.2 s");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(number(134_515_008.0.into(), 0), "134,515,008");
        assert_eq!(number((-1234.5).into(), 1), "-1,234.5");
        assert_eq!(number((-0.01).into(), 1), "0.0");
        assert_eq!(number(f64::NAN.into(), 1), "NaN");
        assert_eq!(rate(1024.4.into()), "1,024");
        assert_eq!(rate(98.34.into()), "98.3");
        assert_eq!(rate(0.012_34.into()), "0.0123");
        assert_eq!(percent(0.03631.into()), "3.63%");
        assert_eq!(percent(0.000_844.into()), "0.084%");
        assert_eq!(ratio(0.644.into()), "0.64×");
    }
}
