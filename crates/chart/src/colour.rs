//! Colours of charts, on light and on dark pages.
//!
//! Charts are drawn in the colours of a light page. `finish` in `theme.rs` adds rules that replace them on a dark one.

use plotters::style::RGBColor;
use trace::Category;

/// A colour on a light page, and the one that replaces it on a dark page.
type Shades = (RGBColor, RGBColor);

pub(super) const BACKGROUND: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
pub(super) const TEXT: RGBColor = RGBColor(0x1F, 0x23, 0x28);
pub(super) const MUTED: RGBColor = RGBColor(0x59, 0x63, 0x6E);
pub(super) const GRID: RGBColor = RGBColor(0xE1, 0xE6, 0xEB);

/// The background is part of the chart, so that letters and background always change together.
pub(super) const PAGE: [Shades; 4] = [
    (BACKGROUND, RGBColor(0x0D, 0x11, 0x17)),
    (TEXT, RGBColor(0xF0, 0xF6, 0xFC)),
    (MUTED, RGBColor(0x91, 0x98, 0xA1)),
    (GRID, RGBColor(0x2A, 0x31, 0x3C)),
];

const GREEN: Shades = (RGBColor(0x47, 0x81, 0x63), RGBColor(0x3A, 0xAC, 0x75));
const SKY: Shades = (RGBColor(0x00, 0x97, 0xEB), RGBColor(0x5B, 0xBE, 0xFF));
const AMBER: Shades = (RGBColor(0xB8, 0x8D, 0x16), RGBColor(0xF0, 0xC3, 0x3D));
const BLUE: Shades = (RGBColor(0x0C, 0x4B, 0xA2), RGBColor(0x27, 0x71, 0xDF));
const VERMILLION: Shades = (RGBColor(0xBD, 0x4E, 0x09), RGBColor(0xC8, 0x5D, 0x00));
const INK: Shades = (RGBColor(0x00, 0x00, 0x00), RGBColor(0xF4, 0xF1, 0xF2));
const PURPLE: Shades = (RGBColor(0x9B, 0x5D, 0xA9), RGBColor(0xAB, 0x89, 0xBF));
const GREY: Shades = (RGBColor(0x92, 0x92, 0x9C), RGBColor(0x79, 0x7A, 0x81));

/// The colours of the Okabe-Ito palette, moved until each has a contrast of 3:1 with its page, and until any two are
/// apart for readers who do not see red or green. The test at the end says how far.
pub(super) const PALETTE: [Shades; 8] = [GREEN, SKY, AMBER, BLUE, VERMILLION, INK, PURPLE, GREY];

/// Colours of series.
pub(super) const SERIES: [RGBColor; 6] = [BLUE.0, VERMILLION.0, GREEN.0, PURPLE.0, AMBER.0, SKY.0];

/// The number of series that colours can tell apart.
pub const SERIES_COLOURS: usize = SERIES.len();

/// The colour of a series by its position.
pub(super) fn series_colour(series: usize) -> RGBColor {
    SERIES[series % SERIES.len()]
}

/// The colour of a category.
pub(super) fn category_colour(category: Category) -> RGBColor {
    let (light, _) = match category {
        Category::Parameter => GREEN,
        Category::Adapter => SKY,
        Category::OptimizerState => AMBER,
        Category::Gradient => BLUE,
        Category::Activation => VERMILLION,
        Category::Input => INK,
        Category::Temporary => PURPLE,
        Category::Host | Category::Offloaded => GREY,
    };
    light
}

/// A part of a bar, by its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Memory of a category.
    Category(Category),
    /// Memory of the allocator's blocks beyond what was asked for.
    Rounding,
    /// A quantity among others, by its number.
    Series(usize),
    /// A total.
    Total,
    /// A change to less.
    Less,
    /// A change to more.
    More,
}

