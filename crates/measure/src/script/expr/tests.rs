//! Expressions against values that pgbench 15 gave, and against a pgbench that is found.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Command;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::names::Names;
use super::super::random::Random;
use super::super::value::{Scalar, Value};
use super::{Expression, Scope};

/// As pgbench's `debug` shows them.
const VALUES: &[(&str, &str)] = &[
    ("1 + 2 * 3 | 4 & 6 # 1", "int 7"),
    ("2 * (3 + 4)", "int 14"),
    ("5 % -3", "int 2"),
    ("-5 / 2", "int -2"),
    ("-5 % 3", "int -2"),
    ("-9223372036854775808", "int -9223372036854775808"),
    ("- - 5", "int 5"),
    ("+ 5", "int 5"),
    ("~ - 5", "int 4"),
    ("2 - -3", "int 5"),
    ("5 / 2.0", "double 2.5"),
    ("1.0 / 0", "double Infinity"),
    ("ln(0)", "double -Infinity"),
    ("sqrt(-1)", "double NaN"),
    ("sqrt(4)", "double 2"),
    ("pow(0, -1)", "double Infinity"),
    ("1e300 * 1e10", "double Infinity"),
    ("1e20", "double 1e+20"),
    ("1e15", "double 1e+15"),
    ("1.5e-7", "double 1.5e-07"),
    ("123456.789012345678", "double 123456.789012346"),
    ("123456789012345678.0", "double 1.23456789012346e+17"),
    ("0.1 + 0.2", "double 0.3"),
    ("-0.0", "double 0"),
    ("1.", "double 1"),
    (".5", "double 0.5"),
    ("1e5", "double 100000"),
    ("pi()", "double 3.14159265358979"),
    ("int(2.5)", "int 2"),
    ("int(-3.5)", "int -4"),
    ("int(null)", "null"),
    ("double(3)", "double 3"),
    ("1 << 65", "int 2"),
    ("1 << -1", "int -9223372036854775808"),
    ("-8 >> 1", "int -4"),
    ("~5", "int -6"),
    ("1.5 | 2", "int 2"),
    ("mod(7, 3)", "int 1"),
    ("5.7 % 2", "int 0"),
    ("abs(-5.5)", "double 5.5"),
    ("abs(-5)", "int 5"),
    ("abs(-9223372036854775808)", "int -9223372036854775808"),
    ("POW(2, 10)", "double 1024"),
    ("power(2.0, 0.5)", "double 1.4142135623731"),
    ("exp(1)", "double 2.71828182845905"),
    ("greatest(1, 2.5, -3)", "double 2.5"),
    ("greatest(1)", "int 1"),
    ("greatest(1, null)", "null"),
    ("least(5, 4, 7)", "int 4"),
    ("1 = 1 is null", "boolean false"),
    ("not 1 = 2", "boolean true"),
    ("1 = 1.0", "boolean true"),
    ("1 <> 2", "boolean true"),
    ("1 != 1", "boolean false"),
    ("2 >= 3", "boolean false"),
    ("3 > 2", "boolean true"),
    ("1 = null", "null"),
    ("TRUE", "boolean true"),
    ("1 is true", "boolean false"),
    ("true is not false", "boolean true"),
    ("true is null is null", "boolean false"),
    ("1 is not null", "boolean true"),
    ("null isnull", "boolean true"),
    ("1 notnull", "boolean true"),
    ("null + 1", "null"),
    ("null and false", "null"),
    ("null or true", "null"),
    ("null and true", "null"),
    ("not null", "null"),
    ("case when 1 then 2 else 3 end", "int 2"),
    ("case when null then 2 end", "null"),
    ("case when 1 = 2 then 1 when 2 = 2 then 7 end", "int 7"),
    ("true or 1 / 0 = 1", "boolean true"),
    ("false and 1 / 0 = 1", "boolean false"),
    ("hash(10, 5)", "int 5862924560876750601"),
    ("hash(1.5, 3)", "int 8842477675419165997"),
    ("hash(null)", "null"),
    ("hash_murmur2(-1, 1234567)", "int -8497951106102601291"),
    ("hash_fnv1a(10, 5432)", "int -7793829335365542153"),
    ("permute(3, 10, 42)", "int 4"),
    ("permute(123456789, 1000000007, -7)", "int 323939009"),
    ("permute(5, 2, 1)", "int 0"),
    ("permute(0, 1, 1)", "int 0"),
    ("permute(9223372036854775806, 9223372036854775807, 99)", "int 8939196393363787110"),
];

