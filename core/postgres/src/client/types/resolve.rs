//! Puts types into an order in which each comes after its parts, within bounds that hold for a
//! hostile catalogue, too.

use std::collections::HashMap;
use std::sync::Arc;

use super::catalog::{Description, Kind};

/// The largest type that is known by more than its name. A table with 1,600 columns, PostgreSQL's
/// limit, has the size 1,601. Types share their parts, but printing or comparing a type visits all
/// of them, and in a hostile catalogue there could be endlessly many.
pub const SIZE_MAX: usize = 16_384;

/// The deepest nesting of types that are known by more than their name. Reading a value may need as
/// many nested calls.
pub const DEPTH_MAX: usize = 64;

/// A type whose parts come before it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Its description.
    pub description: Description,
    /// Whether other types may contain it. If not, they know it by its name only.
    pub is_part: bool,
    pub(super) shape: Arc<Shape>,
}

impl Resolved {
    /// 1 for itself, 1 for each label, and the sizes of its parts.
    pub fn size(&self) -> usize {
        self.shape.size
    }
}

/// A type and its parts, which are shared with other types, so that each costs only its own entry.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) oid: u32,
    pub(super) size: usize,
    parts: Vec<Arc<Shape>>,
}

impl Shape {
    fn of(oid: u32) -> Arc<Shape> {
        Arc::new(Shape { oid, size: 1, parts: Vec::new() })
    }

    /// Whether this is the type with this oid, or contains it.
    pub(super) fn contains(&self, oid: u32) -> bool {
        self.oid == oid || self.parts.iter().any(|part| part.contains(oid))
    }
}

/// Puts types into an order in which parts come first, and leaves out those that are built in. A
/// part that is neither in the list nor built in is known by its oid.
///
/// PostgreSQL refuses a type that contains itself, except for ways around the check that some
/// versions left open. Such a type, or one that is nested too deeply, is known only by its name
/// where it is part of another. A type that is too large is known only by its name everywhere.
pub fn resolve(descriptions: Vec<Description>, is_built_in: impl Fn(u32) -> bool) -> Vec<Resolved> {
    let mut rest = descriptions;
    rest.retain(|it| !is_built_in(it.oid));
    let mut built: HashMap<u32, Arc<Shape>> = HashMap::new();
    let mut order = Vec::new();
    let find = |built: &HashMap<u32, Arc<Shape>>, oid: u32| {
        if is_built_in(oid) { Some(Shape::of(oid)) } else { built.get(&oid).cloned() }
    };
    for _ in 0..DEPTH_MAX {
        let at = order.len();
        rest = build(rest, true, |oid| find(&built, oid), &mut order);
        if order.len() == at {
            break;
        }
        built.extend(order[at..].iter().map(|it| (it.shape.oid, it.shape.clone())));
    }
    let find_or_name = |oid| Some(find(&built, oid).unwrap_or_else(|| Shape::of(oid)));
    build(rest, false, find_or_name, &mut order);
    order
}

/// Appends the types whose parts were all found, and returns the others.
fn build(
    descriptions: Vec<Description>,
    is_part: bool,
    find: impl Fn(u32) -> Option<Arc<Shape>>,
    order: &mut Vec<Resolved>,
) -> Vec<Description> {
    let mut rest = Vec::new();
    for mut description in descriptions {
        let parts: Option<Vec<_>> = description.parts().into_iter().map(&find).collect();
        let Some(parts) = parts else {
            rest.push(description);
            continue;
        };
        let labels = if let Kind::Enum(labels) = &description.kind { labels.len() } else { 0 };
        let size = parts.iter().fold(1 + labels, |size, part| size.saturating_add(part.size));
        let mut shape = Arc::new(Shape { oid: description.oid, size, parts });
        if size > SIZE_MAX {
            description.kind = Kind::Simple;
            shape = Shape::of(description.oid);
        }
        order.push(Resolved { description, is_part, shape });
    }
    rest
}