impl Colour {
    pub(super) fn light(self) -> RGBColor {
        match self {
            Self::Category(category) => category_colour(category),
            Self::Series(series) => series_colour(series),
            Self::Total | Self::Rounding => GREY.0,
            Self::Less => BLUE.0,
            Self::More => VERMILLION.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::heat_map::STRONGEST;
    use super::*;

    type Linear = [f64; 3];

    fn linear(RGBColor(r, g, b): RGBColor) -> Linear {
        [r, g, b].map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        })
    }

    fn times(matrix: [Linear; 3], [r, g, b]: Linear) -> Linear {
        matrix.map(|[x, y, z]| x * r + y * g + z * b)
    }

    /// Relative luminance and contrast of WCAG 2.
    fn contrast(a: RGBColor, b: RGBColor) -> f64 {
        let luminance = |colour| {
            let [r, g, b] = linear(colour);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b): (f64, f64) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// Ottosson's Oklab of a linear colour.
    fn oklab(colour: Linear) -> Linear {
        let lms = times(
            [
                [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
                [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
                [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
            ],
            colour,
        );
        times(
            [
                [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
                [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
                [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
            ],
            lms.map(f64::cbrt),
        )
    }

    /// Readers by what they see of a colour: all of it, and without red or green (Machado, Oliveira and Fernandes 2009,
    /// severity 1).
    const READERS: [(&str, [Linear; 3]); 3] = [
        ("everybody", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
        ),
    ];

    fn distance(reader: [Linear; 3], a: RGBColor, b: RGBColor) -> f64 {
        let seen = |colour| oklab(times(reader, linear(colour)).map(|c| c.clamp(0.0, 1.0)));
        let (a, b) = (seen(a), seen(b));
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn every_reader_can_tell_any_two_colours_apart() {
        for (name, reader) in READERS {
            for (at, a) in PALETTE.into_iter().enumerate() {
                for b in &PALETTE[..at] {
                    let (light, dark) = (distance(reader, a.0, b.0), distance(reader, a.1, b.1));
                    assert!(
                        light >= 0.095 && dark >= 0.095,
                        "{name}: {a:?} and {b:?}: {light} and {dark}"
                    );
                }
            }
        }
    }

    #[test]
    fn red_and_green_of_equal_lightness_would_not_pass() {
        let (red, green) = (RGBColor(0xDB, 0x4B, 0x4B), RGBColor(0x7A, 0x7A, 0x20));
        assert!(distance(READERS[0].1, red, green) > 0.15);
        assert!(distance(READERS[2].1, red, green) < 0.095);
    }

    #[test]
    fn colours_stand_out_from_their_page() {
        let [page, text, muted, _] = PAGE;
        for (light, dark) in [text, muted] {
            assert!(contrast(light, page.0) >= 4.5 && contrast(dark, page.1) >= 4.5);
        }
        for (light, dark) in PALETTE {
            let least = contrast(light, page.0).min(contrast(dark, page.1));
            assert!(least >= 3.0, "{light:?} and {dark:?}: {least}");
        }
    }

    #[test]
    fn letters_stand_out_from_a_heat_map() {
        let mixed = |RGBColor(r, g, b), RGBColor(x, y, z)| {
            let mix = |a, b| (f64::from(b) + STRONGEST * (f64::from(a) - f64::from(b))) as u8;
            RGBColor(mix(r, x), mix(g, y), mix(b, z))
        };
        let [page, text, ..] = PAGE;
        for (light, dark) in PALETTE {
            let least = contrast(text.0, mixed(light, page.0)).min(contrast(text.1, mixed(dark, page.1)));
            assert!(least >= 4.5, "{light:?} and {dark:?}: {least}");
        }
    }

    #[test]
    fn a_light_colour_has_one_dark_one() {
        let all: Vec<Shades> = PAGE.into_iter().chain(PALETTE).collect();
        for (at, (light, dark)) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.0 != *light || other.1 == *dark));
        }
    }
}
