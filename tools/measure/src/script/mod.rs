//! Scripts that pgbench runs with `-f` and `-b`, run unchanged.
//!
//! A script is a file of statements and of commands that begin with a backslash. One run of it,
//! from beginning to end, is one operation, which pgbench calls a transaction. So latency and rate
//! mean the same as in pgbench, and one script can measure both programs.
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
//! * **Statements**, each ended by a semicolon or by a command after it; the last one needs
//!   neither. `\;` joins several into one text.
//! * **Variables**: `:name` in a statement. Letters of any language, digits and underscores make a
//!   name; no digit comes first. They belong to a client and live as long as it does.
//! * **`\set NAME EXPRESSION`**, with all of pgbench's operators and functions, their binding and
//!   their errors: `+ - * / % & | # ~ << >>`, comparisons, AND, OR, NOT, `IS [NOT] NULL`, `TRUE`
//!   and `FALSE`, `ISNULL`, `NOTNULL`, `CASE WHEN`; abs, debug, double, exp, greatest, hash,
//!   hash_fnv1a, hash_murmur2, int, least, ln, mod, permute, pi, pow, power, random,
//!   random_exponential, random_gaussian, random_zipfian, sqrt. Hashes and permutations have the
//!   same values as there.
//! * **`\if`, `\elif`, `\else`, `\endif`**, nested as deep as you like.
//! * **`\gset [PREFIX]`** and **`\aset [PREFIX]`** after a statement: its columns become variables.
//!   `\gset` wants one row of the last statement; `\aset` takes the last row of each, if there is
//!   one.
//! * **`\sleep TIME [us|ms|s]`**, with a number or a variable.
//! * **`\startpipeline`, `\syncpipeline`, `\endpipeline`**: statements in between are sent without
//!   waiting, through a [`Pipeline`](onetrip::Pipeline) of the session.
//! * A backslash at the end of a line continues a command on the next.
//! * The **built-in scripts** ([`builtin`]) on pgbench's [`tables`], and several scripts with
//!   weights ([`Mix`], [`parse_weighted`]).
//! * **Predefined variables**: `scale`, `client_id`, `random_seed`, `default_seed`, and those of
//!   [`Settings::defines`], which take precedence.
//!
//! # How values travel
//!
//! | [`Protocol`] | pgbench's `-M` | a variable is |
//! |---|---|---|
//! | `Simple` | `simple`, its default | put into the text as it is, also between quotes |
//! | `Extended` | `extended` | a parameter; the text is parsed with each use |
//! | `Prepared`, the default here | `prepared` | a parameter of a statement that is prepared once |
//!
//! Parameters have no type of their own: the server infers it, as for a literal. So `:a + :b` alone
//! is ambiguous for it, and `:a::int + :b` isn't. A variable for the name of a table works with
//! `Simple` only, in both programs.
//!
//! A statement is prepared before its first use, those of a pipeline when the pipeline begins, and
//! each costs a trip. [`ScriptOperation::prepare`] does so in advance. Equal statements are
//! prepared once.
//!
//! # The pipelined form
//!
//! With [`Form::Pipelined`] a script runs like a program that pipelines: a statement is sent when
//! its turn comes, and its reply is awaited when a step needs it. Each statement keeps its own sync
//! point, so it is in the same transaction as before. These wait:
//!
//! * A statement, a `\set` or an `\if` waits for the variables of a `\gset` or `\aset` that it uses
//!   or sets, and so for all statements up to that one. [`Plan::waits`] names them.
//! * `\sleep`, and statements joined by `\;`, wait for all earlier replies.
//! * The end of a run waits for all replies. At most 1,024 replies are outstanding.
//!
//! When a statement fails, later ones have been sent already. In a transaction the server skips
//! them; outside of one they run. The run's failure is the one that came first.
//! [`Mix::why_not_pipelined`] says which scripts have no pipelined form.
//!
//! # Failures
//!
//! * **Conflicts**, serialization failures (40001) and deadlocks (40P01): the run is rolled back
//!   and repeated from its beginning, with the same variables and random numbers, until it succeeds
//!   or [`Settings::max_tries`] is reached. Each is counted as a retry.
//! * **Other errors of the server** are counted by SQLSTATE, once for each run. An open transaction
//!   is rolled back, and the next run begins.
//! * **Errors that would repeat each time** end everything with one line, `FILE:LINE: what`: a
//!   wrong statement (class 42), a missing database or schema (3D, 3F), a lost connection (08,
//!   57P), a login (28), a lost prepared statement (26); an expression that can't be computed; a
//!   script that ends inside of a transaction or a pipeline.
//!
//! # What doesn't run
//!
//! * `\shell` and `\setshell`: a script from somebody else must not run programs.
//! * COPY, as in pgbench.
//! * A pipeline with the simple protocol, as in pgbench. `\gset`, `\aset` and `\;` inside of one.
//! * An expression nested deeper than 200 levels. (Chains such as `1 + 1 + 1` may be of any
//!   length.)
//!
//! # What differs from pgbench, and why
//!
//! * The default protocol is `Prepared`, because programs usually prepare their statements. To
//!   compare figures, use `-M prepared` in pgbench, or `Simple` here.
//! * Conflicts are retried without a limit, and other errors do not end a client. pgbench tries
//!   once, and ends a client on other errors. `max_tries: 1` is its default.
//! * Between quotes, `:name` can't be a parameter. pgbench makes one all the same, which the server
//!   then refuses. Here it stays text. If the script sets that variable, that is an error before
//!   the first run.
//! * A name that is never set stays text in all protocols (`a[1:n]`), as with the simple one.
//!   pgbench sends NULL for it with the others.
//! * A variable that is NULL is sent as NULL, not as the text `NULL`.
//! * Two kinds of statements always use the simple protocol, with their values as literals: those
//!   joined by `\;`, because only that protocol accepts several statements in one text; and those
//!   of `\gset` with a column that is no number, boolean or text, because there the server writes
//!   the values as text.
//! * If a transaction begins or ends in a pipeline, or a statement commits by itself (CALL, DO,
//!   VACUUM), the pipeline is still sent without waiting, but with a sync point after each
//!   statement. If one fails outside of BEGIN and END, later ones still run.
//! * In a pipeline of more than 1,024 statements, replies are read while later statements are still
//!   to be sent. This bounds its memory.
//! * An unclosed quote, comment or parenthesis is an error of its line; pgbench sends it. A
//!   statement that has only comments isn't sent.
//! * The same seed gives the same numbers each time, but not the same as pgbench's. The default
//!   seed is 0.
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
