/* The money transfer, on the server that argv[1] names. */
#include <onetrip/onetrip.h>
#include <stdio.h>

int main(int argc, char **argv) {
  ot_error err = OT_ERROR_INIT;
  ot_client *db = NULL;
  if (argc < 2 || ot_pg_connect(argv[1], OT_NTS, 10000, &db, &err)) {
    return fprintf(stderr, "%s\n", err.message), 1;
  }
  ot_run(db, OT_SQL("create table if not exists account (id int primary key, balance int "
         "check (balance >= 0))"), OT_NO_ARGS, NULL, &err);
  ot_run(db, OT_SQL("insert into account values (1, 100), (2, 0) on conflict (id) do update "
         "set balance = excluded.balance"), OT_NO_ARGS, NULL, &err);

  ot_pipe *pipe = NULL; /* one trip, one transaction */
  ot_pipe_begin(db, NULL, &pipe);
  ot_pipe_query(pipe, OT_SQL("update account set balance = balance - $1 where id = $2"),
                OT_ARGS(OT_I64(5), OT_I64(1)));
  ot_pipe_query(pipe, OT_SQL("update account set balance = balance + $1 where id = $2"),
                OT_ARGS(OT_I64(5), OT_I64(2)));
  if (ot_pipe_run(pipe, NULL, &err)) {
    fprintf(stderr, "%s: %s\n", ot_outcome_name(err.outcome), err.message);
  }

  ot_result *all = NULL;
  if (ot_run(db, OT_SQL("select id, balance from account order by id"), OT_NO_ARGS, &all, &err) == 0) {
    for (size_t row = 0; row < ot_rows(all); row++) {
      int64_t id, balance;
      if (!ot_get_i64(all, row, 0, &id) && !ot_get_i64(all, row, 1, &balance)) {
        printf("%lld has %lld\n", (long long)id, (long long)balance);
      }
    }
    ot_result_free(all);
  }
  return ot_close(db, 5000, &err);
}
