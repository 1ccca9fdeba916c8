//! The model server: what it answers, what it logs, and how it fails.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use bytes::BytesMut;
use onetrip_lab::model::{
    Auth, Change, Config, Effect, Entry, Fault, Log, Model, Rng, SEND_BUFFER_LEN, Schema, Server,
    Type, code, fatal, serve,
};
use onetrip_postgres::client::copy::{Guard, guard};
use onetrip_postgres::message::{
    BackendMessage, Close, CopyData, Describe, Execute, FLUSH, Formats, Query, SYNC, ServerError,
    TERMINATE, Target, bind, empty, frame, max_len, parse,
};
use onetrip_postgres::startup::{Startup, StartupConfig};

/// A session that is ready, and what it says.
struct Session {
    server: Server,
    out: BytesMut,
}

impl Session {
    fn new() -> Session {
        let server = Server::ready(Config::default(), Log::default());
        Session { server, out: BytesMut::new() }
    }

    /// One of those that share these tables.
    fn on(schema: &Schema) -> Session {
        let config = Config { schema: Some(schema.clone()), ..Config::default() };
        Session { server: Server::ready(config, Log::default()), out: BytesMut::new() }
    }

    fn parse(mut self, name: &str, sql: &str) -> Session {
        parse::write(&mut self.out, name, sql, &[]).unwrap();
        self
    }

    fn bind(mut self, portal: &str, name: &str, parameters: &[&str]) -> Session {
        let count = parameters.len();
        let write = |at: usize, out: &mut BytesMut| {
            out.extend_from_slice(parameters[at].as_bytes());
            Ok::<_, onetrip_postgres::message::EncodeError>(bind::IsNull::No)
        };
        let text = Formats::AllText;
        bind::write(&mut self.out, portal, name, text, count, write, text).unwrap();
        self
    }

    fn execute(mut self, portal: &str, rows_max: i32) -> Session {
        Execute { portal, rows_max }.encode(&mut self.out).unwrap();
        self
    }

    fn statement(self, sql: &str) -> Session {
        self.parse("", sql).bind("", "", &[]).execute("", 0)
    }

    fn raw(mut self, bytes: &[u8]) -> Session {
        self.out.extend_from_slice(bytes);
        self
    }

    fn sync(self) -> Session {
        self.raw(&SYNC)
    }

    fn query(mut self, sql: &str) -> Session {
        Query { sql }.encode(&mut self.out).unwrap();
        self
    }

    /// Sends it all and says in short what was answered.
    fn answer(&mut self) -> String {
        let out = self.out.split();
        self.server.handle_bytes(&out);
        let mut all = Vec::new();
        while !self.server.transmit().is_empty() {
            all.extend_from_slice(self.server.transmit());
            self.server.handle_written(self.server.transmit().len());
        }
        summary(&all)
    }

    fn effect(&self, op: u64) -> Effect {
        self.server.log().entry(op).effect
    }
}

/// A letter or a few for each message.
fn summary(mut bytes: &[u8]) -> String {
    use BackendMessage as M;
    let mut words = Vec::new();
    while let Some(framed) = frame(bytes, max_len).unwrap() {
        bytes = &bytes[framed.message_len()..];
        words.push(match BackendMessage::decode(framed).unwrap() {
            M::ErrorResponse(error) => {
                let error = ServerError::from(error);
                format!("{} {}", error.severity, error.code)
            }
            M::CommandComplete(complete) => complete.tag.to_owned(),
            M::ReadyForQuery(ready) => format!("{:?}", ready.status),
            M::DataRow(_) => "row".to_owned(),
            M::RowDescription(_) => "columns".to_owned(),
            M::ParameterDescription(types) => format!("{} parameters", types.types.len()),
            M::NoticeResponse(_) => "notice".to_owned(),
            M::CopyInResponse(_) => "copy in".to_owned(),
            M::PortalSuspended => "suspended".to_owned(),
            M::ParseComplete => "parsed".to_owned(),
            M::BindComplete => "bound".to_owned(),
            M::CloseComplete => "closed".to_owned(),
            M::NoData => "no data".to_owned(),
            M::EmptyQueryResponse => "empty".to_owned(),
            other => format!("{other:?}"),
        });
    }
    assert!(bytes.is_empty());
    words.join(", ")
}

