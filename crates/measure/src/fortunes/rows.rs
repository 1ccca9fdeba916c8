//! The table: what the specification of the test says, so that results can be compared.

use onetrip::Session;

use crate::error::Result;

/// The rows, by their numbers from 1 on.
const MESSAGES: [&str; 12] = [
    "fortune: No such file or directory",
    "A computer scientist is someone who fixes things that aren't broken.",
    "After enough decimal places, nobody gives a damn.",
    "A bad random number generator: 1, 1, 1, 1, 1, 4.33e+67, 1, 1, 1",
    "A computer program does what you tell it to do, not what you want it to do.",
    "Emacs is a nice operating system, but I prefer UNIX. — Tom Christaensen",
    "Any program that runs right is obsolete.",
    "A list is only as strong as its weakest link. — Donald Knuth",
    "Feature: A bug with seniority.",
    "Computers make very fast, very accurate mistakes.",
    r#"<script>alert("This should not be displayed in a browser alert box.");</script>"#,
    "フレームワークのベンチマーク",
];

/// The row that the program adds to each page.
pub(super) const ADDED: (i32, &str) = (0, "Additional fortune added at request time.");

/// Creates the table `fortune` with its rows, in a schema that is there. One of that name in it goes.
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
