//! Binary COPY of typed rows.

use std::time::{Duration, SystemTime};

use onetrip::types::{Timestamp, ToSql, Type};
use onetrip::{BinaryCopyIn, BinaryCopyOut, Outcome};

use crate::support::*;

const TYPES: [Type; 5] = [Type::INT4, Type::TEXT, Type::FLOAT8, Type::BYTEA, Type::INT8_ARRAY];

#[test]
fn typed_rows_go_in_and_come_out() {
    run(async {
        let t = table("a int, b text, c float8, d bytea, e int8[]").await;
        let client = client().await;
        let copy = client.copy_in(&format!("copy {t} from stdin binary")).await.unwrap();
        let mut rows = BinaryCopyIn::new(copy, &TYPES);
        for i in 0..20_000i32 {
            let text = (i % 3 != 0).then(|| format!("row {i}"));
            let (bytes, list) = (vec![i as u8; (i % 50) as usize], vec![i64::from(i), -1]);
            rows.row(&[&i, &text, &f64::from(i), &bytes, &list]).await.unwrap();
        }
        assert_eq!(rows.progress().rows, 20_000);
        assert_eq!(rows.finish().await.unwrap(), 20_000);
        let sql = format!("copy (select * from {t} order by a) to stdout binary");
        let copy = client.copy_out(&sql).await.unwrap();
        let mut rows = BinaryCopyOut::new(copy, &TYPES).unwrap();
        let mut i = 0i32;
        while let Some(row) = rows.try_next().await.unwrap() {
            assert_eq!((row.get::<i32>(0), row.get::<f64>(2)), (i, f64::from(i)));
            let text = (i % 3 != 0).then(|| format!("row {i}"));
            assert_eq!(row.get::<Option<&str>>(1), text.as_deref());
            assert_eq!(row.get::<&[u8]>(3), vec![i as u8; (i % 50) as usize]);
            assert_eq!(row.get::<Vec<i64>>("5"), [i64::from(i), -1]);
            i += 1;
        }
        assert_eq!(i, 20_000);
        assert!(rows.try_next().await.unwrap().is_none());
    });
}

#[test]
fn the_server_is_asked_for_the_types_of_a_table() {
    run(async {
        let t = table("\"the id\" int8, name text, at timestamptz").await;
        let mut session = session().await;
        let mut rows = session.copy_in_rows(&t, &["name", "the id"]).await.unwrap();
        rows.row(&[&"nail", &1i64]).await.unwrap();
        let error =
            failed(rows.row(&[&"bolt", &2i32]).await, Outcome::NotSent, "unencodable_parameter");
        assert_eq!(error.to_string(), "column 1 (the id) (i32) does not convert to type int8");
        failed(rows.row(&[&"bolt"]).await, Outcome::NotSent, "column_count");
        rows.row(&[&"bolt", &2i64]).await.unwrap();
        // A row that did not convert is left out completely.
        assert_eq!(rows.finish().await.unwrap(), 2);
        rejected(session.copy_in_rows(&t, &["nonsense"]).await.map(drop), "42703");
        let t = format!("public.{t}");
        session.copy_in_rows(&t, &["name"]).await.unwrap().abort("").await.unwrap();
        let sql = format!("select \"the id\", name from {t} order by 1");
        let rows = session.query(&sql, &[]).await.unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.get(1)).collect();
        assert_eq!(names, ["nail", "bolt"]);
    });
}

