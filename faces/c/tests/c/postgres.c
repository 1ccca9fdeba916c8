/* What the header promises of statements, pipelines, sessions and clients of PostgreSQL. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <onetrip/poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void values_come_as_they_were_sent(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_result *r = NULL;
  ot_text text;
  int64_t whole;
  double real;
  int32_t truth;
  uint32_t oid;
  SAYS(OT_OK,
       ot_run(db, OT_SQL("select $1::int8, $2::float8, $3::bool, $4::text, $5, $6::int, $7::numeric "
                         "as n"),
              OT_ARGS(OT_I64(INT64_MIN), OT_F64(0.1), OT_BOOL(1), OT_TEXT("a\xc3\xbc", 3),
                      OT_BYTES("\0\xff\n", 3), OT_NIL, OT_STR("1.50")),
              &r, &err),
       err);
  CHECK(ot_rows(r) == 1 && ot_columns(r) == 7 && ot_affected(r) == 1 && ot_parts(r) == 0);
  CHECK(ot_get_i64(r, 0, 0, &whole) == OT_OK && whole == INT64_MIN);
  CHECK(ot_get_f64(r, 0, 1, &real) == OT_OK && real == 0.1);
  CHECK(ot_get_bool(r, 0, 2, &truth) == OT_OK && truth == 1);
  CHECK(ot_get_text(r, 0, 3, &text) == OT_OK && is_text(text, "a\xc3\xbc"));
  CHECK(ot_get_bytes(r, 0, 4, &text) == OT_OK && text.len == 3 && !memcmp(text.ptr, "\0\xff\n", 3));
  CHECK(ot_get_i64(r, 0, 5, &whole) == OT_NULL && whole == INT64_MIN);
  CHECK(ot_get_text(r, 0, 6, &text) == OT_OK && is_text(text, "1.50"));
  CHECK(ot_get_i64(r, 0, 6, &whole) == OT_CONVERSION && ot_get_bytes(r, 0, 3, &text) == OT_CONVERSION);
  CHECK(ot_get_i64(r, 1, 0, &whole) == OT_RANGE && ot_get_i64(r, 0, 7, &whole) == OT_RANGE);
  CHECK(ot_column_name(r, 6, &text) == OT_OK && is_text(text, "n"));
  CHECK(ot_column_type(r, 4, &oid) == OT_OK && oid == 17);
  CHECK(ot_tag(r, &text) == OT_OK && is_text(text, "SELECT 1"));
  ot_result_free(r);
  /* A text that is used often is prepared, and answers the same. */
  for (int i = 0; i < 12; i++) {
    SAYS(OT_OK, ot_run(db, OT_SQL("select $1::int + 1, $2"), OT_ARGS(OT_I64(i), OT_BYTES("x", 1)), &r, &err), err);
    CHECK(ot_get_i64(r, 0, 0, &whole) == OT_OK && whole == i + 1);
    CHECK(ot_get_bytes(r, 0, 1, &text) == OT_OK && is_text(text, "x"));
    ot_result_free(r);
  }
  close_it(db);
}

static void an_error_says_its_outcome(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_result *r = (ot_result *)&err;
  run(db, "create table t (id int constraint t_is_small check (id < 9))");
  SAYS(OT_SERVER, ot_run(db, OT_SQL("insert into t values ($1)"), OT_ARGS(OT_I64(9)), &r, &err), err);
  CHECK(r == NULL && err.status == OT_SERVER && err.outcome == OT_REJECTED);
  CHECK(!strcmp(err.code, "23514") && !strcmp(err.constraint, "t_is_small"));
  CHECK(strstr(err.message, "violates check") && strstr(err.detail, "(9)") && err.statement == 0);
  SAYS(OT_OK, ot_run(db, OT_SQL("insert into t values (1)"), OT_NO_ARGS, NULL, &err), err);
  CHECK(err.status == OT_OK && err.outcome == OT_NONE && err.code[0] == 0 && err.message[0] == 0);
  /* Of what is smaller than this header's, only so much is written. */
  char small[64];
  memset(small, 'x', sizeof small);
  uint32_t size = 16;
  memcpy(small, &size, sizeof size);
  CHECK(ot_run(db, OT_SQL("no sql"), OT_NO_ARGS, NULL, (ot_error *)small) == OT_SERVER);
  CHECK(((int32_t *)small)[1] == OT_SERVER && ((int32_t *)small)[2] == OT_REJECTED && small[16] == 'x');
  CHECK(ot_run(db, OT_SQL("no sql"), OT_NO_ARGS, NULL, NULL) == OT_SERVER);
  close_it(db);
}