#[test]
fn statements_between_two_syncs_stand_and_fall_together() {
    let mut session = Session::new().statement("insert op=1").statement("insert op=2").sync();
    assert_eq!(session.answer(), "parsed, bound, INSERT 1 0, parsed, bound, INSERT 2 0, Idle");
    let mut session = session
        .statement("insert op=3")
        .statement("insert op=4 rows=2 fail=execute after=1")
        .statement("insert op=5")
        .sync();
    assert_eq!(
        session.answer(),
        "parsed, bound, INSERT 3 0, parsed, bound, row, ERROR 22012, Idle"
    );
    assert_eq!([1, 2].map(|op| session.effect(op)), [Effect::Committed; 2]);
    assert_eq!([3, 4].map(|op| session.effect(op)), [Effect::RolledBack; 2]);
    let skipped = Entry { received: 1, executed: 0, effect: Effect::None };
    assert_eq!(session.server.log().entry(5), skipped);
    assert_eq!(session.server.log().order(), [1, 2, 3, 4]);
}

#[test]
fn a_commit_can_fail_after_the_statement_was_complete() {
    let mut session = Session::new().statement("insert op=1 fail=commit").sync();
    assert_eq!(session.answer(), "parsed, bound, INSERT 1 0, ERROR 23505, Idle");
    assert_eq!(session.effect(1), Effect::RolledBack);
    // A simple query commits before it confirms.
    let mut session = session.query("insert op=2 fail=commit");
    assert_eq!(session.answer(), "ERROR 23505, Idle");
}

#[test]
fn explicit_transactions_end_with_commit_or_rollback() {
    let mut session = Session::new().statement("begin").statement("insert op=1").sync();
    assert_eq!(session.answer(), "parsed, bound, BEGIN, parsed, bound, INSERT 1 0, InTransaction");
    assert_eq!(session.effect(1), Effect::Pending);
    let mut session = session.statement("commit").sync();
    assert_eq!(session.answer(), "parsed, bound, COMMIT, Idle");
    assert_eq!(session.effect(1), Effect::Committed);

    let mut session = session.statement("begin").statement("insert op=2 fail=execute").sync();
    assert_eq!(session.answer(), "parsed, bound, BEGIN, parsed, bound, ERROR 22012, Failed");
    let mut session = session.statement("insert op=3").sync().statement("commit").sync();
    assert_eq!(session.answer(), "ERROR 25P02, Failed, parsed, bound, ROLLBACK, Idle");
    let mut session = session.statement("rollback").sync();
    assert_eq!(session.answer(), "parsed, bound, notice, ROLLBACK, Idle");
}

#[test]
fn a_simple_query_runs_several_statements_in_one_transaction() {
    let mut session = Session::new().query("insert op=1; select op=2 rows=2");
    assert_eq!(session.answer(), "INSERT 1 0, columns, row, row, SELECT 2, Idle");
    let mut session = session.query("insert op=3; insert op=4 fail=execute; insert op=5");
    assert_eq!(session.answer(), "INSERT 3 0, ERROR 22012, Idle");
    assert_eq!(session.effect(3), Effect::RolledBack);
    let mut session = session.query(" ").query("call op=6 fail=execute");
    assert_eq!(session.answer(), "empty, Idle, ERROR 22012, Idle");
    assert_eq!(session.effect(6), Effect::Partial);
}

