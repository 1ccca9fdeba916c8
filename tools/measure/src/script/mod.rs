//! Scripts of one's own: what pgbench runs with `-f` and `-b`, run unchanged.
//!
//! A script is a file of statements and of commands that begin with a backslash. One run of it, from
//! beginning to end, is one operation: what pgbench calls a transaction. So its latency and rate mean
//! the same as pgbench's, and one script measures both programs.
//!
//! ```no_run
//! use onetrip_measure::load::{self, Load, Until};
//! use onetrip_measure::script::{Mix, Plan, Script, ScriptOperation, Settings};
//!
//! # async fn f(client: onetrip::Client) -> Result<(), onetrip_measure::error::Error> {
//! let text = "\\set id random(1, 1000)\n\
//!             select value from item where id = :id;";
//! let script = Script::parse("item.sql", text)?;
//! let plan = Plan::new(&Mix::from(script), Settings::default())?;
//! let operation = ScriptOperation::on_session(client.session().await?, &plan, 0);
//! let load = Load { until: Until::Each(1000), rate: None, seed: 0 };
//! let ran = load::run(vec![operation], load, &|_| {}).await?;
//! println!("{} runs in {} ms", ran.repetition.operations, ran.repetition.elapsed_ms);
//! # Ok(()) }
//! ```
//!
//! # What runs
//!
//! * **Statements**, each ended by a semicolon or by a command behind it; the last one needs neither.
//!   `\;` joins several into one text.
//! * **Variables**: `:name` in a statement. Letters of any language, digits and underscores make a
//!   name; no digit comes first. They belong to a client and live as long as it does.
//! * **`\set NAME EXPRESSION`**, with all of pgbench's operators and functions, their binding and
//!   their errors: `+ - * / % & | # ~ << >>`, comparisons, AND, OR, NOT, `IS [NOT] NULL`, `TRUE` and
//!   `FALSE`, `ISNULL`, `NOTNULL`, `CASE WHEN`; abs, debug, double, exp, greatest, hash, hash_fnv1a,
//!   hash_murmur2, int, least, ln, mod, permute, pi, pow, power, random, random_exponential,
//!   random_gaussian, random_zipfian, sqrt. Hashes and permutations have the same values as there.
//! * **`\if`, `\elif`, `\else`, `\endif`**, nested as deep as you like.
//! * **`\gset [PREFIX]`** and **`\aset [PREFIX]`** behind a statement: its columns become variables.
//!   `\gset` wants one row of the last statement; `\aset` takes the last row of each, if there is one.
//! * **`\sleep TIME [us|ms|s]`**, with a number or a variable.
//! * **`\startpipeline`, `\syncpipeline`, `\endpipeline`**: statements in between are sent without
//!   waiting, through a [`Pipeline`](onetrip::Pipeline) of the session.
//! * A backslash at the end of a line continues a command on the next.
//! * The **built-in scripts** ([`builtin`]) on pgbench's [`tables`], and several scripts with weights
//!   ([`Mix`], [`parse_weighted`]).
//! * **Variables that are there**: `scale`, `client_id`, `random_seed`, `default_seed`, and what was
//!   defined by name and value ([`Settings::defines`]), which wins.
//!
//! # How values travel
//!
//! | [`Protocol`] | pgbench's `-M` | a variable is |
//! |---|---|---|
//! | `Simple` | `simple`, its default | put into the text as it is, also between quotes |
//! | `Extended` | `extended` | a parameter; the text is parsed with each use |
//! | `Prepared`, the default here | `prepared` | a parameter of a statement that is prepared once |
//!
//! Parameters have no type of their own: the server infers it, as for a literal. So `:a + :b` alone is
//! ambiguous for it, and `:a::int + :b` isn't. A variable for the name of a table works with `Simple`
//! only, in both programs.
//!
//! A statement is prepared in front of its first use, those of a pipeline when that begins, and each
//! costs a trip then; [`ScriptOperation::prepare`] does it before. Equal statements are prepared once.
//!
//! # The pipelined form
//!
//! With [`Form::Pipelined`] a script runs as a program could that pipelines: a statement leaves
//! when its turn comes, and its reply is awaited where something needs it. Each keeps its own sync
//! point, so it is in the same transaction as before. What waits:
//!
//! * A statement, a `\set` or an `\if` waits for the variables of a `\gset` or `\aset` that it uses
//!   or sets, and so for all statements up to that one. [`Plan::waits`] names them.
//! * `\sleep`, and a statement that `\;` joins, wait for all that was sent before.
//! * The end of a run waits for all. At most 1,024 replies are outstanding.
//!
//! The statements behind one that fails have left already. In a transaction the server skips them;
//! outside of one they run. The failure that came first is that of the run.
//! [`Mix::why_not_pipelined`] says which scripts have no such form.
//!
//! # Failures
//!
//! * **Conflicts**, serialization failures (40001) and deadlocks (40P01): the run is rolled back and
//!   done again from its beginning, with the same variables and random numbers, until it succeeds or
//!   [`Settings::max_tries`] is reached. Each is counted as a retry.
//! * **Other errors of the server** are counted by SQLSTATE, once for each run. What is open is rolled
//!   back, and the next run begins.
//! * **What would come again each time** ends everything with one line, `FILE:LINE: what`: a wrong
//!   statement (class 42), a missing database or schema (3D, 3F), a lost connection (08, 57P), a login
//!   (28), a lost prepared statement (26); an expression that can't be computed; a script that ends
//!   inside of a transaction or a pipeline.
//!
//! # What doesn't run
//!
//! * `\shell` and `\setshell`: a script that somebody was sent must not run programs.
//! * COPY, as in pgbench.
//! * A pipeline with the simple protocol, as in pgbench. `\gset`, `\aset` and `\;` inside of one.
//! * An expression nested deeper than 200 levels. (Chains such as `1 + 1 + 1` may be of any length.)
//!
//! # What differs from pgbench, and why
//!
//! * The default protocol is `Prepared`, since that is how programs talk to a server. Whoever compares
//!   figures has to say `-M prepared` there, or `Simple` here.
//! * Conflicts are tried again without a limit, and other errors do not end a client. pgbench tries
//!   once, and ends a client on other errors. `max_tries: 1` is its default.
//! * Between quotes, `:name` can't be a parameter. pgbench makes one all the same, which the server
//!   then refuses. Here it stays text, unless the script sets that variable, which is an error
//!   in front of the first run.
//! * A name that nothing can ever set stays as it is in all protocols (`a[1:n]`), as with the simple
//!   one. pgbench sends NULL for it by the others.
//! * A variable that is NULL is sent as NULL, not as the text `NULL`.
//! * Statements that `\;` joins, and those of `\gset` whose columns are of a type that isn't a
//!   number, a truth value or a text, go by the simple protocol under all settings, with their values as
//!   literals: only there are several taken as one, and values written by the server.
//! * A pipeline in which a transaction begins or ends, or something that commits by itself (CALL, DO,
//!   VACUUM), is sent without waiting as well, but with a sync point behind each statement. If one
//!   fails outside of BEGIN and END, those behind it run all the same.
//! * In a pipeline of more than 1,024 statements replies are read while others are still to be sent,
//!   so that its memory has a bound.
//! * What is not closed (a quote, a comment, a parenthesis) is an error of its line, where pgbench
//!   sends it. A statement of nothing but comments isn't sent.
//! * Of the same seed come the same numbers each time, but others than pgbench's. The seed is 0 unless
//!   it is set.
//! * `\sleep` is as precise as tokio's timer: about a millisecond.

mod ahead;
mod command;
mod expr;
mod failure;
mod forms;
mod machine;
mod names;
mod operation;
mod parse;
mod pipe;
mod plan;
mod random;
mod row;
mod scripts;
mod send;
mod split;
mod statement;
pub mod tables;
mod value;

pub use operation::ScriptOperation;
pub use plan::{Form, Plan, Protocol, Settings};
pub use scripts::{BUILTINS, Mix, Script, builtin, labels, parse_weighted};