static void what_is_wrong_is_said_and_nothing_is_sent(const char *url) {
  ot_client *db = open_pg(url), *none = NULL;
  ot_error err = OT_ERROR_INIT;
  ot_call *call = NULL;
  const char *refused[] = {"begin", "set x.y to 1", "listen a", "copy t from stdin", "a\0b"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    size_t len = i == 4 ? 3 : OT_NTS;
    CHECK(ot_query(db, refused[i], len, NULL, 0, NULL, &call) == OT_OK);
    SAYS(OT_REFUSED, end_of(call, &err), err);
    CHECK(err.outcome == OT_NOT_SENT && err.code[0] && err.message[0]);
  }
  ot_value bad = {99, 0, 0, 0, NULL, 0};
  CHECK(ot_query(NULL, OT_SQL("select 1"), OT_NO_ARGS, NULL, &call) == OT_MISUSE);
  CHECK(ot_query(db, OT_SQL("select 1"), OT_NO_ARGS, NULL, NULL) == OT_MISUSE);
  CHECK(ot_query(db, NULL, 1, OT_NO_ARGS, NULL, &call) == OT_MISUSE);
  CHECK(ot_query(db, OT_SQL("select $1"), NULL, 1, NULL, &call) == OT_MISUSE);
  CHECK(ot_query(db, OT_SQL("select $1"), &bad, 1, NULL, &call) == OT_MISUSE);
  CHECK(ot_query(db, OT_SQL("select \xff"), OT_NO_ARGS, NULL, &call) == OT_MISUSE);
  CHECK(ot_wait(NULL, -1, NULL, &err) == OT_MISUSE && err.outcome == OT_NOT_SENT);
  CHECK(ot_command(db, OT_ARGS(OT_STR("GET"), OT_STR("a")), NULL, &call) == OT_OK);
  SAYS(OT_REFUSED, end_of(call, &err), err);
  CHECK(ot_pg_connect("user=me colour=blue", OT_NTS, 0, &none, &err) == OT_REFUSED && !none);
  CHECK(strstr(err.message, "colour") && ot_fd(NULL) == -1 && ot_rows(NULL) == 0);
  CHECK(!strcmp(ot_status_name(OT_LOST), "lost") && !strcmp(ot_status_name(99), "unknown"));
  CHECK(!strcmp(ot_outcome_name(OT_NOT_SENT), "not sent"));
  ot_call_free(NULL), ot_result_free(NULL), ot_pipe_free(NULL), ot_session_close(NULL);
  ot_stream_close(NULL), ot_listener_close(NULL), ot_close(NULL, 0, NULL);
  close_it(db);
}

static void nobody_is_let_in_without_a_password(const char *url) {
  ot_client *db = NULL;
  ot_error err = OT_ERROR_INIT;
  char wrong[512];
  snprintf(wrong, sizeof wrong, "%s%cpassword=wrong", url, strchr(url, '?') ? '&' : '?');
  ot_status status = ot_pg_connect(wrong, OT_NTS, 120000, &db, &err);
  SAYS(OT_SERVER, status, err);
  CHECK(!db && err.outcome == OT_NOT_SENT && !strcmp(err.code, "28P01") && !strstr(err.message, "wrong"));
  status = ot_pg_connect("postgres://me@127.0.0.1:1/x", OT_NTS, 120000, &db, &err);
  SAYS(OT_CONNECT, status, err);
  CHECK(!db && err.outcome == OT_NOT_SENT && strstr(err.message, "127.0.0.1:1"));
}

static void statements_answer_their_own_callers(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  enum { COUNT = 1000 };
  ot_call *calls[COUNT];
  for (int64_t i = 0; i < COUNT; i++) {
    const char *sql = i % 50 == 0 ? "select $1::int / 0" : "select $1::int";
    CHECK(ot_query(db, sql, OT_NTS, OT_ARGS(OT_I64(i)), NULL, &calls[i]) == OT_OK);
  }
  for (int64_t i = 0; i < COUNT; i++) {
    ot_result *r = NULL;
    int64_t value = -1;
    ot_status status = ot_wait(calls[i], -1, &r, &err);
    if (i % 50 == 0) {
      CHECK(status == OT_SERVER && !strcmp(err.code, "22012") && err.outcome == OT_REJECTED);
    } else {
      SAYS(OT_OK, status, err);
      CHECK(ot_get_i64(r, 0, 0, &value) == OT_OK && value == i);
      ot_result_free(r);
    }
  }
  close_it(db);
}

static void a_pipeline_is_atomic_and_names_its_cause(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_pipe *pipe = NULL;
  ot_result *r = NULL;
  const ot_result *part = NULL;
  int64_t value;
  run(db, "create table account (id int primary key, balance int check (balance >= 0))");
  run(db, "insert into account values (1, 10), (2, 0)");
  for (int64_t amount = 7; amount <= 14; amount += 7) {
    CHECK(ot_pipe_begin(db, NULL, &pipe) == OT_OK);
    CHECK(!ot_pipe_query(pipe, OT_SQL("update account set balance = balance + $1 where id = 2 returning balance"), OT_ARGS(OT_I64(amount))));
    CHECK(!ot_pipe_query(pipe, OT_SQL("update account set balance = balance - $1 where id = 1 returning balance"), OT_ARGS(OT_I64(amount))));
    ot_status status = ot_pipe_run(pipe, &r, &err);
    if (amount == 7) {
      SAYS(OT_OK, status, err);
      CHECK(ot_parts(r) == 2 && ot_part(r, 1, &part) == OT_OK && ot_part(r, 2, &part) == OT_RANGE);
      CHECK(ot_get_i64(part, 0, 0, &value) == OT_OK && value == 3);
      ot_result_free(r);
    } else {
      SAYS(OT_SERVER, status, err);
      CHECK(!r && err.statement == 2 && err.outcome == OT_REJECTED && !strcmp(err.code, "23514"));
    }
  }
  CHECK(number(db, "select balance from account where id = 2") == 7);
  /* What is refused here is said of all of it. */
  CHECK(!ot_pipe_begin(db, NULL, &pipe) && !ot_pipe_query(pipe, OT_SQL("delete from account"), OT_NO_ARGS));
  CHECK(!ot_pipe_query(pipe, OT_SQL("vacuum account"), OT_NO_ARGS));
  SAYS(OT_REFUSED, ot_pipe_run(pipe, NULL, &err), err);
  CHECK(err.statement == 2 && err.outcome == OT_NOT_SENT && number(db, "select count(*) from account") == 2);
  CHECK(!ot_pipe_begin(db, NULL, &pipe));
  SAYS(OT_OK, ot_pipe_run(pipe, &r, &err), err);
  CHECK(ot_parts(r) == 0);
  ot_result_free(r);
  CHECK(!ot_pipe_begin(db, NULL, &pipe) && !ot_pipe_query(pipe, OT_SQL("delete from account"), OT_NO_ARGS));
  ot_pipe_free(pipe);
  CHECK(number(db, "select count(*) from account") == 2);
  close_it(db);
}

