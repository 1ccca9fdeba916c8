/* libonetrip: a client of PostgreSQL and Redis that hides the round trip.
 *
 *     ot_error err = OT_ERROR_INIT;
 *     ot_client *db;
 *     if (ot_pg_connect("postgres://alice@localhost/shop", OT_NTS, 5000, &db, &err)) ...
 *
 * CONVENTIONS
 *
 * Status. What can fail returns an ot_status: OT_OK (0), OT_AGAIN, OT_DONE, or an error. Outputs come
 * last, and are written where the status says so. No function sets errno.
 *
 * Errors. A function that may wait, or that answers for what the server did, takes an ot_error, or
 * NULL. On an error it says the code, the message, and the *outcome*: whether what was asked for took
 * effect. The outcome is never a guess (ot_outcome).
 *
 * Texts are a pointer and a length in bytes, in UTF-8. The length OT_NTS says that the text ends at its
 * zero byte. Texts and values that a function is given are copied or used before it returns: the
 * caller keeps them, and may free them at once.
 *
 * Handles are opaque. Each is freed by one function, named where it is made. A result is its caller's
 * until ot_result_free; what was read of it (ot_text, parts, replies) is valid as long. A handle may
 * be freed after its client was closed.
 *
 * NULL for a handle or a place is OT_MISUSE. Every function that frees takes NULL and does nothing.
 *
 * When bytes leave. ot_query and its like submit: they never block, and never fail because of the
 * server. What was submitted leaves together, in one write for each connection, with the next call of
 * ot_wait, ot_drive, ot_flush or another function that waits. So statements that are submitted one
 * behind the other cost one trip over the network. A program that submits and then computes calls
 * ot_flush.
 *
 * Time is in milliseconds. A timeout of a function that waits: -1 for any time, 0 to look and not to
 * wait. When it passes, OT_AGAIN is returned and nothing has changed; ask again.
 *
 * Threads. There are none in the library, and no global state. A client and all that was made of it is
 * for one thread at a time; another may go on with it later. Two at once, or a callback that is inside
 * of a function that does not allow it, are told OT_BUSY where that is seen.
 *
 * Fork. A client is of the process that opened it. In another one all functions return OT_FORKED, send
 * nothing, and ot_close frees without a word to the server.
 *
 * Signals. A signal that interrupts a wait is handled by its handler, and the wait goes on. SIGPIPE is
 * not raised.
 *
 * A defect of the library is reported as OT_INTERNAL. The client can then only be closed.
 *
 * Structures of this header begin with their size, set by their INIT macro, so that a program that was
 * built with an older header keeps working.
 */
#ifndef ONETRIP_H
#define ONETRIP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The length of a text that ends at its zero byte. */
#define OT_NTS ((size_t)-1)

/* --- status, outcome, errors --- */

typedef int32_t ot_status;
enum {
  OT_OK = 0,
  OT_AGAIN = 1,       /* the time is over, and what was asked for is still on its way */
  OT_DONE = 2,        /* a stream has no more rows */
  OT_SERVER = 3,      /* the server answered with an error: its SQLSTATE or word is the code */
  OT_ABORTED = 4,     /* it was undone or skipped, because something else failed */
  OT_REFUSED = 5,     /* this side did not send it: the code says why */
  OT_TIMEOUT = 6,     /* its time was over */
  OT_CANCELLED = 7,   /* its caller gave it up */
  OT_LOST = 8,        /* the connection was lost */
  OT_CONNECT = 9,     /* no connection could be opened */
  OT_FAILED = 10,     /* an answer came that is not read, as one that is too large */
  OT_NULL = 11,       /* the value is NULL */
  OT_CONVERSION = 12, /* the value is none of what was asked for */
  OT_RANGE = 13,      /* there is no such row, column or part */
  OT_MISUSE = 14,     /* the program is wrong */
  OT_BUSY = 15,       /* the client is in use */
  OT_FORKED = 16,     /* the client is another process's */
  OT_INTERNAL = 17    /* a defect of the library */
};

