//! pgbench's tables and scripts, and several clients.

use onetrip::{Client, Config};
use onetrip_lab::postgres::shared;
use onetrip_measure::load::{Operation, Tally, run};
use onetrip_measure::script::{self, Mix, Plan, ScriptOperation, Settings, builtin, tables};

use crate::{ALL, Lab, each, plan, test};

#[test]
fn the_built_in_scripts_run_on_pgbenchs_tables_and_keep_their_sums() {
    test(async {
        let lab = Lab::new().await;
        tables::create(&lab.session().await, &lab.schema, 2).await.unwrap();
        let tables = "select (select count(*) from pgbench_branches) || ' ' || \
                      (select count(*) from pgbench_tellers) || ' ' || \
                      (select count(*) || ' ' || max(bid) from pgbench_accounts)";
        assert_eq!(lab.value(tables).await, "2 20 200000 2");
        let settings = |protocol| Settings { protocol, scale: 2, ..Settings::default() };
        for protocol in ALL {
            let scripts = script::BUILTINS.map(|name| (builtin(name).unwrap(), 1));
            let plan = Plan::new(&Mix::new(scripts.into()).unwrap(), settings(protocol)).unwrap();
            let mut operations = Vec::new();
            for client_id in 0..3 {
                operations.push(ScriptOperation::on_session(lab.session().await, &plan, client_id));
            }
            let ran = run(operations, each(50), &|_| {}).await.unwrap();
            assert_eq!((ran.repetition.operations, ran.repetition.errors), (150, 0));
        }
        let sums = "select (select sum(abalance) from pgbench_accounts) = \
                    (select sum(delta) from pgbench_history) and \
                    (select sum(tbalance) from pgbench_tellers) = \
                    (select sum(bbalance) from pgbench_branches)";
        assert_eq!(lab.value(sums).await, "t");
        let again = tables::create(&lab.session().await, &lab.schema, 1).await.unwrap_err();
        assert!(again.to_string().starts_with("making pgbench's tables: relation"), "{again}");
        assert!(tables::create(&lab.session().await, &lab.schema, 0).await.is_err());
    });
}

#[test]
fn more_tasks_than_connections_take_turns_and_share_what_is_prepared() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (x int, y int)").await;
        let config: Config =
            format!("{}?options=-csearch_path%3D{}", shared().url(), lab.schema).parse().unwrap();
        let client = Client::connect_with(&config.connections_max(2)).await.unwrap();
        let text = "begin;\ninsert into t values (:client_id, 1);\n\
                    insert into t values (:client_id, 2);\nend;";
        let plan = plan(text);
        let operations = ScriptOperation::on_client(&client, &plan, 20);
        let ran = run(operations, each(10), &|_| {}).await.unwrap();
        assert_eq!((ran.repetition.operations, ran.repetition.errors), (200, 0));
        assert!(client.connections() <= 2);
        let counts = "select count(*) || ' ' || count(distinct x) || ' ' || max(x) from t";
        assert_eq!(lab.value(counts).await, "400 20 19");
        let session = client.session().await.unwrap();
        // The four statements of the script, prepared once for all clients. Those of a reset are the
        // connection's own.
        let ours = "select count(*) from pg_prepared_statements where name not like '%reset%'";
        let prepared = session.script(ours).await.unwrap();
        let prepared: u32 = prepared[0].rows[0][0].as_ref().unwrap().parse().unwrap();
        assert!(prepared <= 4, "{prepared}");
    });
}

#[test]
fn what_is_prepared_before_is_not_prepared_in_a_run() {
    test(async {
        let lab = Lab::new().await;
        let plan = plan(
            "create temp table if not exists made (x int);\nselect 1;\nselect 2;\n\
             insert into made values (:client_id);",
        );
        let mut operations = ScriptOperation::on_sessions(&lab.client, &plan, 3).await.unwrap();
        operations[0].prepare().await.unwrap();
        let before = lab.client.metrics().counts.completed;
        for number in [0, 1, 2, 0, 1, 2] {
            operations[number].run(&mut Tally::default()).await.unwrap();
        }
        let sent = lab.client.metrics().counts.completed - before;
        // Only what could not be prepared before is asked for once more.
        assert_eq!(sent, 6 * 4 + 1);
    });
}
