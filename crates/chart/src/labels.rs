//! Places for the labels of points: next to their point, and clear of other points, labels and leaders.

use std::ops::Range;

use plotters::style::text_anchor::HPos;

use super::canvas::LINE;
use super::text::text_width;

/// A box in pixels, y down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rect {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

impl Rect {
    /// The part of a plotting area that labels may cover; the area is given in pixels.
    pub(super) fn inside((x, y): (Range<i32>, Range<i32>)) -> Self {
        Self {
            left: x.start + 2,
            top: y.start + 2,
            right: x.end - 2,
            bottom: y.end - 4,
        }
    }

    fn around((x, y): (i32, i32), radius: i32) -> Self {
        Self {
            left: x - radius,
            top: y - radius,
            right: x + radius,
            bottom: y + radius,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn within(&self, outer: &Self) -> bool {
        self.left >= outer.left && self.right <= outer.right && self.top >= outer.top && self.bottom <= outer.bottom
    }

    /// True if a line touches the box. The line is sampled at every pixel of its longer side, which is enough for text.
    fn crossed_by(&self, ((x0, y0), (x1, y1)): Line) -> bool {
        let steps = (x1 - x0).abs().max((y1 - y0).abs()).max(1);
        (0..=steps).any(|i| {
            let (x, y) = (x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps);
            x >= self.left && x <= self.right && y >= self.top && y <= self.bottom
        })
    }
}

/// From one pixel to another.
pub(super) type Line = ((i32, i32), (i32, i32));

/// A label's box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    rect: Rect,
    anchor: Anchor,
    /// A line to the point, if the box is not close to it.
    pub(super) leader: Option<Line>,
}

impl Placed {
    /// The position of the text, and the part of the text at that position.
    pub(super) fn text(&self) -> ((i32, i32), HPos) {
        let rect = self.rect;
        let (x, horizontal) = match self.anchor {
            Anchor::Start => (rect.left, HPos::Left),
            Anchor::Middle => ((rect.left + rect.right) / 2, HPos::Center),
            Anchor::End => (rect.right, HPos::Right),
        };
        ((x, (rect.top + rect.bottom) / 2), horizontal)
    }
}

/// Width and height of a label's lines in letters of that height.
pub(super) fn size(lines: &[String], letters: f64) -> (i32, i32) {
    let widest = lines.iter().map(|line| text_width(line, letters)).max();
    (widest.unwrap_or(0), lines.len() as i32 * LINE)
}

/// The part of the text at the point's side of the box, so that the gap is exact although widths are estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// The gaps between point and label, in the order of trial. A gap past `SIDE_BY_SIDE` needs a leader.
const GAPS: [i32; 9] = [7, 12, 20, 30, 42, 56, 72, 90, 110];
const SIDE_BY_SIDE: i32 = 12;
/// Directions in percent, in the order of preference: right, left, above, below, the diagonals, and between those.
const DIRECTIONS: [(i32, i32); 16] = [
    (100, 0),
    (-100, 0),
    (0, -100),
    (0, 100),
    (71, -71),
    (-71, -71),
    (71, 71),
    (-71, 71),
    (92, -38),
    (-92, -38),
    (92, 38),
    (-92, 38),
    (38, -92),
    (-38, -92),
    (38, 92),
    (-38, 92),
];

/// Places a label of each size next to its point, within `bounds` and clear of `lines`; `None` if there is no room.
pub(super) fn place(
    points: &[(i32, i32)],
    radius: i32,
    sizes: &[(i32, i32)],
    bounds: Rect,
    lines: &[Line],
) -> Vec<Option<Placed>> {
    let dots: Vec<Rect> = points.iter().map(|&p| Rect::around(p, radius + 2)).collect();
    let mut done: Vec<Placed> = Vec::new();
    let mut placed = vec![None; points.len()];
    // The most crowded points first: they have the fewest places to choose from.
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(neighbours(points, i)), i));
    for i in order {
        let free = |candidate: &Placed| {
            candidate.rect.within(&bounds)
                && dots.iter().all(|dot| !dot.overlaps(&candidate.rect))
                && lines.iter().all(|&line| !candidate.rect.crossed_by(line))
                && done.iter().all(|other| {
                    !other.rect.overlaps(&candidate.rect)
                        && other.leader.is_none_or(|line| !candidate.rect.crossed_by(line))
                        && candidate.leader.is_none_or(|line| !other.rect.crossed_by(line))
                })
                && candidate.leader.is_none_or(|line| {
                    let others = dots
                        .iter()
                        .enumerate()
                        .filter(|(j, _)| *j != i && points[*j] != points[i]);
                    others.into_iter().all(|(_, dot)| !dot.crossed_by(line))
                })
        };
        if let Some(found) = candidates(points[i], radius, sizes[i]).find(free) {
            done.push(found);
            placed[i] = Some(found);
        }
    }
    placed
}

