//! The table, as the test's specification has it except for the texts.

use onetrip::Session;

use crate::error::Result;

/// The rows, numbered from 1. The texts are our own. Each is as long in bytes as that of the
/// specification, so that pages have about the same length and rates can be compared.
const MESSAGES: [&str; 12] = [
    "The nearest server is a trip away.",
    "What you measured is what you did; what you read is what is in mind.",
    "A cache that is never wrong was never asked once.",
    "Nine of ten waits are for one lock: 9, 9, 9, 9, 9, 1.2e+3, 9, 9",
    "Ask a hundred times, each after the others, and wait for a hundred answers.",
    "The fastest statement is one that is not sent — and then a batched one.",
    "A benchmark is a question and no answer.",
    "The second figure is always the better one — says the third.",
    "Latency: time spent elsewhere.",
    "The queue remembers each request that you forgot.",
    r#"<script>alert("If you read this in a box, the page forgot to escape");</script>"#,
    "往復の時間はもう待たない方が",
];

/// The row that the program adds to each page.
pub(super) const ADDED: (i32, &str) = (0, "One more row, made for this very request.");

/// Creates the table `fortune` with its rows in an existing schema. Replaces a table of that name.
///
/// # Errors
/// The server's: no such schema, no permission.
pub async fn create(session: &Session, schema: &str) -> Result<()> {
    let table = table(schema);
    let create = format!(
        "drop table if exists {table}; \
         create table {table} (id integer primary key, message varchar(2048) not null)"
    );
    session.script(&create).await?;
    let ids: Vec<i32> = (1..=MESSAGES.len() as i32).collect();
    let insert = format!("insert into {table} select * from unnest($1::int4[], $2::text[])");
    session.execute(&insert, &[&ids, &MESSAGES.as_slice()]).await?;
    session.script(&format!("analyze {table}")).await?;
    Ok(())
}

/// The statement of each request.
pub(super) fn select(schema: &str) -> String {
    format!("select id, message from {}", table(schema))
}

fn table(schema: &str) -> String {
    format!("\"{}\".fortune", schema.replace('"', "\"\""))
}
