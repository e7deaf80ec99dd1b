//! Colours, letters and the frame of every chart.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::memory::Category;

/// Width of every chart, and the space at its edges, in pixels.
pub(super) const WIDTH: i32 = 860;
pub(super) const MARGIN: i32 = 20;
/// Height of letters, but for titles.
pub(super) const LETTERS: f64 = 12.0;

const BACKGROUND: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
pub(super) const TEXT: RGBColor = RGBColor(0x1F, 0x23, 0x28);
pub(super) const MUTED: RGBColor = RGBColor(0x59, 0x63, 0x6E);
pub(super) const GRID: RGBColor = RGBColor(0xE1, 0xE6, 0xEB);

/// The colours above for a dark page. The background is part of the chart, so that letters and ground always change
/// together.
const DARK: [(RGBColor, RGBColor); 4] = [
    (BACKGROUND, RGBColor(0x0D, 0x11, 0x17)),
    (TEXT, RGBColor(0xF0, 0xF6, 0xFC)),
    (MUTED, RGBColor(0x91, 0x98, 0xA1)),
    (GRID, RGBColor(0x2A, 0x31, 0x3C)),
];

/// Colours of series. Each has a contrast of at least 3:1 with both backgrounds, and most colour-blind readers can tell
/// them apart.
pub(super) const SERIES: [RGBColor; 6] = [
    RGBColor(0x35, 0x78, 0xE5),
    RGBColor(0xD9, 0x73, 0x0D),
    RGBColor(0x2E, 0x9E, 0x5B),
    RGBColor(0x9A, 0x5B, 0xD6),
    RGBColor(0x13, 0x96, 0xA5),
    RGBColor(0xDB, 0x4B, 0x4B),
];

/// The number of series that colours can tell apart.
pub const SERIES_COLOURS: usize = SERIES.len();

/// The colours of PyTorch's memory timeline (`torch/profiler/_memory_profiler.py`: darkgreen, goldenrod, mediumblue, red,
/// black, mediumpurple), each with its variant for a dark ground. Adapters have no colour there.
const CATEGORIES: [(Category, RGBColor, RGBColor); 7] = [
    (
        Category::Parameter,
        RGBColor(0x00, 0x64, 0x00),
        RGBColor(0x2E, 0x8B, 0x57),
    ),
    (
        Category::Adapter,
        RGBColor(0x00, 0x8B, 0x8B),
        RGBColor(0x13, 0x96, 0xA5),
    ),
    (
        Category::OptimizerState,
        RGBColor(0xDA, 0xA5, 0x20),
        RGBColor(0xC8, 0x8A, 0x12),
    ),
    (
        Category::Gradient,
        RGBColor(0x00, 0x00, 0xCD),
        RGBColor(0x3D, 0x78, 0xE0),
    ),
    (
        Category::Activation,
        RGBColor(0xFF, 0x00, 0x00),
        RGBColor(0xDB, 0x4B, 0x4B),
    ),
    (Category::Input, RGBColor(0x00, 0x00, 0x00), RGBColor(0x9D, 0xA5, 0xB0)),
    (
        Category::Temporary,
        RGBColor(0x93, 0x70, 0xDB),
        RGBColor(0x9A, 0x70, 0xDB),
    ),
];

/// The colour of a category on a light ground; [`finish`] knows the other.
pub(super) fn category_color(category: Category) -> RGBColor {
    CATEGORIES
        .iter()
        .find(|(known, ..)| *known == category)
        .map_or(MUTED, |(_, light, _)| *light)
}

/// The colour of a category in bars, which is readable on a light and on a dark ground.
pub fn bar_color(category: Category) -> RGBColor {
    match category {
        Category::Input | Category::Host => RGBColor(0x7D, 0x85, 0x90),
        category => CATEGORIES
            .iter()
            .find(|(known, ..)| *known == category)
            .map_or(MUTED, |(_, _, dark)| *dark),
    }
}

const FONT: FontFamily<'static> =
    FontFamily::Name("system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif");

/// A style whose letters are `size` pixels high; plotters' SVG divides its sizes by 1.24.
pub(super) fn letters(size: f64, color: &RGBColor, horizontal: HPos) -> TextStyle<'static> {
    FontDesc::new(FONT, size * 1.24, FontStyle::Normal)
        .color(color)
        .pos(Pos::new(horizontal, VPos::Center))
}

