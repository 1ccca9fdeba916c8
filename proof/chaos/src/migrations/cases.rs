//! The kinds of DDL of `migrations.json`.

use serde_json::Value;

/// A statement that is run before, while and after something changes.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) parameters: Vec<Parameter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parameter {
    /// The number of the row that it writes.
    Id,
    Value,
}

/// One kind of DDL, for a schema of its own.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) extension: Option<String>,
    pub(super) setup: Vec<String>,
    pub(super) migrate: Vec<String>,
    /// What undoes it, if something does.
    pub(super) back: Vec<String>,
    /// What sessions of one client set, in place of a migration.
    pub(super) sessions: Vec<Vec<String>>,
    /// Each of `sessions` needs those before it, in the same session.
    pub(super) chained: bool,
    /// It changes no type, so no statement may fail for it.
    pub(super) calm: bool,
    /// Rows that were written before are gone behind it.
    pub(super) forgets: bool,
    pub(super) tables: Vec<String>,
    pub(super) statements: Vec<Statement>,
    pub(super) before: Vec<Value>,
    pub(super) after: Vec<Value>,
}

const ALL: [&str; 6] = ["insert", "returning", "update", "where", "coalesce", "star"];

/// All cases, for a schema of this name.
pub(super) fn cases(schema: &str) -> Vec<Case> {
    let file: Value = serde_json::from_str(include_str!("../../migrations.json")).unwrap();
    let raw = file["cases"].as_array().unwrap();
    let left = left(&file);
    let is_left =
        |raw: &&Value| left.iter().any(|it| it["case"] == raw["name"] && it["statement"].is_null());
    let cases = raw.iter().filter(|raw| !is_left(raw));
    let mut cases: Vec<Case> = cases.map(|raw| case(raw, &file["statements"], schema)).collect();
    for case in &mut cases {
        let name = case.name.clone();
        let is_of = |left: &Value| left["case"].is_null() || left["case"] == *name;
        let is_left = |it: &str| left.iter().any(|left| is_of(left) && left["statement"] == *it);
        case.statements.retain(|it| !is_left(&it.name));
    }
    cases
}

/// What is left, with a reason, is run only if `ONETRIP_LEFT` is set.
fn left(file: &Value) -> Vec<&Value> {
    let all = file["left"].as_array().unwrap().iter();
    let is_ours = |it: &&Value| it["faces"].as_array().unwrap().contains(&Value::from("rust"));
    all.filter(|it| is_ours(it) && std::env::var_os("ONETRIP_LEFT").is_none()).collect()
}

fn case(raw: &Value, common: &Value, schema: &str) -> Case {
    let filled = |text: &Value| text.as_str().unwrap().replace("{s}", schema);
    let list = |of: &Value| of.as_array().into_iter().flatten().map(filled).collect::<Vec<_>>();
    let long = if raw["was"].is_string() { altered(raw) } else { raw.clone() };
    let names = match raw["tables"].as_array() {
        Some(names) => names.iter().map(|it| it.as_str().unwrap()).collect(),
        None => vec!["t"],
    };
    let table = |name: &str| match name.starts_with(['_', '.']) {
        true => format!("{schema}{name}"),
        false => format!("{schema}.{name}"),
    };
    let listed = raw["statements"].as_array().cloned();
    let listed = listed.unwrap_or_else(|| ALL.iter().map(|name| Value::from(*name)).collect());
    let is = |name: &str| raw[name] == true;
    Case {
        name: raw["name"].as_str().unwrap().to_owned(),
        extension: raw["extension"].as_str().map(str::to_owned),
        setup: list(&long["setup"]),
        migrate: list(&long["migrate"]),
        back: list(&long["back"]),
        sessions: raw["sessions"].as_array().into_iter().flatten().map(list).collect(),
        chained: is("chained"),
        calm: is("calm"),
        forgets: is("forgets"),
        tables: names.into_iter().map(table).collect(),
        statements: listed.iter().filter_map(|it| statement(it, common, schema)).collect(),
        before: raw["before"].as_array().unwrap().clone(),
        after: raw["after"].as_array().unwrap().clone(),
    }
}

/// `None` for what this face does not have: COPY by the types of a table.
fn statement(listed: &Value, common: &Value, schema: &str) -> Option<Statement> {
    let raw = listed.as_str().map_or(listed, |name| &common[name]);
    let name = listed.as_str().or(raw["name"].as_str()).unwrap().to_owned();
    let text = raw["text"].as_str()?.replace("{s}", schema);
    let parameter = |it: &Value| if it == "id" { Parameter::Id } else { Parameter::Value };
    let parameters = raw["parameters"].as_array().unwrap().iter().map(parameter).collect();
    Some(Statement { name, text, parameters })
}

/// The long form of a case that has `was` and `becomes`: a column of another type.
fn altered(raw: &Value) -> Value {
    let text = |name: &str| raw[name].as_str().unwrap_or_default();
    let (was, becomes) = (text("was"), text("becomes"));
    let using = match text("using") {
        "" => String::new(),
        using => format!(" using {using}"),
    };
    let rows = raw["rows"].as_array().unwrap().iter().enumerate();
    let rows: Vec<_> =
        rows.map(|(at, row)| format!("({}, {})", -1 - at as i64, row.as_str().unwrap())).collect();
    let fill = format!("insert into {{s}}.t (id, c) values {}", rows.join(", "));
    serde_json::json!({
        "setup": [
            format!("create table {{s}}.t (id int, c {was})"),
            fill,
            "insert into {s}.t (id, c) values (0, null)",
        ],
        "migrate": [format!("alter table {{s}}.t alter c type {becomes}{using}")],
        "back": [
            "update {s}.t set c = null",
            format!("alter table {{s}}.t alter c type {was} using null::{was}"),
            "delete from {s}.t where id < 0",
            fill,
        ],
    })
}
