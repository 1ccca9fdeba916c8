//! What fails, and what is tried again.

use onetrip_measure::script::{Protocol, Settings};

use crate::{ALL, Lab, test};

#[test]
fn a_failed_statement_is_counted_and_the_next_run_goes_on() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (x int unique)").await;
        for protocol in ALL {
            lab.sql("truncate t").await;
            let settings = Settings { protocol, ..Settings::default() };
            let text = "begin;\ninsert into t values (1);\nend;";
            let ran = lab.run_with(text, settings, 3).await.unwrap();
            assert_eq!(ran.recorder.errors.into_iter().collect::<Vec<_>>(), [("23505".into(), 2)]);
            assert_eq!((ran.repetition.operations, ran.repetition.errors), (1, 2));
        }
    });
}

#[test]
fn what_would_fail_each_time_ends_the_run_with_script_and_line() {
    test(async {
        let lab = Lab::new().await;
        for protocol in ALL {
            for (text, what) in [
                (
                    "select 1;\nselect *\nfrom nowhere",
                    "test.sql:2: relation \"nowhere\" does not exist",
                ),
                ("selec 1", "test.sql:1: syntax error at or near \"selec\""),
                ("select * from nowhere.t", "test.sql:1: relation \"nowhere.t\" does not exist"),
                ("begin;\nselect 1;", "test.sql:2: the script ends inside of a transaction"),
                ("\\set a 0\n\\set b 1 / :a", "test.sql:2: division by zero"),
                ("\\if :x\n\\endif", "test.sql:1: undefined variable \"x\""),
                ("\\sleep :x ms", "test.sql:1: \\sleep: undefined variable \"x\""),
                ("select pg_terminate_backend(pg_backend_pid())", "test.sql:1: 127.0.0.1"),
            ] {
                let error = lab.error(protocol, text).await;
                assert!(error.starts_with(what), "{protocol:?}: {error}");
            }
        }
        for (text, what) in [
            (
                "\\if 1\n\\startpipeline\n\\endif",
                "test.sql:2: the script ends inside of a pipeline",
            ),
            ("\\if 1\n\\endpipeline\n\\endif", "test.sql:2: not in a pipeline"),
            (
                "\\if 1\n\\startpipeline\n\\startpipeline\n\\endif",
                "test.sql:3: \\startpipeline inside",
            ),
            (
                "\\startpipeline\nselect 1 \\; select 2;\n\\endpipeline",
                "test.sql:2: several statements",
            ),
            ("\\startpipeline\nselect 1;\nselec;\n\\endpipeline", "test.sql:3: syntax error"),
            ("select :nothing", "test.sql:1: syntax error at or near \":\""),
        ] {
            let error = lab.error(Protocol::Prepared, text).await;
            assert!(error.starts_with(what), "{error}");
        }
    });
}

#[test]
fn a_conflict_is_tried_again_with_the_same_numbers() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table seen (n bigint, v bigint); create sequence tries").await;
        // Sequences aren't rolled back: the first two tries of each run fail.
        let text = "\\set v :v + 1\n\\set n random(1, 1000000000)\nbegin;\n\
                    insert into seen values (:n, :v);\n\
                    do $$ begin raise notice '%', 1; end $$;\n\
                    select fail(:n, :v);\nend;";
        lab.sql(
            "create table log (n bigint, v bigint); \
             create function fail(n bigint, v bigint) returns void language plpgsql as $$ begin \
             perform setval('last_n', n); \
             if nextval('tries') % 3 <> 0 then raise exception 'again' using errcode = '40001'; end if; \
             end $$; create sequence last_n",
        )
        .await;
        for protocol in ALL {
            lab.sql("truncate seen; alter sequence tries restart").await;
            let defines = vec![("v".into(), "0".into())];
            let settings = Settings { protocol, defines: defines.clone(), ..Settings::default() };
            let ran = lab.run_with(text, settings, 4).await.unwrap();
            assert_eq!(
                ran.recorder.retries.clone().into_iter().collect::<Vec<_>>(),
                [("40001".into(), 8)]
            );
            assert_eq!((ran.repetition.operations, ran.repetition.errors), (4, 0));
            // What a try has set is undone for the next.
            assert_eq!(
                lab.value("select string_agg(v::text, ' ' order by v) from seen").await,
                "1 2 3 4"
            );
            let tried = lab.value("select string_agg(n::text, ' ' order by v) from seen").await;
            lab.sql("truncate seen; alter sequence tries restart").await;
            let text = text.replace("select fail(:n, :v);\n", "");
            let settings = Settings { protocol, defines, ..Settings::default() };
            lab.run_with(&text, settings, 4).await.unwrap();
            assert_eq!(
                lab.value("select string_agg(n::text, ' ' order by v) from seen").await,
                tried
            );
        }
        lab.sql("truncate seen; alter sequence tries restart").await;
        let defines = vec![("v".into(), "0".into())];
        let settings = Settings { max_tries: 2, defines, ..Settings::default() };
        let ran = lab.run_with(text, settings, 3).await.unwrap();
        // Of the five tries the third succeeds, which is the second run.
        assert_eq!(ran.recorder.retries.into_iter().collect::<Vec<_>>(), [("40001".into(), 2)]);
        assert_eq!((ran.repetition.operations, ran.repetition.errors), (1, 2));
    });
}