/* What is known of the effect of what failed. */
typedef int32_t ot_outcome;
enum {
  OT_NONE = 0,     /* it did not fail */
  OT_NOT_SENT = 1, /* no byte of it was sent: it may be tried again */
  OT_REJECTED = 2, /* the server answered that it did not take effect */
  OT_APPLIED = 3,  /* it took effect; only its answer could not be read */
  OT_UNKNOWN = 4   /* it was sent, and there is no final answer: it may have run */
};

typedef struct ot_error {
  uint32_t size; /* OT_ERROR_INIT */
  ot_status status;
  ot_outcome outcome;
  uint32_t statement; /* which of a pipeline is the cause, from 1; 0 for none */
  int32_t runs_again; /* of a COMMIT: 1 if the transaction may be run again as it stood */
  char code[32];      /* SQLSTATE, the first word of an error of Redis, or a word of ours */
  char message[1024]; /* texts that are longer end early, at a whole character */
  char detail[512];
  char hint[512];
  char constraint[64];
} ot_error;

#define OT_ERROR_INIT {sizeof(ot_error), 0, 0, 0, 0, {0}, {0}, {0}, {0}, {0}}

/* "timeout" for OT_TIMEOUT, "not sent" for OT_NOT_SENT; "unknown" for what is none. Static texts. */
const char *ot_status_name(ot_status status);
const char *ot_outcome_name(ot_outcome outcome);

/* The version of the library: "0.1.0". */
const char *ot_version(void);

/* --- texts and values --- */

typedef struct ot_text {
  const char *ptr; /* never NULL; a zero byte need not follow */
  size_t len;
} ot_text;

enum { OT_VALUE_NULL = 0, OT_VALUE_I64, OT_VALUE_F64, OT_VALUE_BOOL, OT_VALUE_TEXT, OT_VALUE_BYTES };

/* A parameter of a statement, or an argument of a command. All but bytes are sent to PostgreSQL as
 * text, whose type the server infers from the statement, as for a literal in quotes: nothing is
 * asked first, and a migration can't make it mean something else. Bytes are a bytea. */
typedef struct ot_value {
  int32_t kind;
  int32_t reserved;
  int64_t integer; /* OT_VALUE_I64; OT_VALUE_BOOL: 0 is false */
  double real;
  const void *ptr; /* OT_VALUE_TEXT, OT_VALUE_BYTES */
  size_t len;
} ot_value;

static inline ot_value ot_value_of(int32_t kind, int64_t integer, double real, const void *ptr,
                                   size_t len) {
  ot_value value;
  value.kind = kind;
  value.reserved = 0;
  value.integer = integer;
  value.real = real;
  value.ptr = ptr;
  value.len = len;
  return value;
}
#define OT_NIL ot_value_of(OT_VALUE_NULL, 0, 0, NULL, 0)
#define OT_I64(n) ot_value_of(OT_VALUE_I64, (n), 0, NULL, 0)
#define OT_F64(x) ot_value_of(OT_VALUE_F64, 0, (x), NULL, 0)
#define OT_BOOL(b) ot_value_of(OT_VALUE_BOOL, (b) ? 1 : 0, 0, NULL, 0)
#define OT_STR(text) ot_value_of(OT_VALUE_TEXT, 0, 0, (text), OT_NTS)
#define OT_TEXT(ptr, len) ot_value_of(OT_VALUE_TEXT, 0, 0, (ptr), (len))
#define OT_BYTES(ptr, len) ot_value_of(OT_VALUE_BYTES, 0, 0, (ptr), (len))

/* A statement in quotes, and its parameters, as two arguments each. (C only: C++ has onetrip.hpp.) */
#define OT_SQL(text) (text), OT_NTS
#define OT_ARGS(...) \
  (const ot_value[]){__VA_ARGS__}, sizeof((const ot_value[]){__VA_ARGS__}) / sizeof(ot_value)
#define OT_NO_ARGS NULL, 0

/* --- handles --- */

