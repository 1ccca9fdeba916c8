//! The examples of docs/guide/c.md, compiled and run in their order.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use onetrip_lab::{postgres, redis};

use crate::staged::{Linked, compiled, done, home};

/// The page that the tidy test knows to be tried here.
const PAGE: &str = "docs/guide/c.md";
/// Its one example is run behind those of the guide.
const FIRST_PAGE: &str = "README.md";

/// The blocks of a page in this language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let behind = text.split(&fence).skip(1);
    behind.map(|it| it.split("\n```").next().unwrap().to_owned()).collect()
}

fn written(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_examples_of_the_guide_do_what_they_say() {
    let Some(redis) = redis::shared() else { return };
    let server = postgres::PrivatePostgres::start(postgres::Options::default()).unwrap();
    let page = fs::read_to_string(home().join("../..").join(PAGE)).unwrap();
    let run = |program: PathBuf| {
        let mut command = Command::new(program);
        command.env("DATABASE_URL", server.url()).env("REDIS_URL", redis.url());
        let output = done(&mut command);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8(output.stdout).unwrap()
    };
    let (whole, parts): (Vec<_>, Vec<_>) =
        blocks(&page, "c").into_iter().partition(|block| block.contains("int main"));
    assert_eq!((whole.len(), parts.len()), (1, 10));

    // What the page says of its tables.
    let tables = [
        "create table account (id int, balance int constraint is_positive check (balance >= 0))",
        "insert into account values (1, 100), (2, 0)",
        "create table item (id int, name text, price float8)",
        "insert into item values (7, 'hammer', 12.5)",
    ];
    let set_up: String = tables.iter().map(|sql| format!("RUN(\"{sql}\");\n")).collect();
    run(compiled(&written("set_up.c", &around(&set_up)), &["-std=c11"], Linked::Shared));
    run(compiled(&written("first.c", &whole[0]), &["-std=c11"], Linked::Shared));

    let first = fs::read_to_string(home().join("../..").join(FIRST_PAGE)).unwrap();
    let first = blocks(&first, "c");
    assert_eq!(first.len(), 1);
    let parts = [parts, first].concat();
    let fragments: String = parts.iter().map(|part| format!("{{\n{part}\n}}\n")).collect();
    let fragments = written("fragments.c", &around(&fragments));
    let said = run(compiled(&fragments, &["-std=c11"], Linked::Shared));
    let expected = "1 items\nhammer\nrefused: 23514, is_positive\n12.60 in all\n100000 rows\nhello\n\
        9 seats\n";
    assert_eq!(said, expected);

    let cpp = blocks(&page, "cpp");
    let cpp = written("guide.cpp", &cpp[0]);
    let said = run(compiled(&cpp, &["-std=c++17"], Linked::Shared));
    assert_eq!(said, "8 nail\n20 bolt\n21 nut\n");
    let sum = "ot_result *sum; int64_t n = 0; \
        ot_run(db, OT_SQL(\"select sum(balance) from account where id < 3\"), OT_NO_ARGS, &sum, &err); \
        ot_get_i64(sum, 0, 0, &n); ot_result_free(sum); printf(\"%d\", (int)n);";
    let sum = written("sum.c", &around(&format!("{{ {sum} }}")));
    assert_eq!(run(compiled(&sum, &["-std=c11"], Linked::Shared)), "99");
}

/// A program around what goes on with `db` and `err`.
fn around(body: &str) -> String {
    format!(
        "#include <onetrip/onetrip.h>\n#include <poll.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
         #define RUN(sql) if (ot_run(db, OT_SQL(sql), OT_NO_ARGS, NULL, &err)) \
         return puts(err.message), 1\n\
         int main(void) {{\n  ot_error err = OT_ERROR_INIT;\n  ot_client *db;\n\
         if (ot_pg_connect(getenv(\"DATABASE_URL\"), OT_NTS, 120000, &db, &err)) return 1;\n{body}\n\
         return ot_close(db, 120000, &err);\n}}\n"
    )
}
