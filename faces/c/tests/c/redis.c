/* What the header promises of Redis. */
#include "check.h"

static void commands_answer_their_own_callers(const char *url) {
  ot_client *db = open_redis(url);
  ot_error err = OT_ERROR_INIT;
  enum { COUNT = 2000 };
  static ot_call *calls[COUNT];
  ot_result *r = NULL;
  const ot_reply *reply = NULL;
  ot_text text;
  int64_t value;
  double real;
  for (int64_t i = 0; i < COUNT; i++) {
    ot_value set[] = {OT_STR("SET"), OT_TEXT("key", 3), OT_I64(i)}, get[] = {OT_STR("GET"), OT_STR("key")};
    CHECK(!ot_command(db, i % 2 ? get : set, i % 2 ? 2 : 3, NULL, &calls[i]));
  }
  for (int64_t i = 0; i < COUNT; i++) {
    SAYS(OT_OK, ot_wait(calls[i], -1, &r, &err), err);
    CHECK(!ot_result_reply(r, 0, &reply) && ot_result_reply(r, 1, &reply) == OT_RANGE);
    if (i % 2) {
      CHECK(ot_reply_kind(reply) == OT_REPLY_STRING && !ot_reply_i64(reply, &value) && value == i - 1);
    } else {
      CHECK(ot_reply_kind(reply) == OT_REPLY_STATUS && !ot_reply_text(reply, &text) && is_text(text, "OK"));
    }
    ot_result_free(r);
  }
  CHECK(!ot_command(db, OT_ARGS(OT_STR("GET"), OT_STR("none")), NULL, &calls[0]));
  SAYS(OT_OK, ot_wait(calls[0], -1, &r, &err), err);
  CHECK(!ot_result_reply(r, 0, &reply) && ot_reply_kind(reply) == OT_REPLY_NIL);
  CHECK(ot_reply_text(reply, &text) == OT_NULL && ot_reply_f64(reply, &real) == OT_NULL);
  ot_result_free(r);
  CHECK(!ot_command(db, OT_ARGS(OT_STR("INCRBYFLOAT"), OT_STR("f"), OT_F64(0.5)), NULL, &calls[0]));
  SAYS(OT_OK, ot_wait(calls[0], -1, &r, &err), err);
  CHECK(!ot_result_reply(r, 0, &reply) && !ot_reply_f64(reply, &real) && real == 0.5);
  CHECK(ot_reply_at(reply, 0, &reply) == OT_RANGE);
  ot_result_free(r);
  close_it(db);
}

static void an_error_says_its_outcome(const char *url) {
  ot_client *db = open_redis(url);
  ot_error err = OT_ERROR_INIT;
  ot_call *call = NULL;
  CHECK(!ot_command(db, OT_ARGS(OT_STR("RPUSH"), OT_STR("l"), OT_STR("a")), NULL, &call));
  SAYS(OT_OK, ot_wait(call, -1, NULL, &err), err);
  CHECK(!ot_command(db, OT_ARGS(OT_STR("INCR"), OT_STR("l")), NULL, &call));
  SAYS(OT_SERVER, ot_wait(call, -1, NULL, &err), err);
  CHECK(!strcmp(err.code, "WRONGTYPE") && err.outcome == OT_REJECTED);
  CHECK(!ot_command(db, OT_ARGS(OT_STR("EVAL"), OT_STR("redis.call('SET', KEYS[1], 1) return redis.call('nope')"), OT_I64(1), OT_STR("s")), NULL, &call));
  SAYS(OT_SERVER, ot_wait(call, -1, NULL, &err), err);
  CHECK(err.outcome == OT_UNKNOWN);
  const char *refused[] = {"SELECT", "BLPOP", "MULTI", "SUBSCRIBE"};
  for (int i = 0; i < 4; i++) {
    CHECK(!ot_command(db, OT_ARGS(OT_STR(refused[i]), OT_STR("1"), OT_STR("0")), NULL, &call));
    SAYS(OT_REFUSED, ot_wait(call, -1, NULL, &err), err);
    CHECK(err.outcome == OT_NOT_SENT);
  }
  CHECK(!ot_command(db, OT_ARGS(OT_STR("SET"), OT_STR("a"), OT_NIL), NULL, &call));
  SAYS(OT_REFUSED, ot_wait(call, -1, NULL, &err), err);
  CHECK(ot_command(db, NULL, 0, NULL, &call) == OT_MISUSE);
  CHECK(!ot_query(db, OT_SQL("select 1"), OT_NO_ARGS, NULL, &call));
  SAYS(OT_REFUSED, ot_wait(call, -1, NULL, &err), err);
  close_it(db);
}