typedef struct ot_client ot_client;     /* ot_close */
typedef struct ot_call ot_call;         /* ot_wait, ot_call_free */
typedef struct ot_result ot_result;     /* ot_result_free */
typedef struct ot_reply ot_reply;       /* part of a result */
typedef struct ot_pipe ot_pipe;         /* ot_pipe_send, ot_pipe_free */
typedef struct ot_session ot_session;   /* ot_session_close */
typedef struct ot_stream ot_stream;     /* ot_stream_close */
typedef struct ot_copy ot_copy;         /* ot_copy_end, ot_copy_fail */
typedef struct ot_listener ot_listener; /* ot_listener_close */

/* --- clients --- */

/* Opens a client of PostgreSQL, and waits for its first connection.
 *
 * `settings` is a URL (postgres://user:password@host:port,host/db?name=value) or pairs as libpq has
 * them (host=... user=...); libpq's environment variables, service file and password file hold where
 * it says nothing. Several hosts are tried in their order, by target_session_attrs. A client is a pool:
 * connections_max (default 10) connections at most, each of which many callers share; statements go
 * where they are answered soonest. Limits and their defaults, all of them settings: in_flight_max
 * (1024) requests unanswered on a connection, queue_max (16384) behind them, waiting_max (16384) in
 * line for a connection, for wait_timeout_ms (30000) at most; result_bytes_max (256 MiB);
 * prepare_threshold (5): a text is prepared by itself at its fifth use.
 *
 * Names of hosts are looked up by getaddrinfo, which may block: give hostaddr where that matters.
 * TLS: sslmode as in libpq. Passwords appear in no error.
 *
 * OT_REFUSED: a setting is wrong; OT_CONNECT, OT_SERVER: nobody let us in; OT_TIMEOUT: the time is
 * over. Then there is no client. */
ot_status ot_pg_connect(const char *settings, size_t len, int32_t timeout_ms, ot_client **client,
                        ot_error *error);

/* The same of Redis or Valkey: redis://user:password@host:port,host/db?name=value, rediss:// with TLS,
 * unix:/path. Of several hosts the next is tried where one fails. All commands share one connection,
 * in the order in which they were submitted, as long as its queue has room. Limits: in_flight_max
 * (10000), queue_max (100000), wait_timeout_ms (5000) for commands that wait for the connection. */
ot_status ot_redis_connect(const char *settings, size_t len, int32_t timeout_ms, ot_client **client,
                           ot_error *error);

/* The same without waiting: for loops. Whether the server lets us in is said by the first call. */
ot_status ot_pg_open(const char *settings, size_t len, ot_client **client, ot_error *error);
ot_status ot_redis_open(const char *settings, size_t len, ot_client **client, ot_error *error);

/* Takes nothing new, waits until all is answered, says goodbye, and frees the client. After this time
 * what is unanswered ends with OT_LOST, and OT_TIMEOUT is returned. Calls, results and sessions that
 * are left are still to be freed. Not from a callback of this client. */
ot_status ot_close(ot_client *client, int32_t timeout_ms, ot_error *error);

/* Sends what was submitted, as far as the sockets take it at once. Never blocks. */
ot_status ot_flush(ot_client *client, ot_error *error);

/* --- the client in a loop ---
 *
 * adapters: onetrip/poll.h, onetrip/uv.h, onetrip/event.h. */

/* A descriptor that is readable when there is something to do, the same for as long as the client is
 * there, for poll, select, epoll and their like. -1 if there is no client. */
int32_t ot_fd(const ot_client *client);

/* The events to wait for, as of poll(2): POLLIN, always. */
int32_t ot_events(const ot_client *client);

/* Milliseconds until ot_drive is to be called, whatever the descriptor says; -1 for never. Ask again
 * after each call of a function of this client; 0 means that something was submitted. */
int32_t ot_timeout_ms(const ot_client *client);

/* Does what can be done without waiting: reads, writes, keeps time, opens connections, and calls back
 * (ot_call_then and its like). `revents` is what poll has returned, and may be 0. */