/// The number of points near this one.
fn neighbours(points: &[(i32, i32)], i: usize) -> usize {
    let (x, y) = points[i];
    points
        .iter()
        .filter(|(px, py)| (px - x).abs() < 100 && (py - y).abs() < 40)
        .count()
}

fn candidates((x, y): (i32, i32), radius: i32, (width, height): (i32, i32)) -> impl Iterator<Item = Placed> {
    GAPS.into_iter().flat_map(move |gap| {
        DIRECTIONS.into_iter().map(move |(dx, dy)| {
            let at = |reach: i32| (x + dx * reach / 100, y + dy * reach / 100);
            let (near_x, near_y) = at(radius + gap);
            let (left, anchor) = match dx {
                1.. => (near_x, Anchor::Start),
                0 => (near_x - width / 2, Anchor::Middle),
                _ => (near_x - width, Anchor::End),
            };
            let top = match dy {
                1.. => near_y,
                0 => near_y - height / 2,
                _ => near_y - height,
            };
            let rect = Rect {
                left,
                top,
                right: left + width,
                bottom: top + height,
            };
            let leader = (gap > SIDE_BY_SIDE).then(|| (at(radius + 1), at(radius + gap - 2)));
            Placed { rect, anchor, leader }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Rect = Rect {
        left: 0,
        top: 0,
        right: 800,
        bottom: 500,
    };

    fn clear(points: &[(i32, i32)], placed: &[Option<Placed>]) {
        let rects: Vec<Rect> = placed.iter().flatten().map(|p| p.rect).collect();
        for (i, rect) in rects.iter().enumerate() {
            assert!(rect.within(&BOUNDS));
            assert!(points.iter().all(|&p| !Rect::around(p, 5).overlaps(rect)));
            assert!(rects[..i].iter().all(|other| !other.overlaps(rect)));
        }
    }

    #[test]
    fn a_lonely_point_has_its_label_to_the_right() {
        let placed = place(&[(100, 100)], 5, &[(60, 14)], BOUNDS, &[])[0].unwrap();
        assert_eq!((placed.rect.left, placed.rect.top), (112, 93));
        assert_eq!(placed.leader, None);
    }

    #[test]
    fn crowded_labels_do_not_overlap() {
        let points: Vec<(i32, i32)> = (0..24).map(|i| (340 + (i * 37) % 130, 190 + (i * 53) % 110)).collect();
        let placed = place(&points, 5, &vec![(70, 14); points.len()], BOUNDS, &[]);
        clear(&points, &placed);
        let found = placed.iter().flatten().count();
        assert!(found >= 16, "most labels find a place, not {found}");
    }

    #[test]
    fn labels_stay_inside_at_the_edge() {
        let points = [(797, 3), (797, 497), (3, 3), (400, 250)];
        let placed = place(&points, 5, &[(120, 14); 4], BOUNDS, &[]);
        clear(&points, &placed);
        assert!(placed.iter().all(Option::is_some));
    }
}