#[test]
fn prepared_statements_take_parameters_get_lost_and_go_stale() {
    let target = Target::Statement("s");
    let mut describe = BytesMut::new();
    Describe { target }.encode(&mut describe).unwrap();
    let mut session = Session::new().parse("s", "select op=$1 rows=$2").raw(&describe).sync();
    assert_eq!(session.answer(), "parsed, 2 parameters, columns, Idle");
    let mut session = session.bind("", "s", &["7", "2"]).execute("", 0).sync();
    assert_eq!(session.answer(), "bound, row, row, SELECT 2, Idle");
    assert_eq!(session.effect(7), Effect::Committed);

    session.server.make_stale();
    let mut session = session.bind("", "s", &["8", "0"]).execute("", 0).sync();
    assert_eq!(session.answer(), format!("ERROR {}, Idle", code::STALE));
    let mut close = BytesMut::new();
    Close { target }.encode(&mut close).unwrap();
    let session = session.raw(&close).parse("s", "select op=$1 rows=$2");
    let mut session = session.bind("", "s", &["9", "0"]).execute("", 0).sync();
    assert_eq!(session.answer(), "closed, parsed, bound, SELECT 0, Idle");

    let session = session.statement("discard all").sync();
    let mut session = session.bind("", "s", &["10", "0"]).execute("", 0).sync();
    assert_eq!(session.answer(), "parsed, bound, DISCARD ALL, Idle, ERROR 26000, Idle");
}

#[test]
fn a_portal_with_a_row_limit_is_suspended() {
    let mut session = Session::new()
        .parse("", "select op=1 rows=4")
        .bind("p", "", &[])
        .execute("p", 2)
        .execute("p", 2)
        .execute("p", 2)
        .sync()
        .execute("p", 2)
        .sync();
    assert_eq!(
        session.answer(),
        "parsed, bound, row, row, suspended, row, row, suspended, SELECT 0, Idle, ERROR 34000, Idle"
    );
    assert_eq!(session.server.log().entry(1).executed, 1);
}

#[test]
fn replies_are_kept_until_a_sync_a_flush_an_error_or_a_full_buffer() {
    let mut session = Session::new().statement("insert op=1");
    assert_eq!(session.answer(), "");
    let mut session = session.raw(&FLUSH);
    assert_eq!(session.answer(), "parsed, bound, INSERT 1 0");
    let mut session = session.statement("insert op=2").parse("", "insert fail=parse");
    assert_eq!(session.answer(), "parsed, bound, INSERT 2 0, ERROR 42601");
    let session = session.sync().statement("select op=3 rows=10 size=1000");
    let Session { mut server, out } = session;
    server.handle_bytes(&out);
    let ready = 6;
    server.handle_written(ready);
    assert_eq!(server.transmit().len(), SEND_BUFFER_LEN);
}

#[test]
fn it_reads_nothing_while_it_has_bytes_to_write() {
    let Session { mut server, out } = Session::new().statement("insert op=1").sync();
    server.handle_bytes(&out);
    assert!(!server.wants_bytes());
    server.handle_bytes(&out);
    assert_eq!(server.log().order(), [1]);
    server.handle_written(server.transmit().len() - 1);
    assert_eq!(server.log().order(), [1]);
    server.handle_written(1);
    assert_eq!(server.log().order(), [1, 1]);
}

#[test]
fn the_end_of_a_session_undoes_what_was_open() {
    let mut session = Session::new().statement("begin").statement("insert op=1").sync();
    session.answer();
    session.server.handle_closed();
    assert!(session.server.is_closed());
    assert_eq!(session.effect(1), Effect::RolledBack);

    let mut session = Session::new().statement("insert op=2 rows=2 fail=fatal after=1").sync();
    assert_eq!(session.answer(), "parsed, bound, row, FATAL 57P01");
    let mut session = Session::new().raw(&TERMINATE);
    session.answer();
    assert_eq!(session.server.log().goodbyes(), 1);
    let mut session = Session::new().raw(b"?????");
    assert_eq!(session.answer(), "FATAL 08P01");
    assert_eq!(session.server.log().violations().len(), 1);
}