ot_status ot_drive(ot_client *client, int32_t revents, ot_error *error);

/* --- statements --- */

enum {
  OT_REPEATABLE = 1, /* it may run twice: where its connection is lost, it is sent again by itself */
  OT_SCRIPT = 2,     /* of a session: any number of statements, without parameters */
  OT_ATOMIC = 4      /* of a pipeline of Redis: MULTI ... EXEC */
};

typedef struct ot_options {
  uint32_t size;      /* OT_OPTIONS_INIT */
  int32_t timeout_ms; /* 0: the setting request_timeout_ms (default: any time); -1: any time */
  uint32_t flags;
} ot_options;

#define OT_OPTIONS_INIT {sizeof(ot_options), 0, 0}

/* Submits a statement, with $1, $2 ... for its parameters. It is a transaction of its own, isolated
 * from what others have sent on the same connection, and among such statements there is no order.
 *
 * It waits for room where all connections are full, for wait_timeout_ms at most. `options` may be
 * NULL. Its time (timeout_ms) covers every wait: when it is over, the call ends with OT_TIMEOUT, and
 * the server is asked to cancel the statement. Transaction control, SET, LISTEN and the like are for
 * sessions: here they end with OT_REFUSED.
 *
 * The call is made, and the status OT_OK, whatever becomes of the statement: ot_wait says that. */
ot_status ot_query(ot_client *client, const char *sql, size_t sql_len, const ot_value *args,
                   size_t args_len, const ot_options *options, ot_call **call);

/* Runs a statement with each of these sets of parameters, in one trip: all take effect, or none does.
 * `args` has args_per_set * sets values, set by set. The result has the rows of all, and the sum of
 * what they affected. */
ot_status ot_batch(ot_client *client, const char *sql, size_t sql_len, const ot_value *args,
                   size_t args_per_set, size_t sets, const ot_options *options, ot_call **call);

/* --- calls --- */

/* Sends what was submitted, and waits for the end of a call. `result` may be NULL.
 *
 * With OT_AGAIN, OT_BUSY and OT_FORKED the call stays as it is. With any other status it has ended and
 * is freed: with OT_OK there is a result, otherwise `error` says why not. While it waits, everything
 * else of the client goes on, and callbacks are called. */
ot_status ot_wait(ot_call *call, int32_t timeout_ms, ot_result **result, ot_error *error);

/* 1 if a call has ended, so that ot_wait returns at once. Does nothing else. */
int32_t ot_call_is_over(const ot_call *call);

/* Has `tell` called once a call has ended: on this thread, from inside of ot_drive or of any function
 * that waits, which may be one for another call. It may use all functions but ot_close, and does not
 * free what a function that has not returned waits for. It is not called once the call was freed.
 * NULL takes it back. */
ot_status ot_call_then(ot_call *call, void (*tell)(void *), void *user);

/* Gives a call up. What was not sent is taken back; otherwise the server is asked to cancel it, if that
 * hits nothing else, and its answer reaches nobody. It may have run. COMMIT and ROLLBACK go on. */
void ot_call_free(ot_call *call);

/* --- pipelines --- */

/* Begins a pipeline. Nothing leaves before ot_pipe_send, and then all of it in one write: one trip. */
ot_status ot_pipe_begin(ot_client *client, const ot_options *options, ot_pipe **pipe);

/* Adds a statement. What is wrong with it is said of the whole pipeline, of which nothing is sent. */
ot_status ot_pipe_query(ot_pipe *pipe, const char *sql, size_t sql_len, const ot_value *args,
                        size_t args_len);

/* Adds a command of Redis: args[0] is its name. */
ot_status ot_pipe_command(ot_pipe *pipe, const ot_value *args, size_t args_len);

/* Ends a segment, of PostgreSQL: the statements since the last sync point are one transaction, and all
 * take effect or none, whatever becomes of others. Its call has one part for each statement. The
 * segments of a pipeline run in their order. */
ot_status ot_pipe_sync(ot_pipe *pipe, ot_call **call);

