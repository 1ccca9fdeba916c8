//! `report.html`: one file that needs no other, no script and no network.

mod opening;
mod page;
mod parts;

use crate::results::Results;

/// The page.
pub(super) fn html(results: &Results) -> String {
    page::page(results).into_string()
}