static void pipelines_have_a_reply_for_each(const char *url) {
  ot_client *db = open_redis(url);
  ot_error err = OT_ERROR_INIT;
  ot_options atomic = OT_OPTIONS_INIT;
  ot_pipe *pipe = NULL;
  ot_result *r = NULL;
  const ot_reply *reply = NULL, *item = NULL;
  ot_text text;
  int64_t value;
  atomic.flags = OT_ATOMIC;
  for (int is_atomic = 0; is_atomic < 2; is_atomic++) {
    CHECK(!ot_pipe_begin(db, is_atomic ? &atomic : NULL, &pipe));
    CHECK(!ot_pipe_command(pipe, OT_ARGS(OT_STR("SET"), OT_STR("p"), OT_STR("x"))));
    CHECK(!ot_pipe_command(pipe, OT_ARGS(OT_STR("INCR"), OT_STR("p"))));
    CHECK(!ot_pipe_command(pipe, OT_ARGS(OT_STR("RPUSH"), OT_STR("q"), OT_I64(1), OT_I64(2))));
    CHECK(!ot_pipe_command(pipe, OT_ARGS(OT_STR("LRANGE"), OT_STR("q"), OT_I64(0), OT_I64(1))));
    SAYS(OT_OK, ot_pipe_run(pipe, &r, &err), err);
    CHECK(ot_parts(r) == 4 && !ot_result_reply(r, 1, &reply) && ot_reply_kind(reply) == OT_REPLY_ERROR);
    CHECK(!ot_reply_text(reply, &text) && text.len > 3 && !memcmp(text.ptr, "ERR", 3));
    CHECK(!ot_result_reply(r, 2, &reply) && !ot_reply_i64(reply, &value) && value == 2 + 2 * is_atomic);
    CHECK(!ot_result_reply(r, 3, &reply) && ot_reply_size(reply) == 2 && !ot_reply_at(reply, 1, &item));
    CHECK(!ot_reply_i64(item, &value) && value == 2 && ot_reply_at(reply, 2, &item) == OT_RANGE);
    ot_result_free(r);
  }
  /* One that is refused in the queue: none ran. */
  CHECK(!ot_pipe_begin(db, &atomic, &pipe));
  CHECK(!ot_pipe_command(pipe, OT_ARGS(OT_STR("SET"), OT_STR("p"), OT_STR("y"))));
  CHECK(!ot_pipe_command(pipe, OT_ARGS(OT_STR("INCR"))));
  SAYS(OT_SERVER, ot_pipe_run(pipe, &r, &err), err);
  CHECK(!r && err.outcome == OT_REJECTED && err.statement == 2);
  CHECK(!ot_pipe_begin(db, NULL, &pipe));
  SAYS(OT_OK, ot_pipe_run(pipe, &r, &err), err);
  CHECK(ot_parts(r) == 0);
  ot_result_free(r);
  CHECK(!ot_pipe_begin(db, NULL, &pipe) && !ot_pipe_command(pipe, OT_ARGS(OT_STR("BLPOP"), OT_STR("a"), OT_I64(0))));
  SAYS(OT_REFUSED, ot_pipe_run(pipe, NULL, &err), err);
  CHECK(err.statement == 1);
  close_it(db);
}

static void a_pipeline_of_any_length_is_bounded(const char *url) {
  ot_client *db = open_redis(url);
  ot_error err = OT_ERROR_INIT;
  ot_pipe *pipe = NULL;
  ot_call *call = NULL;
  ot_result *r = NULL;
  char *big = (char *)malloc(1 << 20);
  memset(big, 'z', 1 << 20);
  CHECK(!ot_command(db, OT_ARGS(OT_STR("SET"), OT_STR("big"), OT_TEXT(big, 1 << 20)), NULL, &call));
  SAYS(OT_OK, ot_wait(call, -1, NULL, &err), err);
  free(big);
  CHECK(!ot_pipe_begin(db, NULL, &pipe));
  for (int i = 0; i < 64; i++) CHECK(!ot_pipe_command(pipe, OT_ARGS(OT_STR("GET"), OT_STR("big"))));
  SAYS(OT_OK, ot_pipe_run(pipe, &r, &err), err);
  CHECK(ot_parts(r) == 64);
  ot_result_free(r);
  CHECK(!ot_pipe_begin(db, NULL, &pipe));
  for (int i = 0; i < 120000; i++) CHECK(!ot_pipe_command(pipe, OT_ARGS(OT_STR("PING"))));
  SAYS(OT_REFUSED, ot_pipe_run(pipe, NULL, &err), err);
  CHECK(!strcmp(err.code, "pipeline_too_long") && err.outcome == OT_NOT_SENT);
  CHECK(!ot_pipe_begin(db, NULL, &pipe));
  for (int i = 0; i < 30000; i++) CHECK(!ot_pipe_command(pipe, OT_ARGS(OT_STR("PING"))));
  SAYS(OT_OK, ot_pipe_run(pipe, &r, &err), err);
  CHECK(ot_parts(r) == 30000);
  ot_result_free(r);
  close_it(db);
}

