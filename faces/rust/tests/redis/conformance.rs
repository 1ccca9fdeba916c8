//! The cases in `proof/conformance/`, which every language runs. Their form is described in its
//! README.

mod steps;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use onetrip::redis::{Client, Script, ScriptCall, Value};
use onetrip::{Error, Outcome};
use serde_json::{Map, Value as Json, json};

use crate::support::{client, key, lacks};

/// A command of a case, and the expected reply.
struct Asked {
    arguments: Vec<Vec<u8>>,
    script: Option<ScriptCall>,
    expected: Json,
}

impl Asked {
    fn new(json: &Json, key: &str) -> Asked {
        let list = |name: &str| -> Vec<Vec<u8>> {
            let list = json[name].as_array().into_iter().flatten();
            let bytes = list.map(|it| match it.as_str() {
                Some(text) => text.replace("{k}", key).into_bytes(),
                None => BASE64_STANDARD.decode(it["base64"].as_str().unwrap()).unwrap(),
            });
            bytes.collect()
        };
        let script = json["script"].as_str().map(|text| Script::new(text.replace("{k}", key)));
        let script = script.map(|it| it.call(list("keys"), list("args")));
        Asked { arguments: list("command"), script, expected: on_key(json, key) }
    }

    fn name(&self) -> &str {
        self.arguments.first().map_or("a script", |it| std::str::from_utf8(it).unwrap())
    }

    fn check(&self, came: Result<Value, Error>, case: &str) {
        let (expected, name) = (&self.expected, self.name());
        match came {
            Ok(value) => {
                let fails = !expected["error"].is_null() || !expected["outcome"].is_null();
                assert!(!fails, "{case}: {name} did not fail");
                let came = json_of(&value, &expected["reply"]);
                if expected["reply"] == "any" {
                    return;
                }
                assert_eq!(came, expected["reply"], "{case}: {name}");
            }
            Err(error) => {
                let code = error.redis_code();
                assert_eq!(code, expected["error"].as_str(), "{case}: {name}: {error}");
                if let Some(outcome) = expected["outcome"].as_str() {
                    let came = format!("{:?}", error.outcome());
                    assert_eq!(came, outcome, "{case}: {name}");
                }
            }
        }
    }
}

/// A value of the case, with these keys in it.
fn on_key(json: &Json, key: &str) -> Json {
    serde_json::from_str(&json.to_string().replace("{k}", key)).unwrap()
}

/// A value in the form of the cases. `like` distinguishes a set from a list, which RESP2 doesn't,
/// and gives a set its order.
fn json_of(value: &Value, like: &Json) -> Json {
    match value {
        Value::Nil => Json::Null,
        Value::Simple(text) if **text == *b"OK" => json!({"ok": true}),
        Value::Simple(text) if **text == *b"PONG" => json!({"pong": true}),
        Value::Simple(text) | Value::Bulk(text) => text_of(text),
        Value::Int(number) => (*number).into(),
        Value::Double(number) => (*number).into(),
        Value::Bool(value) => (*value).into(),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| {
                (text_of(bytes_of(key)).as_str().unwrap().to_owned(), json_of(value, &Json::Null))
            });
            json!({"map": pairs.collect::<Map<String, Json>>()})
        }
        Value::Array(items) | Value::Set(items) if like["set"].is_array() => {
            let wanted = like["set"].as_array().unwrap();
            let mut items: Vec<Json> = items.iter().map(|it| json_of(it, &Json::Null)).collect();
            items.sort_by_key(|it| wanted.iter().position(|wanted| wanted == it));
            json!({"set": items})
        }
        Value::Array(items) | Value::Set(items) => {
            Json::Array(items.iter().map(|it| json_of(it, &Json::Null)).collect())
        }
        other => panic!("the cases know no {other:?}"),
    }
}

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Simple(text) | Value::Bulk(text) => text,
        other => panic!("{other:?} is no key of a map"),
    }
}

fn text_of(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\u{fffd}') => text.into(),
        _ => json!({"base64": BASE64_STANDARD.encode(bytes)}),
    }
}

macro_rules! send {
    ($to:expr, $asked:expr) => {{
        let asked: &Asked = &$asked;
        match &asked.script {
            Some(call) => $to.script::<Value>(call.clone()),
            None => {
                let command = $to.cmd(asked.name());
                let arguments = asked.arguments[1..].iter();
                arguments.fold(command, |command, it| command.arg(&it[..])).send::<Value>()
            }
        }
    }};
}
use send;

async fn run(client: &Client, how: &str, all: &[Asked], refused: bool, case: &str) {
    match how {
        "one by one" => {
            for asked in all {
                asked.check(send!(client, asked).await, case);
            }
        }
        "pipeline" => {
            let list = client.pipeline();
            let positions: Vec<_> = all.iter().map(|asked| send!(list, asked)).collect();
            let replies = list.run().await.unwrap();
            for (asked, position) in all.iter().zip(positions) {
                asked.check(replies.get(position), case);
            }
        }
        "atomic" => {
            let list = client.atomic();
            let positions: Vec<_> = all.iter().map(|asked| send!(list, asked)).collect();
            let replies = list.run().await;
            if refused {
                assert_eq!(replies.unwrap_err().outcome(), Outcome::Rejected, "{case}");
                return;
            }
            let replies = replies.unwrap();
            for (asked, position) in all.iter().zip(positions) {
                asked.check(replies.get(position), case);
            }
        }
        other => panic!("{case}: there is no way {other}"),
    }
}

#[tokio::test]
async fn commands_reply_the_same_in_all_ways_to_send_them() {
    let Some(client) = client().await else { return };
    let path =
        format!("{}/../../proof/conformance/redis_commands.json", env!("CARGO_MANIFEST_DIR"));
    let file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(!cases.is_empty(), "there are no cases");
    for case in cases {
        let name = case["name"].as_str().unwrap();
        if let Some(needed) = case["needs"].as_str()
            && lacks(&client, needed).await
        {
            continue;
        }
        for how in case["how"].as_array().unwrap() {
            let how = how.as_str().unwrap();
            println!("{name}, {how}");
            let key = format!("{{{}}}", key("conformance"));
            let asked = |list: &str| -> Vec<Asked> {
                let list = case[list].as_array().map_or(&[][..], Vec::as_slice);
                list.iter().map(|json| Asked::new(json, &key)).collect()
            };
            let refused = case["refused"] == true;
            run(&client, how, &asked("commands"), refused, &format!("{name}, {how}")).await;
            run(&client, "one by one", &asked("then"), false, name).await;
        }
    }
}