/// A tuple of values and a list of the same values are the same row, also where the columns have
/// other types than usual, and where a value does not convert.
#[test]
fn a_row_of_a_tuple_is_the_same_as_that_of_a_list() {
    const COLUMNS: &str = "yes bool, small int2, number int4, large int8, name text, tag varchar,
        code name, price float8, weight float4, bytes bytea, key oid, at timestamptz,
        wall timestamp, nothing int4, list int8[]";
    run(async {
        let (listed, tuples) = (table(COLUMNS).await, table(COLUMNS).await);
        let names: Vec<&str> =
            COLUMNS.split(',').map(|it| it.split_whitespace().next().unwrap()).collect();
        let client = client().await;
        let mut of_lists = client.copy_in_rows(&listed, &names).await.unwrap();
        let mut of_tuples = client.copy_in_rows(&tuples, &names).await.unwrap();
        let epoch = SystemTime::UNIX_EPOCH;
        for number in -20_000..20_000i32 {
            let away = Duration::new(number.unsigned_abs().into(), 123_456_789) * 30_000;
            let at = if number < 0 { epoch - away } else { epoch + away };
            let name = "ä".repeat((number.unsigned_abs() % 7) as usize);
            let bytes = name.as_bytes();
            let tag = (number % 3 != 0).then_some(name.as_str());
            let (small, large) = (number as i16, i64::from(number) << 40);
            let (price, weight) = (f64::from(number) / 7.0, number as f32);
            let key = number as u32;
            let list = vec![large, -1];
            let yes = number % 2 == 0;
            of_lists
                .row(&[
                    &yes,
                    &small,
                    &number,
                    &large,
                    &name,
                    &tag,
                    &tag,
                    &price,
                    &weight,
                    &bytes,
                    &key,
                    &at,
                    &Some(at),
                    &None::<i32>,
                    &list,
                ])
                .await
                .unwrap();
            let list = &list as &(dyn ToSql + Sync);
            let row = (
                yes,
                small,
                number,
                large,
                &*name,
                tag,
                tag,
                price,
                weight,
                bytes,
                key,
                at,
                Some(at),
                None::<i32>,
                list,
            );
            of_tuples.row_of(row).await.unwrap();
        }
        assert_eq!(of_tuples.progress().rows, 40_000);
        assert_eq!(of_tuples.progress().bytes, of_lists.progress().bytes);
        of_lists.finish().await.unwrap();
        of_tuples.finish().await.unwrap();
        let sum =
            |t: &str| format!("select sum(hashtextextended(t::text, 0)::numeric)::text from {t} t");
        let of: Vec<String> = [
            client.query_one(&*sum(&listed), &[]).await.unwrap().get(0),
            client.query_one(&*sum(&tuples), &[]).await.unwrap().get(0),
        ]
        .into();
        assert_eq!(of[0], of[1]);
    });
}

#[test]
fn a_row_of_a_tuple_that_does_not_fit_is_left_out() {
    run(async {
        let t = table("id int8, at timestamptz, name text").await;
        let client = client().await;
        let mut rows = client.copy_in_rows(&t, &["id", "at", "name"]).await.unwrap();
        let here = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let refused = async |result: Result<(), onetrip::Error>, text: &str| {
            let error = failed(result, Outcome::NotSent, "unencodable_parameter");
            assert!(error.to_string().contains(text), "{error}");
        };
        rows.row_of((1_i64, here, "nail")).await.unwrap();
        refused(rows.row_of((1_i32, here, "nail")).await, "column 0 (id) (i32)").await;
        refused(rows.row_of((1_i64, here, 5_i64)).await, "column 2 (name) (i64)").await;
        refused(rows.row_of((None::<i32>, here, "nail")).await, "column 0 (id)").await;
        for seconds in [9_224_318_016_000, 18_446_744_073_710, 1 << 44, 1 << 60] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            refused(rows.row_of((1_i64, time, "nail")).await, "out of the range").await;
            refused(rows.row_of((1_i64, Some(time), "nail")).await, "out of the range").await;
            let time = SystemTime::UNIX_EPOCH - Duration::from_secs(seconds);
            refused(rows.row_of((1_i64, time, "nail")).await, "out of the range").await;
        }
        let few = rows.row_of((1_i64, here)).await;
        failed(few, Outcome::NotSent, "column_count");
        rows.row_of((2_i64, None::<SystemTime>, String::from("bolt"))).await.unwrap();
        assert_eq!(rows.finish().await.unwrap(), 2);
    });
}

