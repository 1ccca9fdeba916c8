//! Whether a statement may wait for a lock that another transaction holds, as far as its text shows.
//!
//! When in doubt it may. Plain reads take no lock that a writer holds (documentation, "Explicit
//! Locking"); only DDL holds one that stops them. A view, an operator or a policy may call a
//! function that locks, and no text shows that.

use super::Traits;
use super::lexer::{Lexer, Token, lower};

/// Whether a statement may wait for a lock: it writes, locks rows, defines something, or calls a
/// function that is not known to be harmless. `traits`: those of the text.
#[must_use]
pub fn may_lock(sql: &str, traits: Traits) -> bool {
    let lexer = Lexer::new(sql);
    match traits.read_only_select() {
        true => calls_unknown(lexer),
        false => !lexer.is(b"show") || traits.several(),
    }
}

/// [`Traits::renames`], but for the text of which the others were read.
pub(super) fn renames(sql: &str, traits: Traits) -> bool {
    let mut lexer = Lexer::new(sql);
    let mut buffer = [0; 32];
    let word = match ({ lexer }).next() {
        Token::Word(word) => lower(word, &mut buffer),
        Token::End => return false,
        _ => return true,
    };
    let stands = |list: &[&str]| list.iter().any(|known| known.as_bytes() == word);
    match () {
        () if traits.several() || traits.temporary() => true,
        () if stands(&QUERIES) => {
            calls_unknown(lexer) || !traits.read_only_select() && makes_temporary(word, lexer)
        }
        () if word == b"discard" => {
            lexer.next();
            lexer.is(b"temp") || lexer.is(b"temporary")
        }
        () if word == b"set" => {
            lexer.next();
            sets_names(lexer)
        }
        () => !stands(&COMMANDS),
    }
}

/// First words of what may call a function.
#[rustfmt::skip]
const QUERIES: [&str; 11] = [
    "select", "insert", "update", "delete", "with", "values", "table", "merge", "explain",
    "declare", "copy",
];

/// First words of what sets no path, defines nothing, and calls nothing that does.
#[rustfmt::skip]
const COMMANDS: [&str; 27] = [
    "begin", "commit", "rollback", "start", "end", "abort", "savepoint", "release", "show", "listen",
    "unlisten", "notify", "fetch", "move", "close", "lock", "deallocate", "comment", "grant", "revoke",
    "truncate", "vacuum", "analyze", "reindex", "cluster", "refresh", "checkpoint",
];

/// Whether a query makes a table in `pg_temp`: SELECT … INTO. `word`: its first.
fn makes_temporary(word: &[u8], mut lexer: Lexer<'_>) -> bool {
    if matches!(word, b"insert" | b"update" | b"delete" | b"merge" | b"copy") {
        return false;
    }
    let (mut buffer, mut is_into) = ([0; 32], false);
    loop {
        is_into = match lexer.next() {
            Token::End => return false,
            Token::Word(word) => match lower(word, &mut buffer) {
                b"pg_temp" if is_into => return true,
                word => word == b"into" || is_into && word == b"table",
            },
            Token::Quoted(b"pg_temp") if is_into => return true,
            _ => false,
        };
    }
}

/// Whether a SET is of more than these settings, which change no name.
fn sets_names(mut lexer: Lexer<'_>) -> bool {
    const OTHERS: [&[u8]; 14] = [
        b"application_name",
        b"constraints",
        b"deadlock_timeout",
        b"idle_in_transaction_session_timeout",
        b"idle_session_timeout",
        b"lock_timeout",
        b"maintenance_work_mem",
        b"statement_timeout",
        b"synchronous_commit",
        b"temp_buffers",
        b"transaction",
        b"transaction_timeout",
        b"work_mem",
        b"client_min_messages",
    ];
    let mut buffer = [0; 48];
    loop {
        let Token::Word(word) = lexer.next() else { return true };
        match lower(word, &mut buffer) {
            b"local" | b"session" => {}
            // SESSION CHARACTERISTICS AS TRANSACTION, and no SESSION AUTHORIZATION.
            name => return name != b"characteristics" && !OTHERS.contains(&name),
        }
    }
}

/// Whether a statement calls a function that is not on the list. A table whose columns are named, as
/// in INSERT INTO t (a), is no function.
fn calls_unknown(mut lexer: Lexer<'_>) -> bool {
    let mut buffer = [0; 32];
    // Whether a schema other than the server's own stands in front; whether a table's name comes.
    let (mut is_foreign, mut is_table) = (false, false);
    loop {
        let known = match lexer.next() {
            Token::End => return false,
            Token::Word(word) => lower(word, &mut buffer),
            Token::Quoted(_) => b"",
            _ => {
                (is_foreign, is_table) = (false, false);
                continue;
            }
        };
        match ({ lexer }).next() {
            Token::Symbol(b'.') => {
                lexer.next();
                is_foreign = known != b"pg_catalog";
            }
            Token::Symbol(b'(') if is_table => is_foreign = false,
            Token::Symbol(b'(') if is_foreign || !is_harmless(known) => return true,
            _ => (is_foreign, is_table) = (false, known == b"into"),
        }
    }
}