static void messages_of_channels_are_heard(const char *url) {
  ot_client *db = open_redis(url);
  ot_error err = OT_ERROR_INIT;
  ot_listener *l = NULL;
  ot_event event = OT_EVENT_INIT;
  ot_call *call = NULL;
  ot_text channels[] = {{"news", 4}, {"other", 5}};
  CHECK(!ot_listen(db, channels, 2, &l));
  SAYS(OT_OK, ot_listener_wait(l, 120000, &err), err);
  for (int i = 0; i < 3; i++) CHECK(!ot_command(db, OT_ARGS(OT_STR("PUBLISH"), OT_STR("news"), OT_I64(i)), NULL, &call)), ot_call_free(call);
  for (int i = 0; i < 3; i++) {
    if (i == 0) CHECK(!ot_flush(db, &err));
    char wanted[2] = {(char)('0' + i), 0};
    SAYS(OT_OK, ot_listener_next(l, 120000, &event, &err), err);
    CHECK(event.kind == OT_NOTIFICATION && is_text(event.channel, "news") && is_text(event.payload, wanted));
  }
  CHECK(!ot_command(db, OT_ARGS(OT_STR("CLIENT KILL"), OT_STR("TYPE"), OT_STR("pubsub")), NULL, &call));
  SAYS(OT_OK, ot_wait(call, -1, NULL, &err), err);
  SAYS(OT_OK, ot_listener_next(l, 120000, &event, &err), err);
  CHECK(event.kind == OT_GAP);
  ot_listener_close(l);
  close_it(db);
}

static void a_late_command_may_have_run(const char *url) {
  ot_client *db = open_redis(url), *other = open_redis(url);
  ot_error err = OT_ERROR_INIT;
  ot_options late = OT_OPTIONS_INIT;
  ot_call *call = NULL, *next = NULL;
  ot_result *r = NULL;
  const ot_reply *reply = NULL;
  ot_text text;
  late.timeout_ms = 50;
  /* The server answers no writes until it is told to go on. */
  CHECK(!ot_command(other, OT_ARGS(OT_STR("CLIENT PAUSE"), OT_I64(600000), OT_STR("WRITE")), NULL, &call));
  SAYS(OT_OK, ot_wait(call, -1, NULL, &err), err);
  CHECK(!ot_command(db, OT_ARGS(OT_STR("SET"), OT_STR("late"), OT_I64(1)), &late, &call));
  CHECK(!ot_command(db, OT_ARGS(OT_STR("PING")), NULL, &next));
  SAYS(OT_TIMEOUT, ot_wait(call, -1, NULL, &err), err);
  CHECK(err.outcome == OT_UNKNOWN || err.outcome == OT_NOT_SENT);
  CHECK(!ot_command(other, OT_ARGS(OT_STR("CLIENT UNPAUSE")), NULL, &call));
  SAYS(OT_OK, ot_wait(call, -1, NULL, &err), err);
  SAYS(OT_OK, ot_wait(next, -1, &r, &err), err);
  CHECK(!ot_result_reply(r, 0, &reply) && !ot_reply_text(reply, &text) && is_text(text, "PONG"));
  ot_result_free(r);
  close_it(db), close_it(other);
}

int main(int argc, char **argv) {
  const named_test tests[] = {
      TEST(commands_answer_their_own_callers), TEST(an_error_says_its_outcome),
      TEST(pipelines_have_a_reply_for_each), TEST(a_pipeline_of_any_length_is_bounded),
      TEST(messages_of_channels_are_heard), TEST(a_late_command_may_have_run),
  };
  return run_tests(tests, sizeof tests / sizeof *tests, argc, argv);
}
