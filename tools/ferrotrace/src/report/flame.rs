// SPDX-License-Identifier: GPL-2.0

//! Flame graphs of folded stacks, as an SVG that needs no other file.
//!
//! Written here: the crate `inferno` has a licence, the CDDL, that does not permit linking it with
//! code under the GPL.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use super::tables::Cell;
use crate::merge::calls::BETWEEN;
use crate::text::Markup;
use crate::text::printable;

const STYLE: &str = include_str!("flame.css");
const SCRIPT: &str = include_str!("flame.js");

/// The most frames that are told apart.
const FRAMES: usize = 1 << 18;

/// The most frames of a stack.
const DEPTH: usize = 512;

/// Width of the graph, and height of a frame, in pixels.
const WIDTH: u32 = 1200;
const ROW: u32 = 18;

/// Width of a character, in pixels, and the fewest pixels of a frame with text.
const CHAR: f64 = 7.3;
const TEXT_FROM: f64 = 24.0;

/// Frames that are narrower are not drawn.
const NARROWEST: f64 = 0.1;

/// Unit of the values of a flame graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Number of hits.
    #[default]
    Hits,
    /// Nanoseconds.
    Time,
}

impl Unit {
    fn show(self, value: u64) -> String {
        match self {
            Self::Hits if value == 1 => "1 hit".to_owned(),
            Self::Hits => format!("{value} hits"),
            Self::Time => Cell::Time(value).to_string(),
        }
    }
}

/// A call: the sum of the stacks that have it at the same place.
#[derive(Debug, Default)]
struct Frame {
    value: u64,
    calls: BTreeMap<String, usize>,
}

/// A flame graph: stacks that share their outermost calls share frames.
#[derive(Debug)]
pub struct Flame {
    unit: Unit,
    /// The first one stands for all stacks.
    frames: Vec<Frame>,
    /// Stacks that lack their innermost calls, because there are too many.
    cut: u64,
}

/// Returns the number of a name's colour, the same one as in the page.
fn colour(name: &str) -> u32 {
    let hash = |hash: u32, c: char| (hash ^ u32::from(c)).wrapping_mul(16_777_619);
    name.chars().fold(2_166_136_261, hash) % 12
}

/// Returns `part` of `whole` as a fraction. Rounded: for drawing only.
fn fraction(part: u64, whole: u64) -> f64 {
    let parts = u128::from(part) * 1_000_000_000 / u128::from(whole.max(1));
    f64::from(u32::try_from(parts).unwrap_or(u32::MAX)) / 1e9
}

impl Flame {
    /// Returns a flame graph without stacks.
    pub fn new(unit: Unit) -> Self {
        Self {
            unit,
            frames: vec![Frame::default()],
            cut: 0,
        }
    }

    /// Adds a stack: the names of its calls, the outermost first, with `;` between.
    pub fn add(&mut self, stack: &str, value: u64) {
        let names = stack.split(BETWEEN).filter(|name| !name.is_empty());
        let mut at = 0;
        for (depth, name) in names.enumerate() {
            let count = self.frames.len();
            let Some(frame) = self.frames.get_mut(at) else {
                return;
            };
            frame.value = frame.value.saturating_add(value);
            at = match frame.calls.get(name) {
                Some(known) => *known,
                None if count < FRAMES && depth < DEPTH => {
                    frame.calls.insert(name.to_owned(), count);
                    self.frames.push(Frame::default());
                    count
                }
                None => {
                    self.cut += 1;
                    return;
                }
            };
        }
        if let Some(frame) = self.frames.get_mut(at) {
            frame.value = frame.value.saturating_add(value);
        }
    }

    /// Returns the sum of all stacks.
    pub fn total(&self) -> u64 {
        self.frames.first().map_or(0, |all| all.value)
    }

    /// Returns the frames to draw, with their depth and left edge, and the greatest depth.
    fn placed(&self) -> (Vec<(u32, f64, &str, &Frame)>, u32) {
        let total = self.total();
        let (mut placed, mut deepest) = (Vec::new(), 0);
        let mut todo = vec![(0, 0.0, "all", 0)];
        while let Some((depth, left, name, index)) = todo.pop() {
            let Some(frame) = self.frames.get(index) else {
                continue;
            };
            deepest = deepest.max(depth);
            placed.push((depth, left, name, frame));
            let mut left = left;
            for (name, index) in &frame.calls {
                let value = self.frames.get(*index).map_or(0, |call| call.value);
                let width = fraction(value, total);
                if width * f64::from(WIDTH) >= NARROWEST {
                    todo.push((depth + 1, left, name, *index));
                }
                left += width;
            }
        }
        (placed, deepest)
    }

