//! The table of keywords, and the files generated from it.

use std::collections::BTreeSet;

use onetrip_postgres::client::connect::keywords::{
    Form, KEYWORDS, Keyword, NOT_IN_PYTHON, Node, UNSUPPORTED,
};

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

/// The page of all settings has each keyword with its variable, its names in Node and Python and its
/// default, and no other keyword; and it names what is refused.
#[test]
fn the_page_of_settings_says_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows = |header: &str| -> Vec<Vec<String>> {
        let table = page.lines().skip_while(|line| !line.starts_with(header)).skip(2);
        let rows = table.take_while(|line| line.starts_with('|'));
        rows.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
    };
    let code = |cell: &str| cell.split('`').nth(1).unwrap_or_default().to_owned();

    let mut settings = rows("| keyword |");
    settings.retain(|cells| cells[1].starts_with('`'));
    let names: Vec<String> = settings.iter().map(|cells| code(&cells[1])).collect();
    let known: Vec<&str> = KEYWORDS.iter().map(|row| row.name).collect();
    assert_eq!(names, known);
    for (row, cells) in KEYWORDS.iter().zip(&settings) {
        assert_eq!(code(&cells[2]), row.variable, "{}", row.name);
        let in_node = if row.node == Node::No { String::new() } else { camel(row.name) };
        assert_eq!(code(&cells[4]), in_node, "{}", row.name);
        let in_python = if NOT_IN_PYTHON.contains(&row.keyword) { "" } else { row.name };
        assert_eq!(code(&cells[6]), in_python, "{}", row.name);
        assert!(row.default.is_empty() || code(&cells[8]) == row.default, "{}", row.name);
    }

    let refused = rows("| keywords |").into_iter().flat_map(|cells| {
        cells[1].split(", ").map(|name| (code(name), cells[2].clone())).collect::<Vec<_>>()
    });
    let unsupported = UNSUPPORTED.iter().map(|(name, what)| ((*name).into(), (*what).into()));
    assert_eq!(refused.collect::<BTreeSet<_>>(), unsupported.collect::<BTreeSet<_>>());
}

/// The name as the Node packages write it.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}
