/* Says how the connection to argv[1] is encrypted, or why there is none. */
#include "check.h"

int main(int argc, char **argv) {
  ot_error err = OT_ERROR_INIT;
  ot_client *db = NULL;
  ot_result *r = NULL;
  ot_text text;
  const char *url = argv[argc - 1];
  int is_redis = strncmp(url, "redis", 5) == 0;
  ot_status status = is_redis ? ot_redis_connect(url, OT_NTS, 120000, &db, &err)
                              : ot_pg_connect(url, OT_NTS, 120000, &db, &err);
  if (status) {
    return printf("%s %s %s\n", ot_status_name(status), ot_outcome_name(err.outcome), err.message) < 0;
  }
  if (is_redis) {
    ot_call *call = NULL;
    const ot_reply *reply = NULL;
    CHECK(!ot_command(db, OT_ARGS(OT_STR("PING")), NULL, &call));
    SAYS(OT_OK, ot_wait(call, -1, &r, &err), err);
    CHECK(!ot_result_reply(r, 0, &reply) && !ot_reply_text(reply, &text));
  } else {
    SAYS(OT_OK, ot_run(db, OT_SQL("select coalesce(version, 'plain'), repeat('x', 3000000) from pg_stat_ssl where pid = pg_backend_pid()"), OT_NO_ARGS, &r, &err), err);
    CHECK(!ot_get_text(r, 0, 1, &text) && text.len == 3000000);
    CHECK(!ot_get_text(r, 0, 0, &text));
    /* Long texts go the other way, too. */
    char *big = (char *)malloc(3 << 20);
    memset(big, 'y', 3 << 20);
    ot_result *length = NULL;
    int64_t bytes = 0;
    SAYS(OT_OK, ot_run(db, OT_SQL("select length($1)"), OT_ARGS(OT_TEXT(big, 3 << 20)), &length, &err), err);
    CHECK(!ot_get_i64(length, 0, 0, &bytes) && bytes == 3 << 20);
    ot_result_free(length), free(big);
  }
  printf("%.*s\n", (int)text.len, text.ptr);
  ot_result_free(r);
  close_it(db);
  return 0;
}
