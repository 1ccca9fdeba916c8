//! Values of the types in `postgres_values.json`, by their Rust types.

use onetrip::Session;
use onetrip::types::{AsNumeric, AsText, FromSql, ToSql};
use serde_json::Value as Json;

use super::Case;

/// The texts of a case.
struct Texts<'a> {
    session: &'a Session,
    case: &'a Case,
    /// The type, as SQL has it.
    type_: String,
}

pub(super) async fn check(session: &Session, case: &Case, table: &str) {
    let name = case.json["type"].as_str().unwrap();
    let of = Texts { session, case, type_: name.replace("{t}", table) };
    match name {
        "bool" => of.read::<bool>().await,
        "int2" => of.read::<i16>().await,
        "int4" => of.read::<i32>().await,
        "int8" => of.read::<i64>().await,
        "oid" => of.read::<u32>().await,
        "float4" => of.read::<f32>().await,
        "float8" => of.read::<f64>().await,
        "text" | "varchar(5)" | "name" => of.read::<String>().await,
        "{t}" => of.go_round::<AsText<String>>(|it| Json::from(it.0.clone())).await,
        "bytea" => of.go_round::<Vec<u8>>(|_| Json::Null).await,
        "numeric" => of.go_round::<AsNumeric<bigdecimal::BigDecimal>>(|_| Json::Null).await,
        "json" | "jsonb" => of.read::<Json>().await,
        "uuid" => of.go_round::<uuid::Uuid>(|_| Json::Null).await,
        "date" => of.go_round::<chrono::NaiveDate>(|_| Json::Null).await,
        "time" => of.go_round::<chrono::NaiveTime>(|_| Json::Null).await,
        "timestamp" => of.go_round::<chrono::NaiveDateTime>(|_| Json::Null).await,
        "timestamptz" => of.go_round::<chrono::DateTime<chrono::Utc>>(|_| Json::Null).await,
        "int4[]" => of.read::<Vec<i32>>().await,
        "text[]" => of.read::<Vec<Option<String>>>().await,
        "bool[]" => of.read::<Vec<bool>>().await,
        "float8[]" => of.read::<Vec<f64>>().await,
        other => panic!("nothing of Rust is known for {other}"),
    }
}

impl Texts<'_> {
    /// Checks a type that JSON can represent.
    async fn read<T>(&self)
    where
        T: for<'a> FromSql<'a> + ToSql + Sync + Clone,
        Json: From<T>,
    {
        self.go_round::<T>(|value| Json::from(value.clone())).await;
    }

    async fn go_round<T>(&self, as_json: impl Fn(&T) -> Json)
    where
        T: for<'a> FromSql<'a> + ToSql + Sync,
    {
        let (type_, name) = (&self.type_, &self.case.name);
        let texts = self.case.list("texts");
        assert!(!texts.is_empty(), "{name}: there are no texts");
        for (i, text) in texts.iter().enumerate() {
            let quoted = text.as_str().unwrap().replace('\'', "''");
            let read = format!("select '{quoted}'::{type_}, '{quoted}'::{type_}::text");
            let row = self.session.query_one(&read, &[]).await.unwrap();
            let (value, expected) = (row.get::<T>(0), row.get::<String>(1));
            let back = format!("select $1::{type_}::text");
            let back = self.session.query_one(&back, &[&value]).await.unwrap();
            assert_eq!(back.get::<String>(0), expected, "{name}: {text}");
            if let Some(expected) = self.case.list("reads").get(i) {
                assert!(is_same(&as_json(&value), expected), "{name}: {text} is no {expected}");
            }
        }
    }
}

/// Whether two values are equal; numbers are, whether or not they are written with a point.
fn is_same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        _ => a == b,
    }
}