static void segments_stand_or_fall_by_themselves(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_pipe *pipe = NULL;
  ot_call *calls[3];
  run(db, "create table log (n int primary key)");
  CHECK(!ot_pipe_begin(db, NULL, &pipe));
  for (int64_t i = 0; i < 3; i++) {
    CHECK(!ot_pipe_query(pipe, OT_SQL("insert into log values ($1)"), OT_ARGS(OT_I64(i))));
    CHECK(!ot_pipe_query(pipe, OT_SQL("insert into log values ($1)"), OT_ARGS(OT_I64(i == 1 ? 0 : i + 10))));
    if (i < 2) CHECK(!ot_pipe_sync(pipe, &calls[i]));
  }
  CHECK(!ot_pipe_send(pipe, &calls[2]));
  SAYS(OT_OK, end_of(calls[0], &err), err);
  SAYS(OT_SERVER, end_of(calls[1], &err), err);
  CHECK(err.statement == 2 && err.outcome == OT_REJECTED);
  SAYS(OT_OK, end_of(calls[2], &err), err);
  CHECK(number(db, "select sum(n) from log") == 0 + 10 + 2 + 12);
  /* One that was left tells the callers of its segments. */
  CHECK(!ot_pipe_begin(db, NULL, &pipe) && !ot_pipe_query(pipe, OT_SQL("delete from log"), OT_NO_ARGS));
  CHECK(!ot_pipe_sync(pipe, &calls[0]));
  ot_pipe_free(pipe);
  SAYS(OT_REFUSED, end_of(calls[0], &err), err);
  CHECK(number(db, "select count(*) from log") == 4);
  close_it(db);
}

static void a_batch_stores_all_or_nothing(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_call *call = NULL;
  ot_result *r = NULL;
  enum { SETS = 1000 };
  static ot_value args[2 * SETS];
  run(db, "create table b (id int primary key, name text)");
  for (int i = 0; i < SETS; i++) args[2 * i] = OT_I64(i), args[2 * i + 1] = OT_STR("x");
  CHECK(!ot_batch(db, OT_SQL("insert into b values ($1, $2) returning id"), args, 2, SETS, NULL, &call));
  SAYS(OT_OK, ot_wait(call, -1, &r, &err), err);
  int64_t last = 0;
  CHECK(ot_affected(r) == SETS && ot_rows(r) == SETS && !ot_get_i64(r, SETS - 1, 0, &last) && last == SETS - 1);
  ot_result_free(r);
  for (int i = 0; i < SETS; i++) args[2 * i] = OT_I64(i + SETS - 1);
  CHECK(!ot_batch(db, OT_SQL("insert into b values ($1, $2)"), args, 2, SETS, NULL, &call));
  SAYS(OT_SERVER, end_of(call, &err), err);
  CHECK(err.outcome == OT_REJECTED && number(db, "select count(*) from b") == SETS);
  CHECK(ot_batch(db, OT_SQL("insert into b values ($1, $2)"), args, 2, 0, NULL, &call) == OT_MISUSE);
  close_it(db);
}