    /// Writes the graph as an SVG, which is called `title`.
    ///
    /// A click on a frame zooms to it, Ctrl-F or `/` searches.
    pub fn write_svg(&self, out: &mut impl Write, title: &str) -> io::Result<()> {
        let total = self.total();
        let (frames, deepest) = self.placed();
        let top = 46;
        let height = top + (deepest + 1) * ROW + 26;
        let (title, all) = (Markup(printable(title)), self.unit.show(total));
        write!(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n\
             <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n\
             <text class=\"title\" x=\"8\" y=\"20\">{title}</text>\n\
             <text id=\"all\" class=\"button\" x=\"8\" y=\"38\">{all}</text>\n\
             <text id=\"search\" class=\"button\" x=\"{right}\" y=\"38\">search (/)</text>\n\
             <text id=\"found\" x=\"{right}\" y=\"20\"></text>\n<g id=\"frames\">\n",
            right = WIDTH - 8,
        )?;
        for (depth, left, name, frame) in frames {
            let width = match depth {
                0 => 1.0,
                _ => fraction(frame.value, total),
            };
            let (x, w) = (left * f64::from(WIDTH), width * f64::from(WIDTH));
            let y = top + (deepest - depth) * ROW;
            let share = 100.0 * width;
            let value = self.unit.show(frame.value);
            let fits = match w < TEXT_FROM {
                true => String::new(),
                // In place of a name that does not fit, its beginning.
                false => {
                    let room = f64::max((w - 6.0) / CHAR, 0.0);
                    let mut chars = (0u32..).zip(name.chars());
                    let cut = chars.any(|(index, _)| f64::from(index) >= room);
                    let mark = if cut { 2.0 } else { 0.0 };
                    let kept = (0u32..).zip(name.chars());
                    let kept = kept.take_while(|(index, _)| f64::from(*index) < room - mark);
                    let mut kept: String = kept.map(|(_, c)| c).collect();
                    kept.push_str(if cut { ".." } else { "" });
                    kept
                }
            };
            writeln!(
                out,
                "<g class=\"c{}\" data-x=\"{left:.9}\" data-w=\"{width:.9}\" data-d=\"{depth}\">\
                 <title>{}: {value}, {share:.2} %</title>\
                 <rect x=\"{x:.2}\" y=\"{y}\" width=\"{w:.2}\" height=\"{}\"/>\
                 <text x=\"{:.2}\" y=\"{}\">{}</text></g>",
                colour(name),
                Markup(printable(name)),
                ROW - 1,
                x + 3.0,
                y + 13,
                Markup(printable(&fits)),
            )?;
        }
        out.write_all(b"</g>\n")?;
        if self.cut > 0 {
            writeln!(
                out,
                "<text x=\"8\" y=\"{}\">{} stacks lack their innermost calls: there are too \
                 many different ones.</text>",
                height - 8,
                self.cut
            )?;
        }
        write!(out, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(flame: &Flame) -> String {
        let mut out = Vec::new();
        flame.write_svg(&mut out, "a <b>").unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn frames_are_as_wide_as_their_values() {
        let mut flame = Flame::new(Unit::Hits);
        for (stack, value) in [
            ("main;read", 2),
            ("main;write;flush", 1),
            ("main", 1),
            ("", 4),
        ] {
            flame.add(stack, value);
        }
        assert_eq!(flame.total(), 8);
        let svg = svg(&flame);
        for line in [
            "<title>all: 8 hits, 100.00 %</title><rect x=\"0.00\" y=\"100\" width=\"1200.00\"",
            "<title>main: 4 hits, 50.00 %</title><rect x=\"0.00\" y=\"82\" width=\"600.00\"",
            "<title>read: 2 hits, 25.00 %</title><rect x=\"0.00\" y=\"64\" width=\"300.00\"",
            "<title>write: 1 hit, 12.50 %</title><rect x=\"300.00\" y=\"64\" width=\"150.00\"",
            "<title>flush: 1 hit, 12.50 %</title><rect x=\"300.00\" y=\"46\" width=\"150.00\"",
        ] {
            assert!(svg.contains(line), "{line}\n{svg}");
        }
        assert!(svg.contains("<title>a &lt;b&gt;</title>"));
    }

    /// Names can be anything.
    #[test]
    fn names_are_escaped_and_cut() {
        let mut flame = Flame::new(Unit::Time);
        let long = "x".repeat(500);
        flame.add("<script>alert(1)</script>]]>\u{1b}[2J", 1_500);
        flame.add(&long, 500);
        let svg = svg(&flame);
        assert_eq!(svg.matches("<script>").count(), 1);
        assert_eq!(svg.matches("]]>").count(), 1);
        let name = "&lt;script&gt;alert(1)&lt;/script&gt;]]&gt;\\u001b[2J";
        assert!(svg.contains(&format!("<title>{name}: 1.500 us, 75.00 %</title>")));
        // 300 pixels have room for 40 characters and a bit.
        assert!(
            svg.contains(&format!(">{}..</text>", "x".repeat(39))),
            "{svg}"
        );
    }

    /// However many stacks there are, none is lost.
    #[test]
    fn memory_is_bounded() {
        let mut flame = Flame::new(Unit::Hits);
        let many = FRAMES + 10;
        for i in 0..many {
            flame.add(&format!("f{i}"), 1);
        }
        flame.add(&"deep;".repeat(DEPTH + 2), 1);
        assert_eq!(flame.frames.len(), FRAMES);
        assert_eq!(flame.total(), u64::try_from(many).unwrap() + 1);
        assert_eq!(flame.cut, 12);
        assert!(svg(&flame).contains("12 stacks lack their innermost calls"));
        let empty = Flame::new(Unit::Hits);
        assert!(svg(&empty).contains("all: 0 hits, 100.00 %"));
    }
}
