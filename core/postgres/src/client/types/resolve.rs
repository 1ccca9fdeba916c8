//! Types in an order in which each comes behind its parts, within bounds that hold for a hostile
//! catalogue too.

use std::collections::HashMap;
use std::sync::Arc;

use super::catalog::{Description, Kind};

/// The largest type that is known by more than its name; a table of 1,600 columns, PostgreSQL's
/// limit, has 1,601. A type shares its parts with others, but whoever prints or compares it goes
/// through all of them, and in a hostile catalog that could be without end.
pub const SIZE_MAX: usize = 16_384;

/// How deep types are nested that are known by more than their name. Whoever reads a value may need
/// as many calls in one another.
pub const DEPTH_MAX: usize = 64;

/// A type whose parts can be made before it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// What it is.
    pub description: Description,
    /// Whether others may be made of it. If not, it is known in them by its name alone.
    pub is_part: bool,
    pub(super) shape: Arc<Shape>,
}

impl Resolved {
    /// One for itself, one for each label, and the sizes of its parts.
    pub fn size(&self) -> usize {
        self.shape.size
    }
}

/// A type and those that it is made of, shared with others, so that each costs no more than itself.
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

    /// Whether a type is this one, or made of it.
    pub(super) fn contains(&self, oid: u32) -> bool {
        self.oid == oid || self.parts.iter().any(|part| part.contains(oid))
    }
}

/// Puts types in order, those first that others are made of, and leaves those out that are built in.
/// A part that is neither there nor built in is known by its number.
///
/// PostgreSQL refuses a type that contains itself, but for ways around that which some versions left
/// open. Such a type, and one that is nested too deeply, is known by its name alone where it is a
/// part of another. So is one by itself that is too large.
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

/// Appends the types whose parts are all found; returns the others as they are.
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