static void a_million_statements_are_bounded(const char *url) {
  char small[512];
  snprintf(small, sizeof small, "%s&connections_max=1&in_flight_max=100&queue_max=1000&waiting_max=500", url);
  ot_client *db = open_pg(small);
  ot_error err = OT_ERROR_INIT;
  ot_pipe *pipe = NULL;
  /* Nobody reads meanwhile. */
  enum { COUNT = 20000 };
  ot_call **calls = (ot_call **)calloc(COUNT, sizeof *calls);
  int done = 0, refused = 0;
  for (int i = 0; i < COUNT; i++) CHECK(!ot_query(db, OT_SQL("select repeat('x', 100)"), OT_NO_ARGS, NULL, &calls[i]));
  for (int i = 0; i < COUNT; i++) {
    ot_status status = ot_wait(calls[i], -1, NULL, &err);
    if (status == OT_OK) {
      done++;
    } else {
      CHECK(err.outcome == OT_NOT_SENT);
      refused++;
    }
  }
  CHECK(done > 0 && done <= 1600 && refused == COUNT - done);
  free(calls);
  CHECK(!ot_pipe_begin(db, NULL, &pipe));
  for (int i = 0; i < 1000; i++) CHECK(!ot_pipe_query(pipe, OT_SQL("select 1"), OT_NO_ARGS));
  SAYS(OT_REFUSED, ot_pipe_run(pipe, NULL, &err), err);
  CHECK(!strcmp(err.code, "pipeline_too_long") && number(db, "select 1") == 1);
  /* Replies that no socket holds, of statements that none holds. */
  char *big = (char *)malloc(1 << 20);
  memset(big, 'y', 1 << 20);
  ot_call *large[32];
  for (int i = 0; i < 32; i++) CHECK(!ot_query(db, OT_SQL("select $1 || $1"), OT_ARGS(OT_TEXT(big, 1 << 20)), NULL, &large[i]));
  for (int i = 0; i < 32; i++) {
    ot_result *r = NULL;
    ot_text text;
    SAYS(OT_OK, ot_wait(large[i], -1, &r, &err), err);
    CHECK(!ot_get_text(r, 0, 0, &text) && text.len == 2 << 20);
    ot_result_free(r);
  }
  free(big);
  close_it(db);
}

static void a_late_statement_is_cancelled(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_options options = OT_OPTIONS_INIT;
  ot_call *call = NULL, *other = NULL;
  options.timeout_ms = 100;
  CHECK(!ot_query(db, OT_SQL("select pg_sleep(600), 'late'"), OT_NO_ARGS, &options, &call));
  SAYS(OT_TIMEOUT, end_of(call, &err), err);
  CHECK(err.outcome == OT_UNKNOWN && !strcmp(err.code, "timeout"));
  while (number(db, "select count(*) from pg_stat_activity where state = 'active' and query like '%late%' and datname = current_database() and pid <> pg_backend_pid()")) {
  }
  /* Who is given up is cancelled, too, and what comes behind it goes on. */
  CHECK(!ot_query(db, OT_SQL("select pg_sleep(600), 'gone'"), OT_NO_ARGS, NULL, &call));
  CHECK(!ot_flush(db, &err) && !ot_query(db, OT_SQL("select 1"), OT_NO_ARGS, NULL, &other));
  CHECK(ot_wait(call, 0, NULL, &err) == OT_AGAIN && !ot_call_is_over(call));
  ot_call_free(call);
  SAYS(OT_OK, end_of(other, &err), err);
  while (number(db, "select count(*) from pg_stat_activity where state = 'active' and query like '%gone%' and datname = current_database() and pid <> pg_backend_pid()")) {
  }
  close_it(db);
}

static void a_transaction_commits_what_stands(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_session *s = NULL;
  ot_call *call = NULL, *failed = NULL, *released = NULL;
  run(db, "create table t (n int primary key)");
  CHECK(!ot_session_open(db, &s) && !ot_begin(s, NULL) && ot_begin(s, NULL) == OT_MISUSE);
  SAYS(OT_OK, ot_session_run(s, OT_SQL("insert into t values (1)"), OT_NO_ARGS, NULL, &err), err);
  CHECK(!ot_savepoint(s));
  CHECK(!ot_session_query(s, OT_SQL("insert into t values (1)"), OT_NO_ARGS, NULL, &failed));
  CHECK(!ot_release(s, &released) && ot_release(s, &call) == OT_MISUSE);
  SAYS(OT_SERVER, end_of(failed, &err), err);
  SAYS(OT_ABORTED, end_of(released, &err), err);
  CHECK(err.outcome == OT_REJECTED && !strcmp(err.code, "rolled_back"));
  CHECK(!ot_savepoint(s));
  SAYS(OT_OK, ot_session_run(s, OT_SQL("insert into t values (2)"), OT_NO_ARGS, NULL, &err), err);
  CHECK(!ot_undo(s) && ot_undo(s) == OT_MISUSE && !ot_savepoint(s));
  CHECK(!ot_session_query(s, OT_SQL("insert into t values (3)"), OT_NO_ARGS, NULL, &call));
  CHECK(!ot_release(s, &released) && !ot_commit(s, &failed));
  SAYS(OT_OK, end_of(call, &err), err);
  SAYS(OT_OK, end_of(released, &err), err);
  SAYS(OT_OK, end_of(failed, &err), err);
  CHECK(number(db, "select sum(n) from t") == 4);
  /* Another one on the same session, which fails. */
  CHECK(!ot_begin(s, NULL) && ot_commit(s, NULL) == OT_MISUSE);
  CHECK(!ot_session_query(s, OT_SQL("insert into t values (5)"), OT_NO_ARGS, NULL, &call));
  CHECK(!ot_session_query(s, OT_SQL("no sql"), OT_NO_ARGS, NULL, &failed) && !ot_commit(s, &released));
  SAYS(OT_OK, end_of(call, &err), err);
  SAYS(OT_SERVER, end_of(failed, &err), err);
  CHECK(end_of(released, &err) == OT_ABORTED && err.outcome == OT_REJECTED && !err.runs_again);
  CHECK(ot_commit(s, &call) == OT_MISUSE);
  /* And one that is left. */
  CHECK(!ot_begin(s, NULL));
  SAYS(OT_OK, ot_session_run(s, OT_SQL("insert into t values (6)"), OT_NO_ARGS, NULL, &err), err);
  ot_session_close(s);
  while (number(db, "select count(*) from pg_stat_activity where state like 'idle in%' and datname = current_database()")) {
  }
  CHECK(number(db, "select sum(n) from t") == 4);
  close_it(db);
}

