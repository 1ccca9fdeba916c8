//! What moves in the picture that is a file of its own: a curtain that time draws aside, and each
//! message as a dot on its arrow. The style sheet moves it, for readers who have nothing against
//! motion; for all others the picture stands still, and is whole.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::draw::{Layout, Placed, class, round};

/// Of the picture as a file; of a page only what is below the colours.
pub(super) const STYLE: &str = concat!(include_str!("picture.css"), include_str!("colours.css"));

/// How long it takes for time to pass all of the picture, and how long it then stands whole.
const PASS_S: f64 = 8.0;
const STAND_S: f64 = 4.0;

/// Where what moves is at each moment.
pub(super) struct Motion<'a> {
    layout: &'a Layout,
    strips: &'a [Placed<'a>],
}

impl<'a> Motion<'a> {
    pub(super) fn new(layout: &'a Layout, strips: &'a [Placed<'a>]) -> Motion<'a> {
        Motion { layout, strips }
    }

    /// The part of a round, in percent, after which time has come to this place.
    fn percent(x: f64, layout: &Layout) -> f64 {
        let part = (x - layout.left) / (layout.width - layout.left);
        part * PASS_S / (PASS_S + STAND_S) * 100.0
    }

    /// The rules of the motion.
    pub(super) fn keyframes(&self) -> String {
        let layout = self.layout;
        let (all, pass) = (PASS_S + STAND_S, round(Self::percent(layout.width, layout)));
        let far = layout.width - layout.left;
        let mut css = format!(
            "@media (prefers-reduced-motion:no-preference){{\
             .transfer .curtain,.transfer .now,.transfer .dot\
             {{display:inline;animation:pass {all}s linear infinite}}\
             .transfer .dot{{opacity:0}}\
             @keyframes pass{{{pass}%,to{{transform:translateX({far}px)}}}}"
        );
        for (i, (_, [from, to])) in self.dots().enumerate() {
            let [(x, y), (to_x, to_y)] = [from, to].map(|(x, y)| (round(x), round(y)));
            let [leaves, arrives] = [from, to].map(|it| Self::percent(it.0, layout));
            // Writing to a String can't fail.
            let _ = write!(
                css,
                "@keyframes d{i}{{0%,{:.2}%{{opacity:0;transform:translate({x}px,{y}px)}}\
                 {leaves:.2}%{{opacity:1;transform:translate({x}px,{y}px)}}\
                 {arrives:.2}%{{opacity:1;transform:translate({to_x}px,{to_y}px)}}\
                 {:.2}%,to{{opacity:0;transform:translate({to_x}px,{to_y}px)}}}}",
                (leaves - 0.01).max(0.0),
                arrives + 0.01,
            );
        }
        css + "}"
    }

    /// Each message with where it leaves and arrives.
    fn dots(&self) -> impl Iterator<Item = (&'static str, [(f64, f64); 2])> {
        self.strips.iter().flat_map(|strip| {
            strip.messages().iter().map(|message| {
                let (leaves, arrives) = strip.ends(message);
                let [from, to] = [message.left_ms, message.arrived_ms].map(|ms| self.layout.x(ms));
                (class(message), [(from, leaves), (to, arrives)])
            })
        })
    }

    /// What is moved.
    pub(super) fn shapes(&self, bottom: f64) -> Markup {
        let (left, width) = (self.layout.left, self.layout.width);
        let top = self.strips.first().map_or(0.0, |it| it.client);
        html! {
            @for (top, bottom) in self.strips.iter().map(Placed::timed) {
                @let height = round(bottom - top);
                rect.curtain x=(left) y=(round(top)) width=(width - left) height=(height) {}
            }
            path.now d={ "M" (left) " " (round(top)) "V" (round(bottom + 8.0)) } {}
            @for (i, (class, _)) in self.dots().enumerate() {
                circle class={ "dot " (class) } r="5" style={ "animation-name:d" (i) } {}
            }
        }
    }
}