/// Of the first the name of its type is asked; those behind it are known by it.
#[test]
fn a_system_time_that_the_server_has_not_is_refused_wherever_it_stands_in_a_column() {
    run(async {
        let t = table("id int8, at timestamptz").await;
        let client = client().await;
        let copy = client.copy_in(&format!("copy {t} from stdin binary")).await.unwrap();
        let mut rows = BinaryCopyIn::new(copy, &[Type::INT8, Type::TIMESTAMPTZ]);
        let here = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let beyond = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 60);
        for id in 0..4i64 {
            rows.row(&[&id, &here]).await.unwrap();
            let refused = rows.row(&[&id, &beyond]).await;
            let error = failed(refused, Outcome::NotSent, "unencodable_parameter");
            assert!(error.to_string().contains("out of the range of timestamp"), "{error}");
            rows.row(&[&-id, &Some(here)]).await.unwrap();
            let refused = rows.row(&[&id, &Some(beyond)]).await;
            failed(refused, Outcome::NotSent, "unencodable_parameter");
            rows.row(&[&-id, &Timestamp::<SystemTime>::PosInfinity]).await.unwrap();
            rows.row(&[&-id, &None::<SystemTime>]).await.unwrap();
        }
        assert_eq!(rows.finish().await.unwrap(), 16);
        let sql = format!("select count(*) from {t} where at = $1 group by at is null");
        let row = client.query_one(&sql, &[&here]).await.unwrap();
        assert_eq!(row.get::<i64>(0), 8);
    });
}

#[test]
fn types_that_are_not_those_of_the_table_are_an_error_of_the_server() {
    run(async {
        let t = table("id int").await;
        let client = client().await;
        let copy = client.copy_in(&format!("copy {t} from stdin binary")).await.unwrap();
        let mut rows = BinaryCopyIn::new(copy, &[Type::INT8]);
        rows.row(&[&1i64]).await.unwrap();
        rejected(rows.finish().await, "22P03");
        let copy = client.copy_in(&format!("copy {t} from stdin binary")).await.unwrap();
        let mut rows = BinaryCopyIn::new(copy, &[Type::INT4, Type::INT4]);
        rows.row(&[&1, &2]).await.unwrap();
        rejected(rows.finish().await, "22P04");
        drop(client.copy_in(&format!("copy {t} from stdin binary")).await.unwrap());
        assert!(ids(&t).await.is_empty());
    });
}

#[test]
fn copy_data_of_another_form_is_not_read_as_rows() {
    run(async {
        let client = client().await;
        for sql in ["copy (select 1) to stdout", "copy (select 1, 2) to stdout binary"] {
            let copy = client.copy_out(sql).await.unwrap();
            failed(
                BinaryCopyOut::new(copy, &[Type::INT4]).map(drop),
                Outcome::Applied,
                "copy_format",
            );
        }
        let copy = client.copy_out("copy (select 1::int8) to stdout binary").await.unwrap();
        let mut rows = BinaryCopyOut::new(copy, &[Type::INT4]).unwrap();
        let row = rows.try_next().await.unwrap().unwrap();
        failed(row.try_get::<i32>(0), Outcome::Applied, "unreadable_reply");
    });
}

#[test]
fn long_rows_are_put_together_up_to_the_limit() {
    run(async {
        let client = client_with("result_bytes_max=2000000").await;
        let sql =
            "copy (select repeat('x', 1500000), i from generate_series(1, 3) i) to stdout binary";
        let copy = client.copy_out(sql).await.unwrap();
        let mut rows = BinaryCopyOut::new(copy, &[Type::TEXT, Type::INT4]).unwrap();
        for i in 1..=3 {
            let row = rows.try_next().await.unwrap().unwrap();
            assert_eq!((row.get::<&str>(0).len(), row.get::<i32>(1)), (1_500_000, i));
        }
        assert!(rows.try_next().await.unwrap().is_none());
        let copy =
            client.copy_out("copy (select repeat('x', 2500000)) to stdout binary").await.unwrap();
        let mut rows = BinaryCopyOut::new(copy, &[Type::TEXT]).unwrap();
        failed(rows.try_next().await, Outcome::Applied, "result_too_large");
    });
}
