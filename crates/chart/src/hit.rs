//! Places of a chart that say their values: by the browser's own tooltip, and by the HTML page's.

use super::text::escaped;

/// The smallest side of a place, in pixels. A finger needs more, and has the keys and the tables.
const LEAST: i32 = 6;

/// A box in pixels, and the text that it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    left: i32,
    top: i32,
    width: i32,
    height: i32,
    says: String,
}

impl Hit {
    /// A box between two corners.
    pub(super) fn between((x0, y0): (i32, i32), (x1, y1): (i32, i32), says: &str) -> Self {
        let side = |from: i32, to: i32| {
            let (low, high) = (from.min(to), from.max(to));
            let more = (LEAST - (high - low)).max(0);
            (low - more / 2, high - low + more)
        };
        let ((left, width), (top, height)) = (side(x0, x1), side(y0, y1));
        Self {
            left,
            top,
            width,
            height,
            says: says.to_owned(),
        }
    }

    /// A box around a point.
    pub(super) fn around((x, y): (i32, i32), radius: i32, says: &str) -> Self {
        Self::between((x - radius, y - radius), (x + radius, y + radius), says)
    }

    pub(super) fn svg(&self) -> String {
        let Self {
            left,
            top,
            width,
            height,
            says,
        } = self;
        format!(
            "<rect class=\"value\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"none\" \
             pointer-events=\"all\"><title>{}</title></rect>\n",
            escaped(says)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thin_part_can_still_be_pointed_at() {
        let hit = Hit::between((100, 10), (101, 28), "rank <4> & more");
        assert_eq!(
            hit.svg(),
            "<rect class=\"value\" x=\"98\" y=\"10\" width=\"6\" height=\"18\" fill=\"none\" pointer-events=\"all\">\
             <title>rank &lt;4&gt; &amp; more</title></rect>\n"
        );
    }
}