static void a_session_keeps_its_state_and_leaves_none(const char *url) {
  char one[512];
  snprintf(one, sizeof one, "%s%cconnections_max=1", url, strchr(url, '?') ? '&' : '?');
  ot_client *db = open_pg(one);
  ot_error err = OT_ERROR_INIT;
  ot_session *s = NULL;
  ot_result *r = NULL;
  ot_options script = OT_OPTIONS_INIT;
  ot_call *call = NULL;
  ot_text text;
  script.flags = OT_SCRIPT;
  CHECK(!ot_session_open(db, &s));
  CHECK(!ot_session_query(s, OT_SQL("set application_name to 'mine'; create temp table x as select 1 as n; select 2"), OT_NO_ARGS, &script, &call));
  SAYS(OT_OK, ot_wait(call, -1, &r, &err), err);
  CHECK(!ot_tag(r, &text) && is_text(text, "SELECT 1"));
  ot_result_free(r);
  SAYS(OT_OK, ot_session_run(s, OT_SQL("select current_setting('application_name'), n from x"), OT_NO_ARGS, &r, &err), err);
  CHECK(!ot_get_text(r, 0, 0, &text) && is_text(text, "mine"));
  ot_result_free(r);
  /* A script in a transaction whose BEGIN was not answered yet. */
  CHECK(!ot_begin(s, NULL) && !ot_session_query(s, OT_SQL("select 1; select 2"), OT_NO_ARGS, &script, &call));
  SAYS(OT_OK, end_of(call, &err), err);
  CHECK(!ot_rollback(s, NULL));
  ot_session_close(s);
  SAYS(OT_SERVER, ot_run(db, OT_SQL("select n from x"), OT_NO_ARGS, NULL, &err), err);
  CHECK(number(db, "select count(*) from pg_settings where name = 'application_name' and setting = 'mine'") == 0);
  close_it(db);
}

static ot_status collide(ot_session *s, void *user) {
  ot_client *other = ((ot_client **)user)[0];
  int *attempts = ((int **)user)[1];
  ot_error err = OT_ERROR_INIT;
  ot_status status = ot_session_run(s, OT_SQL("select n from c"), OT_NO_ARGS, NULL, &err);
  if ((*attempts)++ == 0) run(other, "update c set n = n + 10");
  return status ? status : ot_session_run(s, OT_SQL("update c set n = n + 1"), OT_NO_ARGS, NULL, &err);
}

static ot_status fail(ot_session *s, void *user) {
  ot_error err = OT_ERROR_INIT;
  ++*(int *)user;
  ot_session_run(s, OT_SQL("update c set n = 0"), OT_NO_ARGS, NULL, &err);
  return 77;
}

static void a_conflict_is_run_again(const char *url) {
  ot_client *db = open_pg(url), *other = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_modes modes = OT_MODES_INIT;
  int attempts = 0;
  void *user[] = {other, &attempts};
  run(db, "create table c (n int)");
  run(db, "insert into c values (0)");
  modes.isolation = OT_SERIALIZABLE;
  SAYS(OT_OK, ot_transact(db, &modes, collide, user, &err), err);
  CHECK(attempts == 2 && number(db, "select n from c") == 11);
  attempts = 0;
  CHECK(ot_transact(db, NULL, fail, &attempts, &err) == 77 && attempts == 1);
  CHECK(number(db, "select n from c") == 11);
  CHECK(ot_transact(db, NULL, NULL, NULL, &err) == OT_MISUSE);
  close_it(db), close_it(other);
}