/* Ends the last segment, sends all, and frees the pipeline. Of the last segment:
 * PostgreSQL: its call has one part for each statement (ot_part). If it fails, none of its statements
 * took effect, `statement` of the error says which is the cause, and its outcome is that of all.
 * Redis: one reply for each command (ot_result_reply), which may be an error of its own (OT_REPLY_ERROR).
 * With OT_ATOMIC they ran as one, or, if the call fails, none did.
 *
 * A pipeline has less statements than queue_max, or no more commands than in_flight_max and queue_max
 * together: others end with OT_REFUSED. So it never hangs on a full socket, nor grows without bound. */
ot_status ot_pipe_send(ot_pipe *pipe, ot_call **call);

/* Drops a pipeline that was not sent. Calls of its segments end with OT_REFUSED. */
void ot_pipe_free(ot_pipe *pipe);

/* --- results --- */

void ot_result_free(ot_result *result);

size_t ot_rows(const ot_result *result);
size_t ot_columns(const ot_result *result);
uint64_t ot_affected(const ot_result *result);               /* rows, as the command tag has them */
ot_status ot_tag(const ot_result *result, ot_text *tag);     /* "UPDATE 1" */
ot_status ot_column_name(const ot_result *result, size_t column, ot_text *name);
ot_status ot_column_type(const ot_result *result, size_t column, uint32_t *oid);

/* What one statement of a pipeline was answered, from 0: part of the whole, and freed with it. */
size_t ot_parts(const ot_result *result);
ot_status ot_part(const ot_result *result, size_t at, const ot_result **part);

/* One value, from row 0 and column 0. OT_NULL: it is NULL; OT_CONVERSION: it can't be read as that;
 * OT_RANGE: there is none. Nothing is written then. ot_get_text reads a value of any type, as
 * PostgreSQL prints it; ot_get_bytes a bytea, as its bytes. Views are valid until the result is freed. */
ot_status ot_get_text(const ot_result *result, size_t row, size_t column, ot_text *value);
ot_status ot_get_i64(const ot_result *result, size_t row, size_t column, int64_t *value);
ot_status ot_get_f64(const ot_result *result, size_t row, size_t column, double *value);
ot_status ot_get_bool(const ot_result *result, size_t row, size_t column, int32_t *value);
ot_status ot_get_bytes(const ot_result *result, size_t row, size_t column, ot_text *value);

/* --- sessions and transactions --- */

/* A connection of one's own, for what has to stay together. It never blocks: what is submitted waits
 * until the pool has one, for wait_timeout_ms at most, and runs in its order. Statements that are
 * submitted without waiting share trips. */
ot_status ot_session_open(ot_client *client, ot_session **session);

/* Gives the connection back, once all that was submitted is answered. A transaction that is open is
 * rolled back. What was left in the session is reset before anybody else has it. */
void ot_session_close(ot_session *session);

/* As ot_query, on a session; SET and LISTEN are allowed, and the order is kept. Transaction control as
 * text is refused while a transaction of ot_begin is open. With OT_SCRIPT: any number of statements,
 * of which the result has the last command tag. */
ot_status ot_session_query(ot_session *session, const char *sql, size_t sql_len,
                           const ot_value *args, size_t args_len, const ot_options *options,
                           ot_call **call);

enum { OT_DEFAULT = 0, OT_YES = 1, OT_NO = 2 };
enum { OT_READ_UNCOMMITTED = 1, OT_READ_COMMITTED, OT_REPEATABLE_READ, OT_SERIALIZABLE };

typedef struct ot_modes {
  uint32_t size;      /* OT_MODES_INIT */
  int32_t isolation;  /* OT_DEFAULT: the server's */
  int32_t read_only;  /* OT_DEFAULT, OT_YES, OT_NO */
  int32_t deferrable; /* the same */
} ot_modes;

#define OT_MODES_INIT {sizeof(ot_modes), 0, 0, 0}

/* Begins a transaction. BEGIN costs no trip: it leaves with the first statement. `modes` may be NULL. */
ot_status ot_begin(ot_session *session, const ot_modes *modes);