#[test]
fn a_startup_ends_ready_with_and_without_a_password() {
    for (auth, password, ends_well) in [
        (Auth::Trust, "", true),
        (Auth::Scram("secret".into()), "secret", true),
        (Auth::Scram("secret".into()), "guess", false),
    ] {
        let mut server = Server::new(Config { auth, ..Config::default() }, Log::default());
        let mut config = StartupConfig::new("user");
        config.password = Some(password.into());
        let mut startup = Startup::new(config, [1; 18]).unwrap();
        let mut input = BytesMut::new();
        let result = loop {
            let out = startup.transmit().unwrap_or_default();
            // A byte at a time: nothing may depend on how they arrive.
            out.chunks(1).for_each(|byte| server.handle_bytes(byte));
            assert!(!server.transmit().is_empty());
            input.extend_from_slice(server.transmit());
            server.handle_written(server.transmit().len());
            match startup.handle_bytes(&mut input) {
                Ok(None) => {}
                result => break result,
            }
        };
        assert_eq!(result.is_ok(), ends_well, "{result:?}");
        assert_eq!(server.is_started(), ends_well);
    }
}

// --- on a socket ---

/// A client that has started up.
struct Client {
    stream: TcpStream,
    input: BytesMut,
}

impl Client {
    fn connect(model: &Model) -> Client {
        let mut stream = TcpStream::connect(model.addr()).unwrap();
        let mut startup = Startup::new(StartupConfig::new("user"), [1; 18]).unwrap();
        let mut input = BytesMut::new();
        loop {
            let out = startup.transmit().unwrap_or_default();
            stream.write_all(&out).unwrap();
            let mut buffer = [0; 1024];
            let len = stream.read(&mut buffer).unwrap();
            assert!(len > 0);
            input.extend_from_slice(&buffer[..len]);
            if startup.handle_bytes(&mut input).unwrap().is_some() {
                return Client { stream, input };
            }
        }
    }

    fn send(&mut self, sql: &str) {
        let Session { out, .. } = Session::new().statement(sql).sync();
        self.stream.write_all(&out).unwrap();
    }

    /// Reads to the end of the connection, or for so many bytes.
    fn read(&mut self, len: usize) -> Vec<u8> {
        let mut all = self.input.to_vec();
        let mut buffer = vec![0; len];
        while all.len() < len {
            match self.stream.read(&mut buffer[..len - all.len()]) {
                Ok(0) => break,
                Ok(len) => all.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error}"),
            }
        }
        all
    }
}

/// ParseComplete, BindComplete, `INSERT 1 0`, ReadyForQuery.
const REPLY_LEN: usize = 5 + 5 + 16 + 6;

fn model() -> Model {
    serve(TcpListener::bind("127.0.0.1:0").unwrap(), Config::default()).unwrap()
}

#[test]
fn a_model_on_a_socket_answers_many_connections_and_keeps_one_log() {
    let model = model();
    let mut clients = [Client::connect(&model), Client::connect(&model)];
    clients[0].send("insert op=1");
    clients[1].send("insert op=2");
    for client in &mut clients {
        assert_eq!(client.read(REPLY_LEN).len(), REPLY_LEN);
    }
    assert_eq!([1, 2].map(|op| model.log().entry(op).effect), [Effect::Committed; 2]);
    assert_eq!(model.accepted(), 2);
    model.send(&fatal());
    assert_eq!(summary(&clients[0].read(fatal().len())), "FATAL 57P01");
    model.close_all();
    assert!(clients[1].read(1000).len() >= fatal().len());
}