static void a_stream_is_taken_as_it_comes(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_session *s = NULL;
  ot_stream *stream = NULL;
  ot_result *r = NULL;
  ot_call *call = NULL;
  int64_t rows = 0, value = 0;
  ot_status status;
  CHECK(!ot_session_open(db, &s));
  CHECK(!ot_stream_open(s, OT_SQL("select n, repeat('x', 100) from generate_series(1, $1::int) n"), OT_ARGS(OT_I64(100000)), &stream));
  CHECK(!ot_session_query(s, OT_SQL("select 1"), OT_NO_ARGS, NULL, &call));
  SAYS(OT_REFUSED, end_of(call, &err), err);
  while ((status = ot_stream_next(stream, -1, &r, &err)) == OT_OK) {
    for (size_t row = 0; row < ot_rows(r); row++) CHECK(!ot_get_i64(r, row, 0, &value) && value == ++rows);
    ot_result_free(r);
  }
  SAYS(OT_DONE, status, err);
  CHECK(rows == 100000 && ot_stream_next(stream, -1, &r, &err) == OT_DONE);
  ot_stream_close(stream);
  /* One that is left early, and one that fails. */
  CHECK(!ot_stream_open(s, OT_SQL("select repeat('x', 1000) from generate_series(1, 1000000)"), OT_NO_ARGS, &stream));
  SAYS(OT_OK, ot_stream_next(stream, -1, &r, &err), err);
  ot_result_free(r);
  ot_stream_close(stream);
  SAYS(OT_OK, ot_session_run(s, OT_SQL("select 1"), OT_NO_ARGS, NULL, &err), err);
  CHECK(!ot_stream_open(s, OT_SQL("select 1 / (3 - n) from generate_series(1, 5) n"), OT_NO_ARGS, &stream));
  while ((status = ot_stream_next(stream, -1, &r, &err)) == OT_OK) ot_result_free(r);
  CHECK(status == OT_SERVER && !strcmp(err.code, "22012") && err.outcome == OT_REJECTED);
  ot_stream_close(stream);
  CHECK(!ot_begin(s, NULL) && !ot_stream_open(s, OT_SQL("select n from generate_series(1, 100000) n"), OT_NO_ARGS, &stream));
  SAYS(OT_OK, ot_stream_next(stream, -1, &r, &err), err);
  ot_result_free(r);
  ot_stream_close(stream);
  CHECK(!ot_commit(s, &call));
  SAYS(OT_OK, end_of(call, &err), err);
  /* While one is open nothing ends its transaction; who closes the session leaves both. */
  CHECK(!ot_begin(s, NULL) && !ot_stream_open(s, OT_SQL("select repeat('x', 1000) from generate_series(1, 100000)"), OT_NO_ARGS, &stream));
  SAYS(OT_OK, ot_stream_next(stream, -1, &r, &err), err);
  ot_result_free(r);
  CHECK(!ot_commit(s, &call));
  SAYS(OT_REFUSED, end_of(call, &err), err);
  CHECK(!strcmp(err.code, "stream_open") && ot_begin(s, NULL) == OT_MISUSE);
  ot_session_close(s);
  while (number(db, "select count(*) from pg_stat_activity where state like 'idle in%' and datname = current_database()")) {
  }
  ot_stream_close(stream);
  ot_copy *copy = NULL;
  size_t written;
  run(db, "create table left_copy (n int)");
  CHECK(!ot_session_open(db, &s) && !ot_copy_in(s, OT_SQL("copy left_copy from stdin"), &copy));
  SAYS(OT_OK, ot_copy_write(copy, "1\n", 2, -1, &written, &err), err);
  ot_session_close(s);
  CHECK(number(db, "select count(*) from left_copy") == 0);
  CHECK(!ot_copy_fail(copy, "", 0, NULL));
  close_it(db);
}

static void a_copy_stores_all_or_nothing(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_session *s = NULL;
  ot_copy *copy = NULL;
  ot_stream *stream = NULL;
  ot_call *call = NULL;
  ot_result *r = NULL;
  size_t written = 0, bytes = 0;
  ot_text data;
  ot_status status;
  run(db, "create table k (n int, t text)");
  CHECK(!ot_session_open(db, &s));
  for (int in_transaction = 0; in_transaction < 2; in_transaction++) {
    if (in_transaction) CHECK(!ot_begin(s, NULL));
    CHECK(!ot_copy_in(s, OT_SQL("copy k from stdin"), &copy));
    for (int i = 0; i < 20000; i++) {
      char line[200];
      int len = snprintf(line, sizeof line, "%d\t%0150d\n", i, i);
      SAYS(OT_OK, ot_copy_write(copy, line, (size_t)len, -1, &written, &err), err);
      CHECK(written == (size_t)len);
    }
    SAYS(OT_OK, ot_copy_end(copy, -1, &call, &err), err);
    SAYS(OT_OK, ot_wait(call, -1, &r, &err), err);
    CHECK(ot_affected(r) == 20000);
    ot_result_free(r);
    if (in_transaction) {
      CHECK(!ot_commit(s, &call));
      SAYS(OT_OK, end_of(call, &err), err);
    }
  }
  CHECK(number(db, "select count(*) from k") == 40000);
  CHECK(!ot_copy_in(s, OT_SQL("copy k from stdin"), &copy));
  SAYS(OT_OK, ot_copy_write(copy, "1\ta\n", 4, -1, &written, &err), err);
  CHECK(!ot_copy_fail(copy, OT_SQL("changed my mind"), &call));
  SAYS(OT_SERVER, end_of(call, &err), err);
  CHECK(err.outcome == OT_REJECTED && strstr(err.message, "changed my mind"));
  CHECK(!ot_copy_in(s, OT_SQL("copy k from stdin"), &copy));
  SAYS(OT_OK, ot_copy_write(copy, "no number\ta\n", 12, -1, &written, &err), err);
  SAYS(OT_OK, ot_copy_end(copy, -1, &call, &err), err);
  SAYS(OT_SERVER, end_of(call, &err), err);
  CHECK(!strcmp(err.code, "22P02") && err.outcome == OT_REJECTED);
  CHECK(!ot_copy_in(s, OT_SQL("select 1"), &copy) && !ot_copy_fail(copy, "", 0, &call));
  SAYS(OT_REFUSED, end_of(call, &err), err);
  CHECK(number(db, "select count(*) from k") == 40000);
  CHECK(!ot_copy_out(s, OT_SQL("copy (select n from k order by n limit 1000) to stdout"), &stream));
  while ((status = ot_stream_next(stream, -1, &r, &err)) == OT_OK) {
    CHECK(!ot_copy_data(r, &data));
    bytes += data.len;
    ot_result_free(r);
  }
  SAYS(OT_DONE, status, err);
  CHECK(bytes > 2000);
  ot_stream_close(stream);
  SAYS(OT_OK, ot_session_run(s, OT_SQL("select 1"), OT_NO_ARGS, NULL, &err), err);
  ot_session_close(s);
  close_it(db);
}

