//! Pipelines.

use onetrip_measure::script::{Protocol, Settings};

use crate::{Lab, test};

#[test]
fn a_pipeline_is_one_transaction_from_sync_point_to_sync_point() {
    test(async {
        let lab = Lab::new().await;
        for protocol in [Protocol::Extended, Protocol::Prepared] {
            lab.leaves_by(
                protocol,
                "insert into t (x) values ('a');\n\\startpipeline\ninsert into t (x) values ('b');\n\
                 \\set v 3\ninsert into t (x) values (:v);\n\\syncpipeline\n\\syncpipeline\n\
                 insert into t (x) values ('c');\n\\endpipeline\n\
                 \\startpipeline\n\\endpipeline\ninsert into t (x) values ('d');",
                "a b 3 c d",
            )
            .await;
            let text = "\\startpipeline\ninsert into t (x) values ('a');\n\\syncpipeline\n\
                        insert into t (x) values ('b');\nselect 1 / 0;\ninsert into t (x) values ('c');\n\
                        \\endpipeline";
            lab.sql("truncate t").await;
            let settings = Settings { protocol, ..Settings::default() };
            let ran = lab.run_with(text, settings, 2).await.unwrap();
            // Once for each run, whatever was skipped.
            assert_eq!(ran.recorder.errors.into_iter().collect::<Vec<_>>(), [("22012".into(), 2)]);
            assert_eq!(lab.value("select string_agg(x, '') from t").await, "aa");
        }
        let error = lab.error(Protocol::Simple, "\\startpipeline\nselect 1;\n\\endpipeline").await;
        assert!(error.starts_with("test.sql:1: \\startpipeline: not with the simple"), "{error}");
    });
}

#[test]
fn a_pipeline_may_begin_and_end_transactions() {
    test(async {
        let lab = Lab::new().await;
        let text = "\\startpipeline\nbegin;\ninsert into t (x) values ('a');\n\
                    insert into t (x) values ('b');\nend;\n\\endpipeline";
        lab.leaves_by(Protocol::Prepared, text, "a b").await;
        lab.leaves_by(Protocol::Extended, text, "a b").await;
        let failing = "\\startpipeline\nbegin;\ninsert into t (x) values ('c');\nselect 1 / 0;\n\
                       insert into t (x) values ('d');\nend;\n\\endpipeline";
        let ran = lab.run_with(failing, Settings::default(), 3).await.unwrap();
        assert_eq!(ran.recorder.errors.into_iter().collect::<Vec<_>>(), [("22012".into(), 3)]);
        assert_eq!(lab.value("select string_agg(x, '') from t").await, "ab");
        let inside =
            "begin;\n\\startpipeline\ninsert into t (x) values ('e');\n\\endpipeline\nend;";
        lab.leaves_by(Protocol::Prepared, inside, "e").await;
    });
}

#[test]
fn a_pipeline_may_be_longer_than_the_window_and_the_queue() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (id serial, x text)").await;
        let text = format!(
            "\\startpipeline\n{}\\endpipeline",
            "insert into t (x) values (:client_id);\n".repeat(20_000)
        );
        let ran = lab.run_with(&text, Settings::default(), 1).await.unwrap();
        assert!(ran.recorder.errors.is_empty(), "{:?}", ran.recorder.errors);
        assert_eq!(lab.value("select count(*) from t").await, "20000");
        let text = text.replacen("insert", "begin;\ninsert", 1).replace("\\endp", "end;\n\\endp");
        let ran = lab.run_with(&text, Settings::default(), 1).await.unwrap();
        assert!(ran.recorder.errors.is_empty(), "{:?}", ran.recorder.errors);
        assert_eq!(lab.value("select count(*) from t").await, "40000");
    });
}

#[test]
fn a_conflict_in_a_pipeline_is_tried_again_as_a_whole() {
    test(async {
        let lab = Lab::new().await;
        lab.sql(
            "create table seen (x int); create sequence tries; \
             create function fail() returns void language plpgsql as $$ begin \
             if nextval('tries') % 2 = 1 then raise exception 'again' using errcode = '40P01'; end if; \
             end $$",
        )
        .await;
        let text = "\\startpipeline\ninsert into seen values (1);\nselect fail();\n\
                    insert into seen values (2);\n\\endpipeline";
        let ran = lab.run_with(text, Settings::default(), 3).await.unwrap();
        assert_eq!(ran.recorder.retries.into_iter().collect::<Vec<_>>(), [("40P01".into(), 3)]);
        assert_eq!(ran.repetition.operations, 3);
        assert_eq!(lab.value("select count(*) || ' ' || sum(x) from seen").await, "6 9");
    });
}