#[test]
fn faults_happen_at_their_byte() {
    let model = model();
    model.plan(Fault::CloseAfter(7));
    model.plan_next();
    model.plan(Fault::Hostile { after: 5, bytes: b"!!".to_vec() });
    model.plan_next();
    model.plan_startup(Fault::CloseAfter(0));
    model.plan_next();
    model.plan(Fault::Silence(6));

    let mut client = Client::connect(&model);
    client.send("insert op=1");
    assert_eq!(client.read(1000).len(), 7);
    // The statement ran all the same.
    assert_eq!(model.log().entry(1).effect, Effect::Committed);

    let mut client = Client::connect(&model);
    client.send("insert op=2");
    assert_eq!(&client.read(REPLY_LEN + 2)[5..7], b"!!");

    let mut stream = TcpStream::connect(model.addr()).unwrap();
    let mut startup = Startup::new(StartupConfig::new("user"), [1; 18]).unwrap();
    stream.write_all(&startup.transmit().unwrap()).unwrap();
    assert!(matches!(stream.read(&mut [0; 100]), Ok(0) | Err(_)));
    assert!(startup.handle_bytes(&mut BytesMut::new()).unwrap().is_none());

    let mut client = Client::connect(&model);
    client.send("insert op=3");
    assert_eq!(client.read(6).len(), 6);
    client.send("insert op=4");
    drop(model);
    assert_eq!(client.read(1000).len(), 0);
}

#[test]
fn a_deaf_model_stops_reading_and_still_answers_what_it_read() {
    let model = model();
    let Session { out, .. } = Session::new().statement("insert op=1").sync();
    model.plan(Fault::Deaf(out.len()));
    let mut client = Client::connect(&model);
    client.send("insert op=1");
    client.send("insert op=2");
    assert_eq!(client.read(REPLY_LEN).len(), REPLY_LEN);
    assert_eq!(model.log().order(), [1]);
}

const INSERT: &str = "insert op=$1 into=t v=$2";
const READ: &str = "select op=$1 from=t";

/// Four tables of this type.
fn schema(type_: Type) -> Schema {
    Schema::new(0, &[type_; 4])
}

fn stored(schema: &Schema, op: u64) -> String {
    schema.stored(op).unwrap().text
}

#[test]
fn a_statement_keeps_the_types_of_its_parse_and_an_unnamed_one_is_of_now() {
    let schema = schema(Type::Timestamp);
    let mut session = Session::on(&schema).parse("s", INSERT).sync();
    assert_eq!(session.answer(), "parsed, Idle");
    schema.migrate((0, 0), Change::Type(Type::Timestamptz));
    let moment = "2020-01-01 12:00:00+05";
    let session = session.bind("", "s", &["1", moment]).execute("", 0).sync();
    let mut session = session.parse("", INSERT).bind("", "", &["2", moment]).execute("", 0).sync();
    session.answer();
    assert_eq!(stored(&schema, 1), "2020-01-01 12:00:00+00");
    assert_eq!(stored(&schema, 2), "2020-01-01 07:00:00+00");
}

#[test]
fn a_migration_refuses_plans_whose_columns_or_casts_it_has_changed() {
    let schema = schema(Type::Enum(0));
    let session = Session::on(&schema).parse("s", INSERT).parse("r", READ);
    let mut session = session.parse("i", &format!("{INSERT} returning=*")).sync();
    session.answer();
    schema.migrate((0, 0), Change::Add(Type::Int4));
    let session = session.bind("", "r", &["1"]).sync().bind("", "i", &["2", "red"]).sync();
    let mut session = session.bind("", "s", &["3", "red"]).execute("", 0).sync();
    let refused = format!("ERROR {}, Idle, ", code::STALE);
    assert_eq!(session.answer(), format!("{refused}{refused}bound, INSERT 3 1, Idle"));
    schema.migrate((0, 0), Change::Type(Type::Enum(0)));
    let mut session = session.bind("", "s", &["4", "red"]).sync();
    assert_eq!(session.answer(), format!("ERROR {}, Idle", code::LOOKUP));
    schema.migrate((0, 1), Change::Type(Type::Text));
    let mut session = session.parse("u", "insert op=$1 into=u v=$2").sync();
    session.answer();
    schema.migrate((0, 1), Change::Type(Type::Int4));
    let mut session = session.bind("", "u", &["5", "7"]).sync();
    assert_eq!(session.answer(), format!("ERROR {}, Idle", code::DATATYPE));
}