static void notifications_are_heard(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_listener *l = NULL;
  ot_event event = OT_EVENT_INIT;
  ot_text channels[] = {{"a b", OT_NTS}, {"c", 1}};
  CHECK(ot_listen(db, channels, 0, &l) == OT_MISUSE && !ot_listen(db, channels, 2, &l));
  SAYS(OT_OK, ot_listener_wait(l, 120000, &err), err);
  CHECK(ot_listener_next(l, 0, &event, &err) == OT_AGAIN);
  run(db, "select pg_notify('a b', 'first'), pg_notify('c', '')");
  SAYS(OT_OK, ot_listener_next(l, -1, &event, &err), err);
  CHECK(event.kind == OT_NOTIFICATION && is_text(event.channel, "a b") && is_text(event.payload, "first"));
  CHECK(event.process_id > 0);
  SAYS(OT_OK, ot_listener_next(l, -1, &event, &err), err);
  CHECK(is_text(event.channel, "c") && event.payload.len == 0);
  /* Its connection is lost: it listens again, and says that others may be missing. */
  run(db, "select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen %' and datname = current_database()");
  SAYS(OT_OK, ot_listener_next(l, -1, &event, &err), err);
  CHECK(event.kind == OT_GAP);
  run(db, "notify c, 'again'");
  SAYS(OT_OK, ot_listener_next(l, -1, &event, &err), err);
  CHECK(event.kind == OT_NOTIFICATION && is_text(event.payload, "again"));
  ot_listener_close(l);
  close_it(db);
}

static void a_lost_connection_says_what_may_have_run(const char *url) {
  ot_client *db = open_pg(url), *killer = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_options may = OT_OPTIONS_INIT;
  ot_call *call = NULL, *again = NULL;
  const char *kill_it = "select pg_terminate_backend(pid) from pg_stat_activity where query like '%slept%' and datname = current_database() and pid <> pg_backend_pid()";
  const char *runs = "select count(*) from pg_stat_activity where query like '%slept%' and datname = current_database() and state = 'active' and pid <> pg_backend_pid()";
  may.flags = OT_REPEATABLE;
  CHECK(!ot_query(db, OT_SQL("select pg_sleep(600), 'slept'"), OT_NO_ARGS, NULL, &call) && !ot_flush(db, &err));
  while (number(killer, runs) == 0) {
  }
  run(killer, kill_it);
  SAYS(OT_LOST, end_of(call, &err), err);
  CHECK(err.outcome == OT_UNKNOWN && strstr(err.message, "terminating connection"));
  CHECK(number(db, "select 1") == 1);
  run(db, "create table once (n int)");
  CHECK(!ot_query(db, OT_SQL("select case when (select count(*) from once) = 0 then pg_sleep(600) end, 'slept'"), OT_NO_ARGS, &may, &again) && !ot_flush(db, &err));
  while (number(killer, runs) == 0) {
  }
  run(killer, "insert into once values (1)");
  run(killer, kill_it);
  SAYS(OT_OK, end_of(again, &err), err);
  close_it(db), close_it(killer);
}

/* A commit and a release speak of all that they would have kept: something of it was sent. */
static void the_end_of_a_lost_transaction_speaks_of_all_of_it(const char *url) {
  ot_client *db = open_pg(url), *killer = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  for (int releases = 0; releases < 2; releases++) {
    ot_session *s = NULL;
    ot_call *told = NULL, *lost = NULL, *ended = NULL;
    CHECK(!ot_session_open(db, &s) && !ot_begin(s, NULL));
    if (releases) CHECK(!ot_savepoint(s));
    CHECK(!ot_session_query(s, OT_SQL("select pg_backend_pid()"), OT_NO_ARGS, NULL, &told));
    ot_result *result = NULL;
    int64_t pid = 0;
    SAYS(OT_OK, ot_wait(told, -1, &result, &err), err);
    SAYS(OT_OK, ot_get_i64(result, 0, 0, &pid), err);
    ot_result_free(result);
    char kill_it[100];
    snprintf(kill_it, sizeof kill_it, "select pg_terminate_backend(%lld)", (long long)pid);
    run(killer, kill_it);
    CHECK(!ot_session_query(s, OT_SQL("select 1"), OT_NO_ARGS, NULL, &lost));
    SAYS(OT_LOST, end_of(lost, &err), err);
    CHECK(!(releases ? ot_release(s, &ended) : ot_commit(s, &ended)));
    SAYS(OT_LOST, end_of(ended, &err), err);
    CHECK(err.outcome == OT_REJECTED);
    ot_session_close(s);
  }
  close_it(db), close_it(killer);
}

static int told;
static void count_one(void *user) { told += *(int *)user; }
static void ask_more(void *user) {
  ot_error err = OT_ERROR_INIT;
  CHECK(number((ot_client *)user, "select 5") == 5);
  told += 100;
  (void)err;
}

