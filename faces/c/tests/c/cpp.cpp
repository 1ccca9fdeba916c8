// What onetrip.hpp promises.
#include <onetrip/onetrip.hpp>

#include "check.h"

namespace {

void rows_are_a_range(const char* url) {
  auto db = onetrip::Client::postgres(url);
  std::int64_t sum = 0;
  for (auto row : db.query("select n, nullif(n, 2) as m from generate_series(1, $1::int) n", 3).get()) {
    sum += row.get<int>(0);
    CHECK(row.get<std::optional<int>>("m").has_value() == (row.get<int>("n") != 2) && row.size() == 2);
    CHECK(row.is_null(1) == (row.get<int>(0) == 2));
  }
  CHECK(sum == 6);
  auto values = db.query("select $1::text, $2::bool, $3::float8, $4, $5::text, $6::int8", std::string("a"), true, 1.5,
                         onetrip::Bytes{std::string_view("\0b", 2)}, std::optional<std::string>(), 300).get();
  auto row = values[0];
  CHECK(row.get<std::string>(0) == "a" && row.get<bool>(1) && row.get<double>(2) == 1.5);
  CHECK(row.get<onetrip::Bytes>(3).bytes == std::string_view("\0b", 2) && row.is_null(4));
  CHECK(values.tag() == "SELECT 1" && values.columns() == 6 && values.affected() == 1);
  for (int kind = 0; kind < 4; kind++) {
    ot_status status = OT_OK;
    try {
      if (kind == 0) row.get<int>(4);
      if (kind == 1) row.get<int>(0);
      if (kind == 2) row.get<std::int8_t>(5);
      if (kind == 3) row.get<int>("none");
    } catch (const onetrip::Error& error) {
      status = error.status();
    }
    CHECK(status == (kind == 0 ? OT_NULL : kind == 3 ? OT_RANGE : OT_CONVERSION));
  }
  db.close();
}

void errors_are_thrown_with_their_outcome(const char* url) {
  auto db = onetrip::Client::postgres(url);
  try {
    db.query("select 1 / $1::int", 0).get();
    CHECK(false);
  } catch (const onetrip::Error& error) {
    CHECK(error.status() == OT_SERVER && error.outcome() == OT_REJECTED && error.code() == "22012");
    CHECK(std::string_view(error.what()) == "division by zero");
  }
  try {
    onetrip::Client::postgres("nonsense");
    CHECK(false);
  } catch (const onetrip::Error& error) {
    CHECK(error.status() == OT_REFUSED && error.outcome() == OT_NOT_SENT);
  }
  auto sleeps = db.query("select pg_sleep(600)");
  CHECK(!sleeps.get_within(20) && !sleeps.is_over());
}

void pipelines_and_transactions(const char* url) {
  auto db = onetrip::Client::postgres(url);
  db.query("create table t (n int primary key)").get();
  auto pipe = db.pipe();
  auto first = pipe.query("insert into t values ($1)", 1).query("insert into t values (2) returning n").sync();
  auto second = pipe.query("insert into t values (1)").send();
  CHECK(first.get().part(1)[0].get<int>(0) == 2);
  try {
    second.get();
    CHECK(false);
  } catch (const onetrip::Error& error) {
    CHECK(error.code() == "23505");
  }
  {
    auto session = db.session();
    session.begin();
    session.query("insert into t values (3)").get();
    session.savepoint();
    auto lost = session.query("delete from t");
    session.undo();
    session.savepoint();
    auto kept = session.release();
    auto commit = session.commit();
    kept.get(), commit.get(), lost.get();
    session.begin();
    session.query("delete from t").get();
  }
  int rows = 0;
  auto session = db.session();
  auto stream = session.stream("select n from generate_series(1, 5000) n");
  while (auto some = stream.next()) rows += static_cast<int>(some->size());
  CHECK(rows == 5000 && session.query("select sum(n) from t").get()[0].get<int>(0) == 6);
}

#if __cplusplus >= 202002L
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Task ask(onetrip::Client& db, int n, int& done) {
  auto result = co_await db.query("select $1::int * 2", n);
  CHECK(result[0].get<int>(0) == 2 * n);
  try {
    co_await db.query("no sql");
    CHECK(false);
  } catch (const onetrip::Error& error) {
    CHECK(error.code() == "42601");
  }
  done++;
}

void coroutines_go_on_in_the_loop(const char* url) {
  auto db = onetrip::Client::postgres(url);
  int done = 0;
  for (int n = 0; n < 50; n++) ask(db, n, done);
  CHECK(done == 0);
  while (done < 50) db.query("select 1").get();
}
#endif

void commands_of_redis(const char* url) {
  auto db = onetrip::Client::redis(url);
  db.command("SET", "cpp", 5).get();
  CHECK(db.command("GET", "cpp").get().reply().text() == "5");
  auto both = db.pipe().command("INCR", "cpp").command("LRANGE", "nothing", 0, -1).send().get();
  CHECK(both.reply(0).number() == 6 && both.reply(1).size() == 0 && !both.reply(1).is_error());
}

}  // namespace

int main(int argc, char** argv) {
  const named_test tests[] = {
      TEST(rows_are_a_range), TEST(errors_are_thrown_with_their_outcome), TEST(pipelines_and_transactions),
#if __cplusplus >= 202002L
      TEST(coroutines_go_on_in_the_loop),
#endif
      TEST(commands_of_redis),
  };
  return run_tests(tests, sizeof tests / sizeof *tests, argc, argv);
}