/// A bold style of the same kind.
pub(super) fn bold(size: f64, color: &RGBColor) -> TextStyle<'static> {
    FontDesc::new(FONT, size * 1.24, FontStyle::Bold)
        .color(color)
        .pos(Pos::new(HPos::Left, VPos::Center))
}

/// An upper estimate of a text's width in a sans-serif font, in pixels. There is no font to measure with.
pub(super) fn text_width(text: &str, size: f64) -> i32 {
    let ems: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '\'' | '.' | ',' | ':' | ';' | '|' | '!' | '·' => 0.30,
            'f' | 'r' | 't' | 'I' | '(' | ')' | '[' | ']' | '-' | ' ' | '/' => 0.38,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.92,
            'A'..='Z' | '±' | '×' | '—' | '=' => 0.70,
            c if c.is_ascii() => 0.60,
            _ => 0.80,
        })
        .sum();
    (ems * size).ceil() as i32
}

/// Left edge and row of each entry of a legend, given their widths and the gap between two; a row ends at the margin.
pub(super) fn legend_places(widths: impl Iterator<Item = i32>, margin: i32, gap: i32) -> Vec<(i32, i32)> {
    let (mut x, mut row) = (margin, 0);
    let place = |width: i32| {
        if x + width > WIDTH - margin && x > margin {
            (x, row) = (margin, row + 1);
        }
        let at = (x, row);
        x += width + gap;
        at
    };
    widths.map(place).collect()
}

/// The text, cut at the end if it is wider than `width` pixels.
pub(super) fn shortened(text: &str, size: f64, width: i32) -> String {
    if text_width(text, size) <= width {
        return text.to_string();
    }
    let mut short = text.to_string();
    while !short.is_empty() && text_width(&short, size) + text_width("…", size) > width {
        short.pop();
    }
    format!("{}…", short.trim_end())
}

/// Adds to plotters' SVG a title for screen readers, the ground, and the colours for dark pages.
pub(super) fn finish(svg: &str, title: &str, height: i32) -> String {
    let open = svg.find('>').map_or(0, |end| end + 1);
    let (head, body) = svg.split_at(open);
    let head = head.replacen("<svg ", "<svg role=\"img\" ", 1);
    let mut dark = String::new();
    let categories = CATEGORIES.map(|(_, light, dark)| (light, dark));
    let used = categories.into_iter().filter(|(light, _)| body.contains(&hex(*light)));
    for (light, dark_color) in DARK.into_iter().chain(used) {
        let (from, to) = (hex(light), hex(dark_color));
        dark.push_str(&format!(
            "  [fill=\"{from}\"] {{ fill: {to}; }}\n  [stroke=\"{from}\"] {{ stroke: {to}; }}\n"
        ));
    }
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    let ground = hex(BACKGROUND);
    format!(
        "{head}\n<title>{title}</title>\n<style>\n@media (prefers-color-scheme: dark) {{\n{dark}}}\n</style>\n\
         <rect x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"{ground}\"/>{body}"
    )
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance(RGBColor(r, g, b): RGBColor) -> f64 {
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    }

    fn contrast(a: RGBColor, b: RGBColor) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn colours_can_be_told_from_both_grounds() {
        for (light, dark) in [DARK[1], DARK[2]] {
            assert!(contrast(light, BACKGROUND) >= 4.5);
            assert!(contrast(dark, DARK[0].1) >= 4.5);
        }
        for (_, light, dark) in CATEGORIES {
            let goldenrod = RGBColor(0xDA, 0xA5, 0x20);
            let least = if light == goldenrod { 2.0 } else { 3.0 };
            assert!(contrast(light, BACKGROUND) >= least, "{} on white", hex(light));
            assert!(contrast(dark, DARK[0].1) >= 3.0, "{} on black", hex(dark));
        }
        for color in SERIES {
            for ground in [BACKGROUND, DARK[0].1] {
                assert!(contrast(color, ground) >= 3.0, "{} on {}", hex(color), hex(ground));
            }
        }
    }

    #[test]
    fn long_texts_are_shortened() {
        assert_eq!(shortened("rank", 12.0, 100), "rank");
        let short = shortened("a very long label of a cell", 12.0, 60);
        assert!(short.ends_with('…') && text_width(&short, 12.0) <= 60, "{short}");
    }
}
