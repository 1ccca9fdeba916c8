//! Writes the table of keywords for the Node packages; see `scripts/keywords`.

use onetrip_engine::rules;
use onetrip_postgres::client::connect::keywords::{
    Form, KEYWORDS, Node, Row, SWITCH, UNSUPPORTED, lacking_in, says,
};
use onetrip_postgres::client::connect::rules::RULES;
use onetrip_postgres::client::connect::service::says as of_services;

const HEAD: &str = "\
// The keywords of configuration, as all languages have them. Do not edit: written by
// `scripts/keywords`.

import type { Rule } from '../engine/rules'

/** How the text of a setting is read. A number is the least that it takes. */
export type Form = 'text' | 'switch' | number | readonly string[]

/**
 * A setting that a connection string can have, and the variable of the environment that it is
 * otherwise taken from.
 */
export interface Keyword {
  readonly form: Form
  readonly variable?: string
  /** What holds where nothing is said. */
  readonly otherwise?: string
}

export const KEYWORDS = {
";

/// The file, whole.
pub(crate) fn table() -> String {
    let rows: Vec<String> = KEYWORDS.iter().filter_map(row).collect();
    let lacking: Vec<String> =
        UNSUPPORTED.iter().map(|(name, what)| format!("  {name}: {},\n", text(what))).collect();
    let variables: Vec<String> = lacking_in(|row| row.node != Node::No)
        .map(|(name, harmless, what)| format!("  {},\n", list(&[name, harmless, what])))
        .collect();
    let in_force = [RULES, rules::TLS].concat();
    let says = [
        ("oneOf", says::ONE_OF),
        ("whole", says::WHOLE),
        ("atLeast", says::AT_LEAST),
        ("atMost", says::AT_MOST),
        ("unknown", says::UNKNOWN),
        ("needs", says::NEEDS),
        ("lacking", says::LACKING),
        ("tooLong", of_services::TOO_LONG),
        ("noSetting", of_services::NO_SETTING),
        ("nested", of_services::NESTED),
        ("ldap", of_services::LDAP),
        ("notFound", of_services::NOT_FOUND),
        ("noFile", of_services::NO_FILE),
    ]
    .map(|(name, what)| format!("  {name}: {},\n", text(what)));
    [
        HEAD,
        &rows.concat(),
        "} as const satisfies { readonly [name: string]: Keyword }\n\n/** Off and on, by turns. */\n",
        &format!("export const SWITCH: readonly string[] = {}\n\n", list(SWITCH)),
        "/** Of libpq, and not here: what they need. */\n",
        "export const UNSUPPORTED: { readonly [name: string]: string } = {\n",
        &lacking.concat(),
        "}\n\n/** Variables that ask for what is not here: what asks for nothing, and what they need. */\n",
        "export const LACKING: readonly (readonly [string, string, string])[] = [\n",
        &variables.concat(),
        "]\n\n/** What is said of a text that is refused, behind the name of its keyword. */\n",
        "export const SAYS = {\n",
        &says.concat(),
        "}\n\n/** Which settings contradict each other, of those that are in force. */\n",
        &format!("export const RULES: readonly Rule[] = {}\n\n", rules::json(&in_force)),
        "/** The same of what was said in the program. */\n",
        "export const TLS_OPTIONS: readonly Rule[] = ",
        &rules::json(rules::TLS_OPTIONS),
        "\n",
    ]
    .concat()
}

fn row(row: &Row) -> Option<String> {
    let form = match row.node {
        Node::No => return None,
        Node::Yes => form(row.form),
        Node::As(other) => form(other),
    };
    let mut fields = vec![format!("form: {form}")];
    if !row.variable.is_empty() {
        fields.push(format!("variable: {}", text(row.variable)));
    }
    if !row.default.is_empty() {
        fields.push(format!("otherwise: {}", text(row.default)));
    }
    let mut line = format!("  {}: {{ {} }},\n", row.name, fields.join(", "));
    if line.len() > 101 {
        line = format!("  {}: {{\n    {},\n  }},\n", row.name, fields.join(",\n    "));
    }
    Some(format!("  /** {} */\n{line}", row.about.trim()))
}

fn form(form: Form) -> String {
    match form {
        Form::Text => text("text"),
        Form::Switch => text("switch"),
        Form::From(least) => least.to_string(),
        Form::Limit => "0".to_owned(),
        Form::Words(words) => list(words),
    }
}

fn list(words: &[&str]) -> String {
    format!("[{}]", words.iter().map(|word| text(word)).collect::<Vec<_>>().join(", "))
}

/// A text in quotes, those that it needs.
fn text(text: &str) -> String {
    let quote = if text.contains('\'') { '"' } else { '\'' };
    format!("{quote}{text}{quote}")
}

#[allow(dead_code, reason = "the test calls the function above alone")]
fn main() {
    print!("{}", table());
}
