//! Letters and the frame of every chart.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::colour::{BACKGROUND, PAGE, PALETTE};
use super::hit::Hit;
use super::text::escaped;

/// Width of every chart, and the space at its edges, in pixels.
pub(super) const WIDTH: i32 = 860;
pub(super) const MARGIN: i32 = 20;
/// Height of letters, but for titles.
pub(super) const LETTERS: f64 = 12.0;

/// The font of all letters, which the root of the SVG names once. Texts carry a stand-in that `finish` removes.
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif";
const STAND_IN: FontFamily<'static> = FontFamily::Name("font");

/// A style whose letters are `size` pixels high; plotters' SVG divides its sizes by 1.24.
pub(super) fn letters(size: f64, color: &RGBColor, horizontal: HPos) -> TextStyle<'static> {
    FontDesc::new(STAND_IN, size * 1.24, FontStyle::Normal)
        .color(color)
        .pos(Pos::new(horizontal, VPos::Center))
}

/// A bold style of the same kind.
pub(super) fn bold(size: f64, color: &RGBColor) -> TextStyle<'static> {
    FontDesc::new(STAND_IN, size * 1.24, FontStyle::Bold)
        .color(color)
        .pos(Pos::new(HPos::Left, VPos::Center))
}

/// Adds to plotters' SVG a title for screen readers, the background, the colours of dark pages, and the values.
pub(super) fn finish(svg: &str, title: &str, height: i32, hits: &[Hit]) -> String {
    let open = svg.find('>').map_or(0, |end| end + 1);
    let (head, body) = svg.split_at(open);
    let head = head.replacen("<svg ", &format!("<svg role=\"img\" font-family=\"{FONT}\" "), 1);
    let mut dark = String::new();
    let used = PALETTE.into_iter().filter(|(light, _)| body.contains(&hex(*light)));
    for (light, dark_color) in PAGE.into_iter().chain(used) {
        let (from, to) = (hex(light), hex(dark_color));
        dark.push_str(&format!(
            "  [fill=\"{from}\"] {{ fill: {to}; }}\n  [stroke=\"{from}\"] {{ stroke: {to}; }}\n"
        ));
    }
    let title = escaped(title);
    let ground = hex(BACKGROUND);
    let body = body.trim_end();
    let body = body.strip_suffix("</svg>").unwrap_or(body);
    let body = body.replace(" font-family=\"font\"", "").replace(" opacity=\"1\"", "");
    let hits: String = hits.iter().map(Hit::svg).collect();
    format!(
        "{head}\n<title>{title}</title>\n<style>\n@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n</style>\n\
         <rect x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"{ground}\"/>{body}{hits}</svg>\n"
    )
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}