/// What pgbench refuses as well.
const ERRORS: &[(&str, &str)] = &[
    ("1 and true", "cannot coerce int to boolean"),
    ("not 1", "cannot coerce int to boolean"),
    ("true = true", "cannot coerce boolean to int"),
    ("int(true)", "cannot coerce boolean to int"),
    ("double(true)", "cannot coerce boolean to double"),
    ("5 / 0", "division by zero"),
    ("5 % 0", "division by zero"),
    ("9223372036854775807 + 1", "bigint add out of range"),
    ("-9223372036854775808 - 1", "bigint sub out of range"),
    ("9223372036854775807 * 2", "bigint mul out of range"),
    ("-9223372036854775808 / -1", "bigint div out of range"),
    ("int(1e30)", "double to int overflow for"),
    ("int(0.0 / 0)", "double to int overflow for"),
    ("1e999", "double constant overflow (1e999)"),
    (":nope", "undefined variable \"nope\""),
    ("random(5, 1)", "empty range given to random"),
    ("random(-9223372036854775807, 9223372036854775807)", "random range is too large"),
    ("permute(1, 0)", "permute size parameter must be greater than zero"),
    ("random_gaussian(1, 10, 1)", "gaussian parameter must be at least 2.000000 (not 1.000000)"),
    ("random_zipfian(1, 10, 1)", "zipfian parameter must be in range [1.001, 1000] (not 1.000000)"),
    (
        "random_exponential(1, 10, 0)",
        "exponential parameter must be greater than zero (not 0.000000)",
    ),
    ("foo(1)", "unexpected function name (foo)"),
    ("abs(1, 2)", "unexpected number of arguments (abs)"),
    ("least()", "at least one argument expected (least)"),
    ("abs('x')", "unexpected character (')"),
];

/// What can't be parsed, here and there.
const SYNTAX: &[&str] = &[
    "",
    "1 < 2 < 3",
    "9223372036854775808",
    "99999999999999999999",
    "1 is",
    "1 is 2",
    "debug(1",
    "pi",
    "1 -- x",
    "case 1 when 1 then 2 end",
    "case end",
    "1 2",
    "(1",
    "1)",
    "abs(1,)",
    ":",
    ".",
    "1 =",
    "not",
    "1 ! 2",
];

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
fn a_pgbench_that_is_found_agrees_on_every_expression() {
    let Some(pgbench) = pgbench() else {
        println!("skipped: no pgbench beside the server");
        return;
    };
    let script: String =
        VALUES.iter().map(|(text, _)| format!("\\set x debug({text})\n")).collect();
    let output = run(&pgbench, &script);
    let lines = output.lines().filter_map(|line| line.strip_prefix("debug(script=0,"));
    let shown: Vec<&str> = lines.filter_map(|line| Some(line.split_once("): ")?.1)).collect();
    assert_eq!(shown.len(), VALUES.len(), "{output}");
    for ((text, wanted), shown) in VALUES.iter().zip(shown) {
        assert_eq!(shown, *wanted, "{text}");
    }
}

/// So that what is compared here is compared with more than what was once written down.
#[test]
fn a_pgbench_that_is_found_agrees_on_hashes_and_permutations() {
    let Some(pgbench) = pgbench() else {
        println!("skipped: no pgbench beside the server");
        return;
    };
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let texts: Vec<String> = (0..200)
        .map(|number| {
            let (value, seed): (i64, i64) = (random.random(), random.random());
            let size = (random.random::<i64>().unsigned_abs() >> random.random_range(1..63)).max(1);
            let (value, seed) = (value.max(-i64::MAX), seed.max(-i64::MAX));
            match number % 3 {
                0 => format!("hash_fnv1a({value}, {seed})"),
                1 => format!("hash({value}, {seed})"),
                _ => format!("permute({value}, {size}, {seed})"),
            }
        })
        .collect();
    let script: String = texts.iter().map(|text| format!("\\set x debug({text})\n")).collect();
    let output = run(&pgbench, &script);
    let lines = output.lines().filter_map(|line| line.strip_prefix("debug(script=0,"));
    let shown: Vec<&str> = lines.filter_map(|line| Some(line.split_once("): ")?.1)).collect();
    assert_eq!(shown.len(), texts.len(), "{output}");
    for (text, shown) in texts.iter().zip(shown) {
        assert_eq!(value(text).unwrap().described(), shown, "{text}");
    }
}

fn pgbench() -> Option<PathBuf> {
    let found = onetrip_lab::postgres::find_all().ok()?;
    // `permute` came with 14.
    let newest = found.iter().filter(|it| it.major() >= 14).map(|it| it.bin().join("pgbench"));
    let system = PathBuf::from("/usr/bin/pgbench");
    newest.chain([system]).find(|path| path.exists())
}

/// What a script shows on the error output.
fn run(pgbench: &PathBuf, script: &str) -> String {
    let server = onetrip_lab::postgres::shared();
    let directory = std::env::temp_dir();
    let file = directory.join(format!("onetrip-{}-{}.sql", std::process::id(), script.len()));
    std::fs::write(&file, script).unwrap();
    let mut command = Command::new(pgbench);
    command.arg("-n").args(["-t", "1", "-f"]).arg(&file).arg(server.url());
    let output = command.output().unwrap();
    std::fs::remove_file(&file).unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
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