/* Ends it. COMMIT leaves with what was submitted before it. If the call ends with OT_OK, the server has
 * committed. `ot_rollback` takes NULL where nobody wants to hear of its end. */
ot_status ot_commit(ot_session *session, ot_call **call);
ot_status ot_rollback(ot_session *session, ot_call **call);

/* Savepoints, the innermost first. ot_undo rolls back to it, and ot_release keeps what was done behind
 * it: its call fails, and all of that is undone, if a statement behind it had failed. */
ot_status ot_savepoint(ot_session *session);
ot_status ot_release(ot_session *session, ot_call **call);
ot_status ot_undo(ot_session *session);

/* Runs `work` in a transaction: COMMIT if it returns OT_OK, ROLLBACK otherwise. Where it fails because
 * of a conflict with another transaction (40001, 40P01), and nothing of it took effect, it is run again
 * from its start, up to ten times with growing pauses, so it must not do what can't be done twice. The
 * session is lent to `work`, which neither ends the transaction nor closes the session. Returns what
 * `work` has returned last, or the error of COMMIT. */
ot_status ot_transact(ot_client *client, const ot_modes *modes,
                      ot_status (*work)(ot_session *session, void *user), void *user,
                      ot_error *error);

/* --- streams and COPY ---
 *
 * They have their session to themselves: until one has ended or was closed, what else is submitted
 * there ends with OT_REFUSED, COMMIT and ROLLBACK included. Who closes the session leaves them. */

/* The rows of a statement as they arrive. While they are not taken, the server is not read, so a result
 * of any size needs a bounded memory. */
ot_status ot_stream_open(ot_session *session, const char *sql, size_t sql_len, const ot_value *args,
                         size_t args_len, ot_stream **stream);

/* The data of a COPY ... TO STDOUT as it arrives. */
ot_status ot_copy_out(ot_session *session, const char *sql, size_t sql_len, ot_stream **stream);

/* What has come, as a result of at least one message: rows, or data (ot_copy_data). OT_DONE behind the
 * last; or an error, which says that those before it are void. */
ot_status ot_stream_next(ot_stream *stream, int32_t timeout_ms, ot_result **result,
                         ot_error *error);
ot_status ot_copy_data(const ot_result *result, ot_text *data);

/* Has `tell` called whenever ot_stream_next may have something, as ot_call_then. */
ot_status ot_stream_then(ot_stream *stream, void (*tell)(void *), void *user);

/* Ends a stream. The server is asked to stop; in a transaction, which that would fail, the rest is read
 * and dropped. */
void ot_stream_close(ot_stream *stream);

/* A COPY ... FROM STDIN. */
ot_status ot_copy_in(ot_session *session, const char *sql, size_t sql_len, ot_copy **copy);

/* Hands over data, in the format of the COPY; waits while the server takes none. `written` is how much
 * was taken: with OT_AGAIN the rest is to be given again. */
ot_status ot_copy_write(ot_copy *copy, const void *data, size_t len, int32_t timeout_ms,
                        size_t *written, ot_error *error);

/* All data was handed over. Waits until the COPY has begun, at most for this time, and frees it unless
 * OT_AGAIN is returned. The end of the call says how many rows were stored (ot_affected), or that
 * nothing was. */
ot_status ot_copy_end(ot_copy *copy, int32_t timeout_ms, ot_call **call, ot_error *error);

/* Gives a COPY up, and frees it: nothing of it is stored. `call` may be NULL. */
ot_status ot_copy_fail(ot_copy *copy, const char *reason, size_t len, ot_call **call);

/* --- notifications of PostgreSQL, messages of Redis' channels --- */

enum { OT_NOTIFICATION = 1, OT_GAP = 2 };

typedef struct ot_event {
  uint32_t size;   /* OT_EVENT_INIT */
  int32_t kind;    /* OT_GAP: others may be missing, since the connection was lost or nobody read */
  ot_text channel; /* both are valid until the next call for this listener */
  ot_text payload;
  int64_t process_id; /* of the server's process that notified; 0 of Redis */
  uint64_t dropped;   /* of a gap: how many were dropped because they were not read */
} ot_event;

