//! The table of keywords, and what is written from it.

use std::collections::BTreeSet;

use onetrip_postgres::client::connect::keywords::{Form, KEYWORDS, Keyword, Node};

#[path = "../../examples/keywords.rs"]
mod written;

#[test]
fn the_table_of_the_node_packages_is_the_one_that_is_written_from_this() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../faces/node/src/modern/keyword-table.ts");
    let written = std::fs::read_to_string(path).unwrap();
    assert!(written == written::table(), "it is out of date: run scripts/keywords");
}

#[test]
fn each_keyword_is_found_by_its_name_and_no_name_or_variable_comes_twice() {
    let (mut names, mut variables) = (BTreeSet::new(), BTreeSet::new());
    for (place, row) in KEYWORDS.iter().enumerate() {
        assert_eq!(row.keyword as usize, place);
        assert_eq!(row.keyword.name(), row.name);
        assert_eq!(Keyword::named(row.name), Some(row.keyword));
        assert!(names.insert(row.name), "{}", row.name);
        assert!(row.variable.is_empty() || variables.insert(row.variable), "{}", row.variable);
    }
    assert_eq!(Keyword::named("nonsense"), None);
}

#[test]
fn what_holds_by_default_is_what_the_keyword_takes() {
    for row in KEYWORDS {
        let takes = |form| match form {
            Form::Text => true,
            Form::From(least) => row.default.parse().is_ok_and(|it: u32| it >= u32::from(least)),
            Form::Limit => row.default.parse::<u32>().is_ok(),
            Form::Switch => matches!(row.default, "0" | "1"),
            Form::Words(words) => words.contains(&row.default),
        };
        assert!(takes(row.form), "{}", row.name);
        if let Node::As(form) = row.node {
            assert!(takes(form) && form != row.form, "{}", row.name);
        }
    }
}