fn is_harmless(name: &[u8]) -> bool {
    HARMLESS.binary_search_by(|known| known.as_bytes().cmp(name)).is_ok()
}

/// What may stand in front of a parenthesis in a read and waits for no lock: keywords, types, and
/// the server's own functions. Sorted.
#[rustfmt::skip]
const HARMLESS: [&str; 376] = [
    "abbrev", "abs", "acos", "age", "all", "and", "any", "any_value", "area", "array", "array_agg",
    "array_append", "array_cat", "array_dims", "array_fill", "array_length", "array_lower",
    "array_ndims", "array_position", "array_positions", "array_prepend", "array_remove",
    "array_replace", "array_to_json", "array_to_string", "array_upper", "as", "ascii", "asin",
    "atan", "atan2", "avg", "bernoulli", "between", "bit", "bit_and", "bit_count", "bit_length",
    "bit_or", "bool_and", "bool_or", "box", "broadcast", "btrim", "by", "cardinality", "case",
    "cast", "cbrt", "ceil", "ceiling", "center", "char", "char_length", "character",
    "character_length", "chr", "circle", "clock_timestamp", "coalesce", "col_description", "concat",
    "concat_ws", "conflict", "convert_from", "convert_to", "corr", "cos", "count", "covar_pop", "covar_samp",
    "cube", "cume_dist", "current_database", "current_schema", "current_schemas", "current_setting",
    "date_bin", "date_part", "date_trunc", "daterange", "decimal", "decode", "degrees",
    "dense_rank", "diameter", "distinct", "div", "else", "encode", "every", "except", "exists",
    "exp", "extract", "family", "filter", "first_value", "float", "floor", "format", "format_type",
    "from", "gcd", "gen_random_uuid", "generate_series", "generate_subscripts", "get_bit",
    "get_byte", "greatest", "group", "grouping", "has_schema_privilege", "has_table_privilege",
    "hashtext", "having", "height", "host", "ilike", "in", "inet_client_addr", "inet_client_port",
    "inet_server_addr", "inet_server_port", "initcap", "int4range", "int8range", "intersect",
    "interval", "is", "isempty", "isfinite", "join", "json_agg", "json_array_elements",
    "json_array_elements_text", "json_array_length", "json_build_array", "json_build_object",
    "json_each", "json_each_text", "json_extract_path", "json_extract_path_text", "json_object",
    "json_object_agg", "json_object_keys", "json_populate_record", "json_populate_recordset",
    "json_strip_nulls", "json_to_record", "json_to_recordset", "json_typeof", "jsonb_agg",
    "jsonb_array_elements", "jsonb_array_elements_text", "jsonb_array_length", "jsonb_build_array",
    "jsonb_build_object", "jsonb_each", "jsonb_each_text", "jsonb_extract_path",
    "jsonb_extract_path_text", "jsonb_insert", "jsonb_object", "jsonb_object_agg",
    "jsonb_object_keys", "jsonb_path_exists", "jsonb_path_match", "jsonb_path_query",
    "jsonb_path_query_array", "jsonb_path_query_first", "jsonb_populate_record",
    "jsonb_populate_recordset", "jsonb_pretty", "jsonb_set", "jsonb_set_lax", "jsonb_strip_nulls",
    "jsonb_to_record", "jsonb_to_recordset", "jsonb_typeof", "justify_days", "justify_hours",
    "justify_interval", "lag", "last_value", "lateral", "lcm", "lead", "least", "left", "length",
    "like", "limit", "line", "ln", "log", "lower", "lower_inc", "lower_inf", "lpad", "lseg",
    "ltrim", "make_date", "make_interval", "make_time", "make_timestamp", "make_timestamptz",
    "masklen", "materialized", "max", "md5", "min", "mod", "mode", "netmask", "network",
    "normalize", "not", "now", "npoints", "nth_value", "ntile", "nullif", "num_nonnulls",
    "num_nulls", "numeric", "numnode", "numrange", "obj_description", "octet_length", "offset",
    "on", "or", "order", "over", "overlay", "partition", "path", "percent_rank", "percentile_cont",
    "percentile_disc", "pg_backend_pid", "pg_current_wal_lsn", "pg_encoding_to_char",
    "pg_get_constraintdef", "pg_get_expr", "pg_get_indexdef", "pg_get_viewdef", "pg_is_in_recovery",
    "pg_last_wal_replay_lsn", "pg_sleep", "pg_table_is_visible", "pg_type_is_visible", "pg_typeof",
    "pg_wal_lsn_diff", "phraseto_tsquery", "pi", "plainto_tsquery", "point", "polygon", "position",
    "pow", "power", "querytree", "quote_ident", "quote_literal", "quote_nullable", "radians",
    "radius", "random", "range_merge", "rank", "recursive", "regexp_count", "regexp_instr",
    "regexp_like", "regexp_match", "regexp_matches", "regexp_replace", "regexp_split_to_array",
    "regexp_split_to_table", "regexp_substr", "regr_intercept", "regr_slope", "repeat", "replace",
    "return", "returning", "reverse", "right", "rollup", "round", "row", "row_number", "row_to_json", "rpad",
    "rtrim", "select", "set", "set_bit", "set_byte", "set_masklen", "sets", "setweight", "sha256",
    "sha512", "shobj_description", "sign", "sin", "some", "split_part", "sqrt", "starts_with",
    "statement_timestamp", "stddev", "stddev_pop", "stddev_samp", "string_agg", "string_to_array",
    "string_to_table", "strip", "strpos", "substr", "substring", "sum", "system", "tan", "text",
    "then", "time", "timeofday", "timestamp", "timestamptz", "timezone", "to_char", "to_date",
    "to_hex", "to_json", "to_jsonb", "to_number", "to_regclass", "to_regtype", "to_timestamp",
    "to_tsquery", "to_tsvector", "transaction_timestamp", "translate", "trim", "trim_array",
    "trunc", "ts_headline", "ts_rank", "ts_rank_cd", "tsrange", "tstzrange", "tsvector_to_array",
    "union", "unnest", "upper", "upper_inc", "upper_inf", "using", "values", "var_pop", "var_samp",
    "varchar", "variance", "varying", "version", "websearch_to_tsquery", "when", "where", "width",
    "width_bucket", "with", "within",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::classify;

    fn locks(sql: &str) -> bool {
        may_lock(sql, classify(sql))
    }

    #[test]
    fn the_list_is_sorted() {
        assert!(HARMLESS.is_sorted());
    }

    #[test]
    fn what_writes_or_locks_may_wait_for_a_lock() {
        for sql in [
            "insert into t values (1)",
            "update t set a = 1",
            "delete from t",
            "merge into t using s on true when matched then delete",
            "select 1 from t for update",
            "select 1 from t for no key update of t",
            "select 1 from t for share",
            "with w as (update t set a = 1 returning a) select * from w",
            "select * into u from t",
            "lock t",
            "create table t ()",
            "alter table t add a int",
            "truncate t",
            "call p()",
            "copy t from '/x'",
            "select 1; update t set a = 1",
        ] {
            assert!(locks(sql), "{sql}");
        }
    }

    #[test]
    fn a_call_of_an_unknown_function_may_wait_for_a_lock() {
        for sql in [
            "select f(1)",
            "select * from f()",
            "select public.count(*) from t",
            "select \"count\"(*) from t",
            "select s.\"f\" (1)",
            "select pg_advisory_xact_lock(1)",
            "select pg_catalog.pg_advisory_xact_lock(1)",
            "select count(*), f /* at */ (a) from t",
        ] {
            assert!(locks(sql), "{sql}");
        }
    }

    #[test]
    fn what_sets_the_path_or_makes_something_temporary_may_rename() {
        for sql in [
            "set search_path = t1",
            "SET LOCAL search_path TO t1",
            "set session authorization bob",
            "set role bob",
            "set schema 't1'",
            "reset all",
            "create temp table t ()",
            "select 1 into temp t",
            "do $$ begin end $$",
            "call p()",
            "select f(1)",
            "select set_config('search_path', 't1', false)",
            "insert into t (a) values (f(1))",
            "insert into s.t (a) select g(b) from u",
            "select 1; select 2",
            "create table pg_temp.t ()",
            "select 1 as a into pg_temp.t",
            "with w as (select 1) select * into table pg_temp.t from w",
            "alter table t add a int",
            "alter table t rename to u",
            "create index on t (lower(a))",
            "drop type mood",
            "discard temp",
        ] {
            assert!(classify(sql).renames(), "{sql}");
        }
    }

    #[test]
    fn what_only_reads_or_writes_renames_nothing() {
        for sql in [
            "",
            "select 1",
            "insert into t (a, b) values ($1, lower($2)) on conflict (a) do update set (a, b) = (1, 2)",
            "insert into s.t (a) values ($1) returning (a)",
            "insert into \"T\" (a) values ($1)",
            "update t set a = now() where b in (1, 2)",
            "delete from t using u where t.a = u.a",
            "begin isolation level serializable",
            "commit",
            "savepoint s",
            "set local statement_timeout = 5",
            "set session characteristics as transaction read only",
            "set transaction read only",
            "insert into pg_temp.t (a) values ($1)",
            "select a from pg_temp.t",
            "discard all",
            "discard plans",
            "deallocate all",
            "truncate t",
            "listen a",
            "fetch 5 from c",
        ] {
            assert!(!classify(sql).renames(), "{sql}");
        }
    }

    #[test]
    fn a_plain_read_waits_for_no_row() {
        for sql in [
            "select 1",
            "select a from t where id = $1",
            "select count(*), max(a) from t where b in (1, 2) and exists (select 1 from u)",
            "select pg_catalog.count(*) from s.t where s.t.a = any($1) order by lower(t.a)",
            "values (1), (2)",
            "table t",
            "with w as (select 1) select * from w",
            "select substring(a for 3), cast(a as numeric(10, 2)) from t",
            "select a as \"for update\", 'update t' from t",
            "show all",
        ] {
            assert!(!locks(sql), "{sql}");
        }
    }
}