#define OT_EVENT_INIT {sizeof(ot_event), 0, {"", 0}, {"", 0}, 0, 0}

/* Listens to channels, on a connection of its own beside the pool, which is opened again where it is
 * lost. At most 1024 events are kept for the reader. */
ot_status ot_listen(ot_client *client, const ot_text *channels, size_t count,
                    ot_listener **listener);

/* Waits until it listens: what is notified from then on is seen. */
ot_status ot_listener_wait(ot_listener *listener, int32_t timeout_ms, ot_error *error);

/* The next event. An error says why it can't listen; it goes on trying. */
ot_status ot_listener_next(ot_listener *listener, int32_t timeout_ms, ot_event *event,
                           ot_error *error);

/* Has `tell` called whenever there may be an event, as ot_call_then. */
ot_status ot_listener_then(ot_listener *listener, void (*tell)(void *), void *user);
void ot_listener_close(ot_listener *listener);

/* --- Redis --- */

/* Submits a command: args[0] is its name, of one word or two ("CLIENT GETNAME"). An error of the server
 * is the error of the call, and its outcome says whether it left something behind. Commands that wait
 * (BLPOP) or change their connection (SELECT, WATCH) are refused, as is OT_VALUE_NULL. */
ot_status ot_command(ot_client *client, const ot_value *args, size_t args_len,
                     const ot_options *options, ot_call **call);

/* What was answered to a command: 0 of ot_command; of a pipeline its place in it. */
ot_status ot_result_reply(const ot_result *result, size_t at, const ot_reply **reply);

enum {
  OT_REPLY_NIL = 0,
  OT_REPLY_STATUS,
  OT_REPLY_ERROR,
  OT_REPLY_INTEGER,
  OT_REPLY_STRING,
  OT_REPLY_DOUBLE,
  OT_REPLY_BOOL,
  OT_REPLY_BIG_NUMBER,
  OT_REPLY_ARRAY,
  OT_REPLY_SET,
  OT_REPLY_MAP /* its items are keys and values, alternating */
};

int32_t ot_reply_kind(const ot_reply *reply);
size_t ot_reply_size(const ot_reply *reply); /* items of an array, a set or a map */
ot_status ot_reply_at(const ot_reply *reply, size_t at, const ot_reply **item);

/* A reply as text, or as a number, also of a string that is one. OT_NULL: it is nil. */
ot_status ot_reply_text(const ot_reply *reply, ot_text *value);
ot_status ot_reply_i64(const ot_reply *reply, int64_t *value);
ot_status ot_reply_f64(const ot_reply *reply, double *value);

/* --- short forms --- */

/* ot_query and ot_wait in one. */
static inline ot_status ot_run(ot_client *client, const char *sql, size_t sql_len,
                               const ot_value *args, size_t args_len, ot_result **result,
                               ot_error *error) {
  ot_call *call = NULL;
  ot_status status = ot_query(client, sql, sql_len, args, args_len, NULL, &call);
  return status ? status : ot_wait(call, -1, result, error);
}

/* The same of a session. */
static inline ot_status ot_session_run(ot_session *session, const char *sql, size_t sql_len,
                                       const ot_value *args, size_t args_len, ot_result **result,
                                       ot_error *error) {
  ot_call *call = NULL;
  ot_status status = ot_session_query(session, sql, sql_len, args, args_len, NULL, &call);
  return status ? status : ot_wait(call, -1, result, error);
}

/* ot_pipe_send and ot_wait in one. */
static inline ot_status ot_pipe_run(ot_pipe *pipe, ot_result **result, ot_error *error) {
  ot_call *call = NULL;
  ot_status status = ot_pipe_send(pipe, &call);
  return status ? status : ot_wait(call, -1, result, error);
}

#ifdef __cplusplus
}
#endif
#endif
