/* What the tests in C have in common: CHECK, and a table of tests by name. */
#ifndef CHECK_H
#define CHECK_H

#include <onetrip/onetrip.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(is) \
  ((is) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #is), exit(1)))

/* A status, and what was said of it where it is another. */
#define SAYS(wanted, got, err)                                                                 \
  do {                                                                                         \
    ot_status got_ = (got);                                                                    \
    if (got_ != (wanted)) {                                                                    \
      fprintf(stderr, "%s:%d: %s: %s (%s) %s\n", __FILE__, __LINE__, #got, ot_status_name(got_), \
              (err).code, (err).message);                                                      \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

static inline ot_client *open_pg(const char *url) {
  ot_error err = OT_ERROR_INIT;
  ot_client *db = NULL;
  SAYS(OT_OK, ot_pg_connect(url, OT_NTS, 120000, &db, &err), err);
  return db;
}

static inline ot_client *open_redis(const char *url) {
  ot_error err = OT_ERROR_INIT;
  ot_client *db = NULL;
  SAYS(OT_OK, ot_redis_connect(url, OT_NTS, 120000, &db, &err), err);
  return db;
}

static inline void close_it(ot_client *db) {
  ot_error err = OT_ERROR_INIT;
  SAYS(OT_OK, ot_close(db, 120000, &err), err);
}

/* The end of a call. */
static inline ot_status end_of(ot_call *call, ot_error *err) { return ot_wait(call, -1, NULL, err); }

static inline void run(ot_client *db, const char *sql) {
  ot_error err = OT_ERROR_INIT;
  SAYS(OT_OK, ot_run(db, sql, OT_NTS, NULL, 0, NULL, &err), err);
}

/* The first value of the answer. */
static inline int64_t number(ot_client *db, const char *sql) {
  ot_error err = OT_ERROR_INIT;
  ot_result *result = NULL;
  int64_t value = 0;
  SAYS(OT_OK, ot_run(db, sql, OT_NTS, NULL, 0, &result, &err), err);
  SAYS(OT_OK, ot_get_i64(result, 0, 0, &value), err);
  ot_result_free(result);
  return value;
}

static inline int is_text(ot_text text, const char *wanted) {
  return text.len == strlen(wanted) && memcmp(text.ptr, wanted, text.len) == 0;
}

typedef struct {
  const char *name;
  void (*run)(const char *url);
} named_test;

#define TEST(name) \
  { #name, name }

/* The URL of a database of one's own on the server of this one of PostgreSQL's. */
static inline const char *own_database(const char *url) {
  static char own[512], sql[64];
  if (strncmp(url, "postgres", 8) != 0) return url;
  const char *end = strchr(strstr(url, "://") + 3, '/');
  ot_client *db = open_pg(url);
  snprintf(sql, sizeof sql, "create database c_%ld", (long)getpid());
  run(db, sql);
  close_it(db);
  snprintf(own, sizeof own, "%.*s/c_%ld?connect_timeout=100&wait_timeout_ms=600000", end ? (int)(end - url) : (int)strlen(url), url, (long)getpid());
  return own;
}

/* `program NAME URL` runs one test; without arguments their names are listed. */
static inline int run_tests(const named_test *tests, size_t count, int argc, char **argv) {
  for (size_t i = 0; i < count; i++) {
    if (argc < 3) {
      puts(tests[i].name);
    } else if (strcmp(tests[i].name, argv[1]) == 0) {
      tests[i].run(own_database(argv[2]));
      return 0;
    }
  }
  return argc < 3 ? 0 : 2;
}

#endif
