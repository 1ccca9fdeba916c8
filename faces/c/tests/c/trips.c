/* Does one thing at a time when a line comes on stdin, and says that it is done. */
#include "check.h"

static void wait_for_line(void) {
  char line[8];
  puts("ready");
  fflush(stdout);
  CHECK(fgets(line, sizeof line, stdin) != NULL);
}

int main(int argc, char **argv) {
  ot_error err = OT_ERROR_INIT;
  ot_client *db = open_pg(argv[argc - 1]);
  ot_pipe *pipe = NULL;
  ot_call *calls[100];
  ot_session *session = NULL;
  run(db, "create table account (id int primary key, balance int)");
  run(db, "insert into account values (1, 100), (2, 0)");

  wait_for_line(); /* The transfer. */
  CHECK(!ot_pipe_begin(db, NULL, &pipe));
  CHECK(!ot_pipe_query(pipe, OT_SQL("update account set balance = balance - $1 where id = $2"), OT_ARGS(OT_I64(5), OT_I64(1))));
  CHECK(!ot_pipe_query(pipe, OT_SQL("update account set balance = balance + $1 where id = $2"), OT_ARGS(OT_I64(5), OT_I64(2))));
  SAYS(OT_OK, ot_pipe_run(pipe, NULL, &err), err);

  wait_for_line(); /* The same in a transaction of its own. */
  CHECK(!ot_session_open(db, &session) && !ot_begin(session, NULL));
  CHECK(!ot_session_query(session, OT_SQL("update account set balance = balance - 5 where id = 1"), OT_NO_ARGS, NULL, &calls[0]));
  CHECK(!ot_session_query(session, OT_SQL("update account set balance = balance + 5 where id = 2"), OT_NO_ARGS, NULL, &calls[1]));
  CHECK(!ot_commit(session, &calls[2]));
  for (int i = 0; i < 3; i++) SAYS(OT_OK, end_of(calls[i], &err), err);
  ot_session_close(session);

  wait_for_line(); /* One by one. */
  for (int i = 0; i < 4; i++) run(db, "select 1");

  wait_for_line(); /* A hundred selects in one pipeline. */
  CHECK(!ot_pipe_begin(db, NULL, &pipe));
  for (int i = 0; i < 100; i++) CHECK(!ot_pipe_query(pipe, OT_SQL("select $1::int"), OT_ARGS(OT_I64(i))));
  SAYS(OT_OK, ot_pipe_run(pipe, NULL, &err), err);

  wait_for_line(); /* Statements that nobody has put together. */
  for (int i = 0; i < 3; i++) CHECK(!ot_query(db, OT_SQL("select 1"), OT_NO_ARGS, NULL, &calls[i]));
  for (int i = 0; i < 3; i++) SAYS(OT_OK, end_of(calls[i], &err), err);

  wait_for_line();
  close_it(db);
  return 0;
}
