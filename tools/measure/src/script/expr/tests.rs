//! Expressions against values that pgbench 15 gave, and what no text may do.

#![allow(clippy::unwrap_used)]

mod against_pgbench;
mod table;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::names::Names;
use super::super::random::Random;
use super::super::value::{Scalar, Value};
use super::{Expression, Scope};
use table::{ERRORS, SYNTAX, VALUES};

fn value(text: &str) -> Result<Scalar, String> {
    value_with(text, &[])
}

fn value_with(text: &str, values: &[(&str, Value)]) -> Result<Scalar, String> {
    let mut names = Names::default();
    let expression = Expression::parse(text, &mut names)?;
    let mut variables = vec![None; names.list().len()];
    variables.resize(names.list().len() + values.len(), None);
    for (name, value) in values {
        variables[names.number_of(name)] = Some(value.clone());
    }
    let default_seed = names.number_of("default_seed");
    variables.resize(variables.len() + 1, None);
    variables[default_seed].get_or_insert(Value::Scalar(Scalar::Int(42)));
    let (mut random, mut stack) = (Random::new(1), Vec::new());
    expression.value(&mut Scope {
        variables: &variables,
        names: names.list(),
        random: &mut random,
        stack: &mut stack,
        place: &|| "test".into(),
    })
}

#[test]
fn expressions_have_the_values_that_pgbench_gave_them() {
    for (text, wanted) in VALUES {
        assert_eq!(value(text).map(Scalar::described), Ok((*wanted).to_owned()), "{text}");
    }
}

#[test]
fn what_pgbench_refuses_is_refused_for_its_reason() {
    for (text, reason) in ERRORS {
        let error = value(text).expect_err(text);
        assert!(error.starts_with(reason), "{text}: {error}");
    }
    for text in SYNTAX {
        assert!(value(text).is_err(), "{text}");
    }
}

#[test]
fn a_variable_from_outside_is_what_its_text_shows() {
    let text = |text: &str| value_with(":x", &[("x", Value::Text(text.into()))]);
    assert_eq!(text("12"), Ok(Scalar::Int(12)));
    assert_eq!(text("-12"), Ok(Scalar::Int(-12)));
    assert_eq!(text("1.5"), Ok(Scalar::Double(1.5)));
    assert_eq!(text("Null"), Ok(Scalar::Null));
    for (word, wanted) in [("t", true), ("TRUE", true), ("yes", true), ("on", true), ("of", false)]
    {
        assert_eq!(text(word), Ok(Scalar::Bool(wanted)), "{word}");
    }
    for wrong in ["", "o", "x", "1x", "99999999999999999999", "truex", "nan"] {
        assert!(text(wrong).unwrap_err().starts_with("malformed variable \"x\""), "{wrong}");
    }
}

#[test]
fn a_seed_that_is_left_out_is_the_default_one() {
    for function in ["hash(7", "hash_fnv1a(7", "permute(7, 100"] {
        let (short, long) = (format!("{function})"), format!("{function}, :default_seed)"));
        assert_eq!(value(&short), value(&long));
        assert_ne!(value(&short), value(&format!("{function}, 43)")), "{function}");
    }
}

#[test]
fn random_numbers_stay_in_their_range_and_reach_its_ends() {
    let (mut random, mut stack, mut names) = (Random::new(7), Vec::new(), Names::default());
    for text in [
        "random(-3, 3)",
        "random_exponential(-3, 3, 1.5)",
        "random_gaussian(-3, 3, 2.5)",
        "random_zipfian(-3, 3, 1.1)",
    ] {
        let expression = Expression::parse(text, &mut names).unwrap();
        let mut counts = [0; 7];
        for _ in 0..10_000 {
            let mut scope = Scope {
                variables: &[],
                names: &[],
                random: &mut random,
                stack: &mut stack,
                place: &String::new,
            };
            let Ok(Scalar::Int(value)) = expression.value(&mut scope) else { panic!("{text}") };
            counts[usize::try_from(value + 3).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| *count > 50), "{text}: {counts:?}");
        match text.split_once('(').unwrap().0 {
            "random" => assert!(counts.iter().all(|count| *count < 1700), "{counts:?}"),
            "random_gaussian" => assert!(counts[3] > counts[1] && counts[3] > counts[5]),
            _ => assert!(counts.is_sorted_by(|a, b| a + 150 > *b), "{text}: {counts:?}"),
        }
    }
}

#[test]
fn one_value_of_a_range_and_the_widest_range_work() {
    assert_eq!(value("random(5, 5)"), Ok(Scalar::Int(5)));
    assert_eq!(value("random_zipfian(5, 5, 2)"), Ok(Scalar::Int(5)));
    for name in ["random_exponential", "random_gaussian", "random_zipfian"] {
        let text = format!("{name}(1, 9223372036854775807, 2.5)");
        assert!(matches!(value(&text), Ok(Scalar::Int(1..))), "{text}");
    }
}

#[test]
fn deep_nesting_is_refused_and_long_chains_are_not() {
    for (open, close) in [("(", ")"), ("-", ""), ("not ", ""), ("abs(", ")"), ("~", "")] {
        let text = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        let error = value(&text).unwrap_err();
        assert!(error.starts_with("the expression is nested deeper than"), "{open}: {error}");
    }
    let case = "case when true then ".repeat(100_000);
    assert!(value(&case).unwrap_err().starts_with("the expression is nested deeper than"));
    let chain = vec!["1"; 100_000].join(" + ");
    assert_eq!(value(&chain), Ok(Scalar::Int(100_000)));
    let chain = vec!["false"; 100_000].join(" or ");
    assert_eq!(value(&chain), Ok(Scalar::Bool(false)));
}

#[test]
fn no_text_makes_the_parser_panic() {
    const WORDS: [&str; 40] = [
        "1",
        "2.5",
        ":a",
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "/",
        "%",
        "=",
        "<>",
        "<",
        "<=",
        ">>",
        "|",
        "#",
        "~",
        "and",
        "or",
        "not",
        "is",
        "null",
        "true",
        "isnull",
        "case",
        "when",
        "then",
        "else",
        "end",
        "abs",
        "random",
        "permute",
        "hash",
        "greatest",
        "9223372036854775808",
        "é",
        "1e",
        "$",
    ];
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..20_000 {
        let length = random.random_range(0..12);
        let words = (0..length).map(|_| WORDS[random.random_range(0..WORDS.len())]);
        let text = words.collect::<Vec<_>>().join(if random.random() { " " } else { "" });
        // What comes of it doesn't matter: it comes back.
        drop(value_with(&text, &[("a", Value::Scalar(Scalar::Int(3)))]));
    }
}