static void a_loop_drives_it(const char *url) {
  ot_client *db = NULL;
  ot_error err = OT_ERROR_INIT;
  ot_poll loop = {{0}, 0};
  ot_call *calls[3], *dropped;
  int one = 1, ten = 10;
  SAYS(OT_OK, ot_pg_open(url, OT_NTS, &db, &err), err);
  CHECK(ot_fd(db) >= 0 && ot_events(db) == POLLIN && !ot_poll_add(&loop, db));
  for (int i = 0; i < 3; i++) CHECK(!ot_query(db, OT_SQL("select 1"), OT_NO_ARGS, NULL, &calls[i]));
  CHECK(!ot_query(db, OT_SQL("select 1"), OT_NO_ARGS, NULL, &dropped));
  CHECK(!ot_call_then(calls[0], count_one, &one) && !ot_call_then(calls[1], ask_more, db));
  CHECK(!ot_call_then(calls[2], count_one, &ten) && !ot_call_then(dropped, count_one, &ten));
  ot_call_free(dropped);
  while (told < 111) CHECK(ot_poll_once(&loop, 120000) >= 0);
  for (int i = 0; i < 3; i++) {
    CHECK(ot_call_is_over(calls[i]));
    SAYS(OT_OK, ot_wait(calls[i], 0, NULL, &err), err);
  }
  /* One that is over already is told of with the next turn. */
  CHECK(!ot_query(db, OT_SQL("begin"), OT_NO_ARGS, NULL, &calls[0]) && !ot_call_then(calls[0], count_one, &one));
  CHECK(told == 111 && !ot_drive(db, 0, &err) && told == 112);
  ot_call_free(calls[0]);
  CHECK(ot_poll_once(&loop, 0) >= 0 && told == 112);
  ot_poll_remove(&loop, db);
  CHECK(loop.count == 0);
  close_it(db);
}

static void another_process_is_refused(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_call *call = NULL, *open = NULL;
  int status = 0;
  CHECK(!ot_query(db, OT_SQL("select 1"), OT_NO_ARGS, NULL, &open));
  pid_t child = fork();
  if (child == 0) {
    if (ot_query(db, OT_SQL("select 1"), OT_NO_ARGS, NULL, &call) != OT_FORKED) _exit(1);
    if (ot_wait(open, -1, NULL, &err) != OT_FORKED || err.outcome != OT_NOT_SENT) _exit(2);
    if (ot_drive(db, 0, &err) != OT_FORKED || ot_fd(db) != -1) _exit(3);
    ot_call_free(open);
    _exit(ot_close(db, -1, &err) == OT_OK ? 0 : 4);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  SAYS(OT_OK, end_of(open, &err), err);
  CHECK(number(db, "select 1") == 1);
  close_it(db);
}

static void closing_waits_for_answers_or_cuts(const char *url) {
  ot_client *db = open_pg(url);
  ot_error err = OT_ERROR_INIT;
  ot_call *call = NULL, *late = NULL;
  ot_session *s = NULL;
  CHECK(!ot_query(db, OT_SQL("select 1"), OT_NO_ARGS, NULL, &call));
  SAYS(OT_OK, ot_close(db, 120000, &err), err);
  CHECK(ot_call_is_over(call));
  SAYS(OT_OK, ot_wait(call, 0, NULL, &err), err);
  db = open_pg(url);
  CHECK(!ot_query(db, OT_SQL("select pg_sleep(600)"), OT_NO_ARGS, NULL, &late) && !ot_flush(db, &err));
  CHECK(!ot_session_open(db, &s));
  SAYS(OT_TIMEOUT, ot_close(db, 50, &err), err);
  SAYS(OT_LOST, end_of(late, &err), err);
  CHECK(err.outcome == OT_UNKNOWN);
  CHECK(!ot_session_query(s, OT_SQL("select 1"), OT_NO_ARGS, NULL, &call));
  CHECK(end_of(call, &err) != OT_OK && err.outcome == OT_NOT_SENT);
  ot_session_close(s);
}

int main(int argc, char **argv) {
  const named_test tests[] = {
      TEST(values_come_as_they_were_sent), TEST(an_error_says_its_outcome),
      TEST(what_is_wrong_is_said_and_nothing_is_sent), TEST(nobody_is_let_in_without_a_password),
      TEST(statements_answer_their_own_callers), TEST(a_pipeline_is_atomic_and_names_its_cause),
      TEST(segments_stand_or_fall_by_themselves), TEST(a_batch_stores_all_or_nothing),
      TEST(a_million_statements_are_bounded), TEST(a_late_statement_is_cancelled),
      TEST(a_transaction_commits_what_stands), TEST(a_session_keeps_its_state_and_leaves_none),
      TEST(a_conflict_is_run_again), TEST(a_stream_is_taken_as_it_comes),
      TEST(a_copy_stores_all_or_nothing), TEST(notifications_are_heard),
      TEST(a_lost_connection_says_what_may_have_run), TEST(the_end_of_a_lost_transaction_speaks_of_all_of_it), TEST(a_loop_drives_it),
      TEST(another_process_is_refused), TEST(closing_waits_for_answers_or_cuts),
  };
  return run_tests(tests, sizeof tests / sizeof *tests, argc, argv);
}