#[test]
fn a_table_is_that_of_the_path_and_held_until_its_transaction_ends() {
    let schema = Schema::new(0, &[Type::Int4, Type::Int4, Type::Text, Type::Int4]);
    let mut session = Session::on(&schema).parse("s", INSERT);
    session.answer();
    assert!(session.server.holds((0, 0)) && !session.server.holds((0, 1)));
    let mut session = session.sync();
    session.answer();
    assert!(!session.server.holds((0, 0)));
    let session = session.statement("set search_path=b op=1").sync();
    let session = session.bind("", "s", &["2", "007"]).execute("", 0).sync();
    let mut session = session.parse("", INSERT).bind("", "", &["3", "007"]).execute("", 0).sync();
    session.answer();
    assert_eq!([2, 3].map(|op| stored(&schema, op)), ["7", "007"]);
}

#[test]
fn a_pooler_answers_a_parse_by_a_statement_of_an_older_schema() {
    let schema = schema(Type::Int4);
    schema.pool(Rng::new(1));
    // Both servers have it.
    for _ in 0..8 {
        Session::on(&schema).parse("one", INSERT).sync().answer();
    }
    schema.migrate((0, 0), Change::Type(Type::Text));
    let session = Session::on(&schema).parse("two", INSERT);
    let session = session.bind("", "two", &["1", "007"]).execute("", 0).sync();
    let mut session = session.parse("", INSERT).bind("", "", &["2", "007"]).execute("", 0).sync();
    session.answer();
    assert_eq!([1, 2].map(|op| stored(&schema, op)), ["7", "007"]);
}

/// A COPY of this row, and its end.
fn copy_of(schema: &Schema, behind: &str, value: &[u8]) -> String {
    let signature = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let (op, len) = (7_i64.to_be_bytes(), (value.len() as u32).to_be_bytes());
    let data = [&signature[..], &[0, 2, 0, 0, 0, 8], &op, &len, value, &[0xff, 0xff]].concat();
    let sql = format!("copy op=7 into=t from stdin (format binary){behind}");
    let mut session = Session::on(schema).query(&sql);
    CopyData { data: &data }.encode(&mut session.out).unwrap();
    session.raw(&empty::COPY_DONE).answer()
}

#[test]
fn a_binary_copy_is_read_as_what_its_column_is_by_then() {
    let schema = schema(Type::Int8);
    let five = 5_i64.to_be_bytes();
    assert_eq!(copy_of(&schema, "", &five), "copy in, COPY 1, Idle");
    assert_eq!(stored(&schema, 7), "5");
    schema.migrate((0, 0), Change::Type(Type::Float8));
    assert_eq!(copy_of(&schema, "", &five), "copy in, COPY 1, Idle");
    assert_ne!(stored(&schema, 7), "5");
    schema.migrate((0, 0), Change::Type(Type::Int4));
    let refused = format!("copy in, ERROR {}, Idle", code::INVALID_BINARY);
    assert_eq!(copy_of(&schema, "", &five), refused);
}

#[test]
fn a_copy_whose_guard_fails_is_undone() {
    let schema = schema(Type::Int8);
    let of = [("op", Type::Int8.oid()), ("v", Type::Int8.oid())];
    let guard = format!(";{}", guard(Guard::ByRow, "t", &of));
    let five = 5_i64.to_be_bytes();
    assert_eq!(copy_of(&schema, &guard, &five), "copy in, COPY 1, columns, row, SELECT 1, Idle");
    schema.migrate((0, 0), Change::Type(Type::Float8));
    let refused = format!("copy in, COPY 1, ERROR {}, Idle", code::INVALID_TEXT);
    assert_eq!(copy_of(&schema, &guard, &five), refused);
}
