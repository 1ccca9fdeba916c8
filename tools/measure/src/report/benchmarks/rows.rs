//! A row of `make bench`, and what can be said of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// As `proof/bench` writes it. What it may write besides is kept, and comes last.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// Of `ours` and `peer`.
    pub(super) unit: String,
    /// None where it could not be measured.
    pub(super) ours: Option<f64>,
    pub(super) peer: Option<f64>,
    pub(super) peer_version: Option<String>,
    pub(super) ratio: Option<f64>,
    /// Quartiles of the ratio; of `ours` where there is no ratio.
    pub(super) spread: Option<[Option<f64>; 2]>,
    pub(super) bar: Option<f64>,
    #[serde(default)]
    pub(super) bar_is: BarIs,
    pub(super) holds: Option<bool>,
    #[serde(default)]
    pub(super) note: String,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// What a bar is: the most that a figure may be, or the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BarIs {
    #[default]
    Max,
    Min,
}

/// In the note of a row that has a ratio, and whose bar is another figure's: `the bar is for ms`.
const BAR_OF_OURS: &str = "the bar is for ";

impl Row {
    /// Whether the bar does not hold; without a bar, whether the peer is ahead. Nobody is ahead of
    /// a floor, so only a bar says how near to it is near enough.
    pub(super) fn is_lost(&self) -> bool {
        match (self.holds, self.ratio) {
            (Some(holds), _) => !holds,
            (None, Some(ratio)) if !self.is_beside_a_floor() => match self.is_more_better() {
                true => ratio < 1.0,
                false => ratio > 1.0,
            },
            _ => false,
        }
    }

    /// Whether what is lost lies so near that another run may say otherwise.
    pub(super) fn is_near(&self) -> bool {
        let at = self.bar.unwrap_or(1.0);
        self.quartiles().is_some_and(|(low, high)| low <= at && at <= high)
    }

    pub(super) fn is_beside_a_floor(&self) -> bool {
        self.name.starts_with("floor_") || self.name.starts_with("node_floor_")
    }

    pub(super) fn is_skipped(&self) -> bool {
        self.ours.is_none() && self.note.starts_with("skipped: ")
    }

    fn is_more_better(&self) -> bool {
        self.bar_is == BarIs::Min || self.unit.ends_with("/s")
    }

    /// Where they are known and more than a point.
    pub(super) fn quartiles(&self) -> Option<(f64, f64)> {
        let [low, high] = self.spread?;
        low.zip(high).filter(|(low, high)| low < high)
    }

    /// How many times as much as something else, if the row is about that.
    pub(super) fn multiple(&self) -> Option<f64> {
        self.ratio.or(self.ours.filter(|_| self.unit.starts_with('×')))
    }

    /// The bar of that multiple.
    pub(super) fn bar_of_multiple(&self) -> Option<f64> {
        self.bar.filter(|_| self.multiple().is_some() && !self.note.contains(BAR_OF_OURS))
    }
}
