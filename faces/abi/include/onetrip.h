/* onetrip: PostgreSQL and Redis without waiting for round trips, behind a C ABI.
 *
 * The host keeps the socket, the clock and the source of randomness. It hands over the bytes that
 * arrived, writes the bytes that must be sent, and walks a table of completions. MEMORY.md says who
 * owns which bytes, and for how long.
 *
 * Times are milliseconds since a moment that the host chooses; they never go backwards. One thread
 * at a time uses a connection. No function blocks, and none calls back.
 */
#ifndef ONETRIP_H
#define ONETRIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct onetrip_connection onetrip_connection;
typedef struct onetrip_pool onetrip_pool;
typedef struct onetrip_cluster onetrip_cluster;
typedef struct onetrip_cache onetrip_cache;
typedef struct onetrip_sentinel onetrip_sentinel;
typedef struct onetrip_cache_writes onetrip_cache_writes;
typedef struct onetrip_connect onetrip_connect;
typedef struct onetrip_lineage onetrip_lineage;
typedef struct onetrip_replicas onetrip_replicas;

/* The version of this interface. A program must be linked with the version that it was compiled
 * with. */
#define ONETRIP_ABI_VERSION 1
uint32_t onetrip_abi_version(void);

/* --- what happened --- */

typedef struct onetrip_completion {
    uint32_t kind;  /* ONETRIP_READY, … */
    uint32_t token; /* the request, by the host's own number; 0 for none */
    uint32_t a;     /* depends on the kind */
    uint32_t b;     /* depends on the kind */
    size_t len;     /* of the block, in bytes; 0 if there is none */
    const uint8_t *block; /* null if there is none */
} onetrip_completion;

enum {
    ONETRIP_READY = 1,         /* the login has succeeded. a: process id; for Redis the protocol,
                                  2 or 3. b: for Redis, whether the server tells which
                                  keys are changed. Block: server settings, pairs of name and value, each
                                  ended by a zero byte */
    ONETRIP_DATA = 2,          /* whole messages of a reply. a: the number of the statement that
                                  described its rows; 0: the reply does so itself */
    ONETRIP_PIECE = 3,         /* a piece of a long message. a: as above. b: how many bytes of it
                                  are still to come */
    ONETRIP_END = 4,           /* a request ended. a: as above. b: an end, and an outcome << 8.
                                  Block: the last part, or the error */
    ONETRIP_RESTARTED = 5,     /* the parts of this reply so far are void: the request is sent
                                  again */
    ONETRIP_EVENT = 6,         /* a message that belongs to no request. a: which kind. Block: the
                                  message */
    ONETRIP_FULL = 7,          /* a request had to wait in the queue */
    ONETRIP_DRAINED = 8,       /* no request waits, and less than three quarters of the window
                                  are in use; once for each FULL */
    ONETRIP_CANCEL = 9,        /* open a socket for a cancel, and call onetrip_begin_cancel */
    ONETRIP_NOT_CANCELLED = 10, /* a cancel that was asked for is not made, or nothing has come of
                                  it in time: whoever asked waits no longer */
    ONETRIP_ASTRAY = 11,       /* close the connection once all its requests are answered. a: 0 if a
                                  cancel may still arrive, 1 if the server is no longer what
                                  target_session_attrs asks for */
    ONETRIP_CLOSED = 12,       /* the connection has ended. a: why. b: 1 if a retry can't
                                  help; of a message of PostgreSQL's
                                  onetrip_postgres_may_mend says so, and b is 1 if it came
                                  behind a login that the server had taken. Block: the
                                  server's message, or a text */
    ONETRIP_FORGOTTEN = 13,    /* the host can forget the statement with the number a */
    ONETRIP_PASSWORD = 14,     /* the server asks for the password, and ask_password is 1. a: 3
                                  in clear text, 5 by MD5, 10 by SASL */

    ONETRIP_FEED = 15,         /* a COPY FROM STDIN that took no more data takes data again */
    ONETRIP_READ = 16,         /* a: 0 stop reading from the socket, because the caller does not
                                  take the stream fast enough; 1 read again */
    ONETRIP_HELD_UP = 17,      /* requests on a shared connection waited for one that took long.
                                  token: the key of its text; a: how many waited; b: how long it
                                  took, in milliseconds */
    ONETRIP_POSITION = 18,     /* the position in the log of all that was acknowledged before it was
                                  asked for. b: the mark of that time. Block: its token, as text */
    ONETRIP_UNCERTAIN = 19,    /* whether writes were acknowledged whose position is not known,
                                  in front of their ends. a: 0 no, 1 yes, 2 the connection ended
                                  meanwhile */
    ONETRIP_GUARD_PASSED = 20, /* the guard in front of a read has passed, and shows more than those
                                  before it on this connection. token: that of the read; a, b: how
                                  far the server has replayed, upper and lower half; 0: it did not
                                  say */
    ONETRIP_GUARD_BEHIND = 21, /* the guard has failed, so the read ends as ONETRIP_END_ABORTED and
                                  has not run: the server is not there yet. The rest as above */
    ONETRIP_GUARD_FAILED = 22, /* the guard was not answered, or failed otherwise */
    ONETRIP_IDENTIFIED = 23,   /* the server has answered onetrip_postgres_identify, and the
                                  connection can be used */
    ONETRIP_UNSENT = 24,       /* the connection ended before any byte of this shared request was
                                  sent. Its END follows, unless the host lets it wait for another
                                  connection, as onetrip_pool_again says. Block: its parameters, as
                                  they were submitted */
    ONETRIP_POOL_OPEN = 32,    /* open a connection. a: its number from now on */
    ONETRIP_POOL_GRANTED = 33, /* a caller gets this connection alone. a: its number; 0 if it was
                                  lost meanwhile */
    ONETRIP_POOL_PLACED = 34,  /* submit a shared request on this connection. a: its number */
    ONETRIP_POOL_FAILED = 35,  /* a caller gets no connection. a: why */
    ONETRIP_POOL_RESET = 36,   /* reset this idle connection, unless a request went out on it
                                  meanwhile. a: its number */
    ONETRIP_POOL_CLOSE = 37,   /* close this connection, or stop opening it: the pool has
                                  forgotten it. a: its number */
    ONETRIP_POOL_SCOUT = 38,   /* the server is silent: look for another one, beside the pool's
                                  connections, then call onetrip_pool_scouted */

    ONETRIP_CLUSTER_SEND = 48,        /* send a command, or a part of one, to a node, behind what
                                         was sent there before. token: the token of the command.
                                         a: the number of the flight. b: the node */
    ONETRIP_CLUSTER_SEND_ASKING = 49, /* the same behind ASKING, whose reply is dropped */
    ONETRIP_CLUSTER_REPLY = 50,       /* a command was answered. Block: the reply, which may be
                                         an error */
    ONETRIP_CLUSTER_ERROR = 51,       /* a command failed. a: why. b: the outcome. Block: the
                                         server's error */
    ONETRIP_CLUSTER_FAILED = 52,      /* the same without an error of a server. Block: a text */
    ONETRIP_CLUSTER_ASK = 53,         /* ask for the topology with CLUSTER SLOTS. a: the node; 0:
                                         a server that the host was configured with */
    ONETRIP_CLUSTER_OPEN = 54,        /* a node has joined the cluster. a: its number. b: its
                                         port. Block: its host */
    ONETRIP_CLUSTER_CLOSE = 55,       /* a node has left the cluster. a: its number */
    ONETRIP_CLUSTER_UNSUBSCRIBE = 56, /* unsubscribe a sharded channel at a node, if a connection
                                         to it stands. a: the node. Block: the channel */
    ONETRIP_CLUSTER_RESUBSCRIBED = 57, /* a sharded channel is subscribed again: messages may have
                                         been missed. Block: the channel */

    ONETRIP_SENTINEL_OPEN = 64,      /* connect to a Sentinel and send it bytes. token: the number
                                        of the line. a: its port. b: the length of its host.
                                        Block: its host, then the bytes */
    ONETRIP_SENTINEL_CLOSE = 65,     /* close a line, or stop opening it. token: its number */
    ONETRIP_SENTINEL_DIAL = 66,      /* connect to a server, and give up an earlier attempt of the
                                        same seat. token: the seat. a: the role that the server
                                        must have. b: its port. Block: its host */
    ONETRIP_SENTINEL_LEAVE = 67,     /* close the connection of a seat at once: its server has
                                        another role. token: the seat, which is free again */
    ONETRIP_SENTINEL_NOT_FOUND = 68  /* the server for a seat was not found in time. token: the
                                        seat, which is free again. Block: a text */
};

/* How a request ended: b & 0xff of ONETRIP_END. */
enum {
    ONETRIP_END_COMPLETE = 0,
    ONETRIP_END_PROVISIONAL = 1, /* complete, if its segment ends without an error */
    ONETRIP_END_SERVER = 2,      /* the server answered with an error. Block: the error */
    ONETRIP_END_ABORTED = 3,     /* an earlier request of its segment failed */
    ONETRIP_END_DEADLINE = 4,
    ONETRIP_END_CANCELLED = 5,
    ONETRIP_END_CLOSED = 6,
    ONETRIP_END_BEGIN = 7,       /* it did not run, because the BEGIN held in front of it failed.
                                    Block: the error to BEGIN */
    ONETRIP_END_SAVEPOINT = 8,   /* the same for the SAVEPOINT in front of it */
    ONETRIP_END_ROLLED_BACK = 9, /* its effect was rolled back. Block: why, as a text with a zero
                                    byte, then the server's error, if that is known */
    ONETRIP_END_UNCONFIRMED = 10 /* the server committed it, but no longer waited for a synchronous
                                    standby to confirm it */
};

/* The outcome of a request that failed: b >> 8 of ONETRIP_END. */
enum {
    ONETRIP_OUTCOME_NONE = 0,     /* it did not fail */
    ONETRIP_OUTCOME_NOT_SENT = 1, /* no byte of it was sent */
    ONETRIP_OUTCOME_REJECTED = 2, /* the server answered that it had no effect */
    ONETRIP_OUTCOME_APPLIED = 3,  /* it took effect; only reading the reply failed */
    ONETRIP_OUTCOME_UNKNOWN = 4   /* it was sent, and no final reply arrived */
};

/* Messages that belong to no request: a of ONETRIP_EVENT. */
enum {
    ONETRIP_EVENT_NOTICE = 1,
    ONETRIP_EVENT_NOTIFICATION = 2,
    ONETRIP_EVENT_PARAMETER_STATUS = 3,
    ONETRIP_EVENT_PUSH = 4
};

/* Why a connection ended: a of ONETRIP_CLOSED. */
enum {
    ONETRIP_CLOSE_HOST = 1,      /* the host closed it, or the peer did */
    ONETRIP_CLOSE_SERVER = 2,    /* the server ended it. Block: its error */
    ONETRIP_CLOSE_VIOLATION = 3, /* a message broke the protocol. Block: which */
    ONETRIP_CLOSE_STALLED = 4,   /* the peer accepted no bytes for too long */
    ONETRIP_CLOSE_LOGIN = 5,     /* the login failed on the client's side. Block: why */
    ONETRIP_CLOSE_NO_MEMORY = 6, /* no memory for bytes that arrived or must be sent. Block: what
                                    to do */
    ONETRIP_CLOSE_UNUSABLE = 7,  /* no caller can use the session after a statement that was sent
                                    on it. Block: why */
    ONETRIP_CLOSE_NOT_RESET = 9, /* the session could not be reset after its previous user, or a row
                                    of an isolated run ended as ONETRIP_END_UNCONFIRMED. Block:
                                    which. 8 is reserved for hosts */
    ONETRIP_CLOSE_OTHER_ROLE = 10, /* a server of Redis has not the setting role. Block: a text that
                                    goes behind its address */
    ONETRIP_CLOSE_REFUSED = 11   /* the server is a former primary: another was promoted since.
                                    Block: why, as text that follows the server's name */
};

/* The roles of servers that Redis Sentinels know. */
enum {
    ONETRIP_ROLE_MASTER = 1,
    ONETRIP_ROLE_REPLICA = 2
};

/* Why a caller got no connection: a of ONETRIP_POOL_FAILED. */
enum {
    ONETRIP_POOL_LINE_FULL = 1,   /* too many callers wait */
    ONETRIP_POOL_DEADLINE = 2,    /* its deadline passed while other callers had the connections */
    ONETRIP_POOL_OPEN_FAILED = 3, /* no connection could be opened */
    ONETRIP_POOL_CLOSED = 4       /* the pool closes */
};

/* --- memory --- */

/* Null for a length of 0, or if there is not so much memory. */
uint8_t *onetrip_alloc(size_t len);
void onetrip_free(uint8_t *start, size_t len);

/* --- connections --- */

/* A connection without a server. A submitted request ends at once with its own bytes, which are
 * also sent. Bytes that arrive come out unchanged. */
onetrip_connection *onetrip_echo_new(void);

/* A connection to PostgreSQL over a socket that is open, after the TLS handshake if there is TLS.
 * The login is ready to be sent. Requests may be submitted at once; they follow it. nonce: 18 fresh
 * random bytes. settings: pairs of name and value, each ended by a zero byte; defaults in
 * parentheses:
 * - user; database; password
 * - secure_channel (0; 1: only the server can read what is sent); allow_cleartext (0; 1)
 * - ask_password (0; 1: ONETRIP_PASSWORD comes when the server asks for a password)
 * - channel_binding (the hash of the server's certificate for tls-server-end-point, in hexadecimal)
 * - scram_iterations_max (100000)
 * - parameter.NAME (a parameter of the startup packet)
 * - in_flight_max (1024 requests), in_flight_bytes_max (1 MiB)
 * - queue_max (16384 requests), queue_bytes_max (16 MiB)
 * - stall_timeout_ms (30000)
 * - prepare_threshold (5: the use at which a text is prepared; 0: never); statements_max (256)
 * - pieces (0: a row or a part of a COPY longer than 128 KiB is put together; 1: it comes as
 *   ONETRIP_PIECE)
 * - message_bytes_max (1 GiB: the longest message that is put together)
 * - target_session_attrs ("any"): see ONETRIP_ASTRAY;
 * - hold_begin (0; 1: a plain BEGIN outside a transaction is answered at once, and sent with the
 *   first statement behind it. If only a COMMIT or ROLLBACK follows, nothing is sent. If the server
 *   refuses the BEGIN, all requests up to the end of the transaction end as ONETRIP_END_BEGIN. With
 *   an in_flight_max of 1, a BEGIN and its first statement count as one)
 */
onetrip_connection *onetrip_postgres_new(double now, const uint8_t *settings, size_t len, const
                                         uint8_t *nonce);

/* Answers an ONETRIP_PASSWORD. given: whether there is a password. */
void onetrip_postgres_password(onetrip_connection *connection, double now, bool given, const uint8_t
                               *password, size_t len);

/* Frees a connection. Nothing is sent to the server, and requests in flight are not reported. */
void onetrip_connection_free(onetrip_connection *connection);

/* --- bytes of the peer --- */

/* Room for len bytes that the peer sent. Null if there is no memory for them: then the connection
 * has ended. */
uint8_t *onetrip_input(onetrip_connection *connection, size_t len);
void onetrip_received(onetrip_connection *connection, double now, size_t len);

/* Whether the bytes received so far end at the end of a message. Asked before other code reads the
 * bytes of a connection that has no requests. */
bool onetrip_is_between(onetrip_connection *connection);
/* How many bytes are to be sent now. What may wait for the next reply is not among them before that came: ask again then. */
size_t onetrip_transmit_len(onetrip_connection *connection);
const uint8_t *onetrip_transmit(onetrip_connection *connection);
void onetrip_written(onetrip_connection *connection, double now, size_t len);
void onetrip_peer_closed(onetrip_connection *connection);
/* The host found that a reply breaks the protocol, such as a row that does not fit its columns. The
 * connection ends, and all requests in flight with it. */
void onetrip_postgres_violated(onetrip_connection *connection);
/* Takes no more requests, and says goodbye to the server when all are answered. */
void onetrip_terminate(onetrip_connection *connection, double now);

/* --- time --- */

/* The time at which to call onetrip_time; infinity for never. Each call may change it. */
double onetrip_deadline(onetrip_connection *connection);
void onetrip_time(onetrip_connection *connection, double now);

/* --- requests --- */

/* What a request is, as flags. */
enum {
    ONETRIP_SIMPLE = 1,    /* any number of statements, by the simple protocol */
    ONETRIP_BINARY = 2,    /* results in binary format */
    ONETRIP_MEMBER = 4,    /* more of the same segment follows, before anything else is submitted */
    ONETRIP_UNPREPARED = 8, /* never prepared automatically */
    ONETRIP_COPY_IN = 16,  /* a COPY FROM STDIN: the first of its data is in the place of the
                              parameters, and the rest is fed */
    ONETRIP_STREAM = 32,   /* the host takes its reply as it arrives, on a connection that one
                              caller has alone */
    ONETRIP_REPEATABLE = 64, /* it may run twice. On a shared connection, adjacent reads with this
                               flag share a sync point */
    ONETRIP_DESCRIBE = 128 /* it is described and not run: the types of its parameters, and its
                              columns */
};

/* Why a request was refused. Nothing of it was sent, and no completion comes under its token. */
#define ONETRIP_REFUSED_CLOSED (-1.0)
#define ONETRIP_REFUSED_FULL (-2.0)
#define ONETRIP_REFUSED_MALFORMED (-3.0)
#define ONETRIP_REFUSED_NAME_TAKEN (-4.0)
#define ONETRIP_REFUSED_NO_MEMORY (-5.0)

/* What the text of a statement is, as bits. */
enum {
    ONETRIP_SHOWS_CONTROL = 1,       /* it begins, ends or subdivides a transaction */
    ONETRIP_SHOWS_LOCAL = 2,         /* its effect ends with its transaction: SET LOCAL, SET
                                        CONSTRAINTS */
    ONETRIP_SHOWS_SESSION = 4,       /* it creates, uses or drops something that lives in the
                                        session */
    ONETRIP_SHOWS_ALONE = 8,         /* it commits by itself and can't run inside a transaction */
    ONETRIP_SHOWS_COPY = 16,         /* COPY FROM STDIN or TO STDOUT */
    ONETRIP_SHOWS_CALL = 32,         /* CALL or DO: it may commit in between */
    ONETRIP_SHOWS_SEVERAL = 64,      /* more than one statement; the other bits are those of all
                                        of them together */
    ONETRIP_SHOWS_READ = 128,        /* one read that contains no write */
    ONETRIP_SHOWS_SAVEPOINT = 256,   /* control that leaves the transaction open */
    ONETRIP_SHOWS_COMMIT = 512,      /* COMMIT or END */
    ONETRIP_SHOWS_COPY_IN = 1024,    /* COPY FROM STDIN */
    ONETRIP_SHOWS_QUERY = 2048,      /* SELECT and the like, INSERT, UPDATE, DELETE, MERGE, SHOW */
    ONETRIP_SHOWS_MAY_LEAVE = 4096,  /* it may leave something behind in its session: it is not
                                        on the list of harmless statements */
    ONETRIP_SHOWS_RENAMES = 32768,   /* the names in later texts of its session may mean other
                                        things behind it */
    ONETRIP_SHOWS_SHAREABLE = 65536  /* it may run on a shared connection: one query that does
                                        not depend on the session */
};

uint32_t onetrip_postgres_classify(const uint8_t *text, size_t len);

/*
 * The key of a text, by which a pool knows how long its statements take, and whether they may wait
 * for a lock (onetrip_pool_place, onetrip_pool_wait_shared, onetrip_postgres_submit). Digits and
 * single-quoted strings are left out, so texts that differ only in these have the same key. It is
 * at least 2; 0 for a text that is not UTF-8.
 */
uint32_t onetrip_postgres_text_key(const uint8_t *text, size_t len);

/* A bit of the key of a pipeline, which otherwise is that of its first statement: it is never taken
   away from what is behind it. */
enum { ONETRIP_KEY_STAYS = 1073741824 };

/* Where a statement is about to be sent. */
enum {
    ONETRIP_PLACE_SHARED = 0,     /* a connection that other callers use too, with its own sync
                                     point */
    ONETRIP_PLACE_PIPELINE = 1,   /* a pipeline on such a connection */
    ONETRIP_PLACE_ALONE = 2,      /* the same, between two sync points */
    ONETRIP_PLACE_SESSION = 3,    /* a connection that the caller has alone */
    ONETRIP_PLACE_TRANSACTION = 4, /* the same, inside a transaction that must see each BEGIN,
                                      COMMIT and ROLLBACK */
    ONETRIP_PLACE_READ = 5        /* where a replica may serve it, which only reads may ask for */
};

/* Why a statement with the bits shown must not be sent to place: a code for programs and a
 * sentence, each ended by a zero byte. Null if it may be sent. */
const uint8_t *onetrip_postgres_refusal(uint32_t shown, uint32_t place);

/* Whether a later login may succeed after the server refused this one with an ErrorResponse of len
 * bytes, including its type byte. If not, callers must not wait for another attempt. */
uint32_t onetrip_postgres_may_mend(const uint8_t *error, size_t len);

/* Room for a request of len bytes. Null if there is no memory for it. */
uint8_t *onetrip_request(onetrip_connection *connection, size_t len);
bool onetrip_echo_submit(onetrip_connection *connection, uint32_t token, size_t len);

/* Submits a statement: the first len bytes of the room. They are the text, the name, and the
 * parameters as in a Bind message (formats, then values; empty for none). token: from 1 to 1048576;
 * free again when ONETRIP_END has come. timeout: in milliseconds, includes the time in the queue; 0
 * or infinity for none. key: identifies the text to a pool, which measures how long it takes: a
 * number from 2 that is the same for the same text; 1 for a request that should be alone on its
 * connection; 0 if unknown. Returns 0 if it was sent, its place in the queue if it waits, or why it
 * was refused. */
double onetrip_postgres_submit(onetrip_connection *connection, double now, uint32_t token, uint32_t
                               flags, size_t text_len, size_t name_len, size_t len, double timeout,
                               uint32_t key);

/* Hands over more data of a COPY FROM STDIN: the first len bytes of the room. part: 0 data; 1 the
 * end of the data; 2 the caller gives up, and the room holds the reason in UTF-8. Returns 1 if it
 * was taken; 0 if it was not: ONETRIP_FEED says when it will be, unless the COPY ends first; or why
 * it was refused. A COPY that is given up before it was sent is taken back. */
double onetrip_postgres_feed(onetrip_connection *connection, double now, uint32_t token, uint32_t
                             part, size_t len);

/* The host has consumed bytes bytes of a stream's reply. */
void onetrip_postgres_taken(onetrip_connection *connection, size_t bytes);

/* The caller takes no more of a stream: only its end is reported. rest says what happens to the
 * rest of the reply. 0: it is read and dropped, as in a transaction. 1: the server is asked to
 * stop, as outside a transaction. 2: the same, and the connection ends if the rest is long, because
 * no other caller uses it. */
void onetrip_postgres_leave(onetrip_connection *connection, double now, uint32_t token, uint32_t
                            rest);

/* Asks the server which it is, where the connect plan says so, before anything else is sent.
 * ONETRIP_IDENTIFIED says that it has answered. */
void onetrip_postgres_identify(onetrip_connection *connection);

/* No caller goes on with the transaction: sends a BEGIN that is held, and forgets that one was
 * refused. Called before another caller gets the connection. */
void onetrip_postgres_flush(onetrip_connection *connection, double now);

/* Whether a BEGIN is held, unanswered or refused, and its transaction is still open.
 * onetrip_postgres_sync then tells whether the transaction has begun. */
bool onetrip_postgres_is_opening(onetrip_connection *connection);

/* Ends a segment of members with one sync point for all of them. Without members it sends a BEGIN
 * that is held, and ends as the BEGIN does. */
double onetrip_postgres_sync(onetrip_connection *connection, double now, uint32_t token);

/* The rest of a segment of members can't be submitted: what was is undone, at the sync point that the
 * host submits next. */
void onetrip_postgres_fail_segment(onetrip_connection *connection, double now);

/* Begins a transaction on a connection that one caller has alone; nothing is sent yet. Statements
 * submitted from now on belong to it. Members share a sync point, which onetrip_postgres_act adds.
 * modes: the lowest 3 bits are the isolation level (0 the server's default, 1 read uncommitted, 2
 * read committed, 3 repeatable read, 4 serializable), the next 2 bits say whether it is read only,
 * and the 2 bits after them whether it is deferrable (0 the server's default, 1 yes, 2 no). */
void onetrip_postgres_begin(onetrip_connection *connection, uint32_t modes);

/* Acts on that transaction. act:
 * - 0 sets a savepoint; statements submitted from now on are behind it.
 * - 1 releases the innermost savepoint, or rolls back to it if a statement behind it has failed.
 * - 2 rolls back to the innermost savepoint.
 * - 3 is COMMIT, and 4 is ROLLBACK.
 * - 5 ends the segment of the members that were submitted.
 * - 6 returns whether the start of the transaction was answered. A COPY or a text of the simple
 *   protocol is only taken after that.
 * - 7 returns whether the transaction is to be run again as it stands.
 * - 8 returns the outcome of a statement that was sent with COMMIT and failed. token is the outcome
 *   of the statement alone.
 * - 9 forgets the transaction.
 * - 10 returns whether something of the innermost level may have reached the server.
 * - 11 says that a statement of the innermost level was given up before it was submitted. It can't be
 *   committed or released without it: 1 and 3 then roll back, and say so.
 *
 * 1, 3 and 4 end under the token. Returns the answer, or why it was refused.
 */
double onetrip_postgres_act(onetrip_connection *connection, double now, uint32_t act, uint32_t
                            token);

/* The pause before a transaction is run again that has failed failures times, in milliseconds.
 * Negative if it is not run again, after attempts_max attempts (0: the default). seed: any number,
 * a different one for each transaction. */
double onetrip_retry_pause(uint32_t failures, uint32_t attempts_max, double seed);

/* What is known of a failure that leaves a transaction which was not committed, a savepoint that was
 * not kept, or a pipeline of which nothing is sent. by: 0 a failure of its own, 1 the same where the
 * server has answered the ROLLBACK, 2 that of another statement, 3 that of COMMIT. has_left: a part
 * of the whole may have reached the server (act 10). */
uint32_t onetrip_outcome_left(uint32_t failure, uint32_t by, bool has_left);

/* What becomes of a segment. members: a byte for each of its len statements: an ONETRIP_OUTCOME, or
 * ONETRIP_MEMBER_SKIPPED if the server skipped it. end: the outcome of its sync point, or 0 if that
 * was answered. Returns 0 if it succeeded; else the outcome of the whole, and in the bits above the
 * first three the number of the statement that is the cause, from 1, or 0 if none is. */
enum { ONETRIP_MEMBER_SKIPPED = 5 };
uint32_t onetrip_segment_failure(const uint8_t *members, size_t len, uint32_t end);

/* What is known of a statement over all its attempts, of which the last one failed with the outcome
 * last. may_have_run: an earlier one was sent and not answered. */
uint32_t onetrip_outcome_over_attempts(uint32_t last, bool may_have_run);

/* Takes back a request that waits in the queue at this place: it ends as cancelled. False if it no
 * longer waits there. */
bool onetrip_cancel(onetrip_connection *connection, double now, double place);

/* Asks for a request that was sent to be cancelled at the server, if that can't hit another
 * request. It ends, or NOT_CANCELLED comes, within 5 s. A COMMIT or ROLLBACK behind it in its
 * transaction is waited for no longer either: the connection then ends. */
void onetrip_want_cancel(onetrip_connection *connection, double now, uint32_t token);

/* The caller of a request that was sent waits no longer, and does not want it to be cancelled. A
 * ROLLBACK behind it in its transaction is waited for no longer than behind a cancel. */
void onetrip_let_run(onetrip_connection *connection, uint32_t token);

/* The bytes of a cancel, to be sent alone on its own socket; their length is the first four bytes.
 * Null if the cancel must no longer be sent. A server ignores a cancel that comes before the
 * request has begun: while the request is unanswered, the host may send the same bytes again, each
 * time on a new socket. It calls onetrip_cancel_ended after the last one. */
const uint8_t *onetrip_begin_cancel(onetrip_connection *connection, double now);
/* end: 0 no byte of it was sent; 1 the server closed its socket; 2 unknown. */
void onetrip_cancel_ended(onetrip_connection *connection, double now, uint32_t end);

/* Sets who uses the session from now on. 0: all callers, who must not change it; if one does, the
 * connection ends as ONETRIP_CLOSE_UNUSABLE. 1: one caller alone. 2: no caller; nothing is in
 * flight. 3: a caller that has run something that did not go through this connection. Returns
 * whether a reset of the session is owed or in flight. The reset is sent in front of the next
 * request, and nothing behind it runs unless it succeeds. Without this call the host itself is
 * responsible for the session. */
bool onetrip_postgres_hold(onetrip_connection *connection, uint32_t holder);

/* Sends a reset that is owed now, and not with the next request. */
void onetrip_postgres_reset(onetrip_connection *connection, double now);

/* --- what happened --- */

/* Frees the completions that were taken before, and takes the ones since. Returns how many. */
size_t onetrip_take(onetrip_connection *connection);
const onetrip_completion *onetrip_completions(onetrip_connection *connection);

/* The transaction status of the last ReadyForQuery: 'I', 'T' or 'E'. */
uint32_t onetrip_postgres_status(onetrip_connection *connection);
size_t onetrip_in_flight(onetrip_connection *connection);
size_t onetrip_queued(onetrip_connection *connection);

/* --- Redis --- */

/* A connection to Redis over a socket that is open, after the TLS handshake if there is TLS. The
 * login is ready to be sent: HELLO, the commands for the settings, and PING; if the server has no
 * HELLO, AUTH and the like instead. Commands may be submitted at once; they follow it. DATA and END
 * hold whole replies in wire format; pushes come as ONETRIP_EVENT_PUSH. settings: pairs of name and
 * value, each ended by a zero byte; defaults in parentheses:
 * - user; password; database (0); client_name
 * - protocol (3, with a fallback to 2 if the server lacks it; 2: only 2)
 * - subscriber (0; 1: the connection is for subscriptions; on RESP2 their messages look like
 *   replies)
 * - readonly (0; 1: it may read from a replica of a cluster)
 * - reply_bytes_max (513 MiB: the longest reply; a reply is kept until it is complete, and a longer
 *   one ends the connection)
 * - in_flight_max (10000 requests), in_flight_bytes_max (16 MiB)
 * - queue_max (16384 requests), queue_bytes_max (16 MiB)
 * - stall_timeout_ms (30000)
 */
onetrip_connection *onetrip_redis_new(double now, const uint8_t *settings, size_t len);

/* What commands are, as flags. */
enum {
    ONETRIP_REDIS_LEAVES = 1,    /* for one command: its effects before an error remain */
    ONETRIP_REDIS_CONFIRMED = 2, /* pushes confirm it, as for SUBSCRIBE: one push for each
                                    channel */
    ONETRIP_REDIS_ATOMIC = 4     /* MULTI, the list, and EXEC, possibly behind ASKING, all of
                                    them among the replies. If EXEC is refused and MULTI remains
                                    open, the connection ends */
};

/* Submits commands in wire format: len bytes of the room. The first text_len bytes are the text of
 * the script that the one command behind them calls by its hash; 0 for no script. The first call is
 * sent as EVAL with the text, and so is each call after one has failed. If the server has forgotten
 * the script, the text is loaded and the call is sent again automatically, unless something was
 * sent behind it. replies: how many replies come, errors included; 0 for one command whose error
 * ends the request as failed (ONETRIP_END_SERVER). The host guarantees this number. The rest is as
 * in onetrip_postgres_submit. */
double onetrip_redis_submit(onetrip_connection *connection, double now, uint32_t token, uint32_t
                            flags, uint32_t replies, size_t text_len, size_t len, double timeout);

/* Sends scripts as texts from now on, because the caller says MULTI. */
void onetrip_redis_scripts_as_texts(onetrip_connection *connection);

/* What is known of a command. */
typedef struct onetrip_redis_traits {
    uint32_t bits;      /* ONETRIP_REDIS_KNOWN, …; and a shifted place */
    size_t advice_len;
    const uint8_t *advice; /* what to do instead if it can't be sent on a shared connection;
                              lives as long as the library */
} onetrip_redis_traits;

enum {
    ONETRIP_REDIS_KNOWN = 1,
    ONETRIP_REDIS_READONLY = 2,
    ONETRIP_REDIS_WRITE = 4,
    ONETRIP_REDIS_MAY_LEAVE = 8,   /* its effects before an error remain; set for unknown
                                      commands too */
    ONETRIP_REDIS_NO_MULTI = 16,   /* the server refuses it between MULTI and EXEC */
    ONETRIP_REDIS_KEYS_KNOWN = 32,
    ONETRIP_REDIS_DEPENDS = 64,    /* its place depends on its arguments */
    ONETRIP_REDIS_CACHEABLE = 1024, /* its reply may be kept until one of its keys is changed */
    ONETRIP_REDIS_CHANGES = 2048,  /* it may change what is kept of other replies */
    ONETRIP_REDIS_PLACE_SHIFT = 8, /* the place takes two bits from here */
    ONETRIP_REDIS_SHARED = 0,      /* a place: a shared connection */
    ONETRIP_REDIS_OWN = 1,         /* it may block, so it needs its own connection */
    ONETRIP_REDIS_SESSION = 2,     /* it changes the state of its connection or depends on it */
    ONETRIP_REDIS_NOWHERE = 3      /* it can't be sent, because one reply does not answer it */
};

/* What is known of a command in wire format. False if there is no memory to parse a command this
 * long. */
bool onetrip_redis_look(const uint8_t *command, size_t len, onetrip_redis_traits *traits);
/* The hash slot of a key. */
uint32_t onetrip_redis_slot(const uint8_t *key, size_t len);
/* How long a command waits in the line of a node of a cluster, in milliseconds. wait_timeout: how
 * long it would in that of another server. */
double onetrip_redis_line_wait(double wait_timeout);
/* The outcome of a command that was answered by an error among several replies. */
uint32_t onetrip_redis_outcome(const uint8_t *error, size_t len, bool leaves);

/* --- pools ---
 *
 * A pool decides for connections that the host opens and drives: which connection a request is sent
 * on, when another one is opened, who waits and who is next, and what expires. A connection that
 * was added to a pool must live until the pool was told that it is lost or broken, or until the
 * pool has said ONETRIP_POOL_CLOSE for it, or until the pool is freed.
 */

/* seed: any number, a different one for each pool. settings, as above: connections_max (10),
 * connections_min (0), waiting_max (16384 callers), opening_max (4 at a time), wait_timeout_ms
 * (30000), idle_timeout_ms (600000; 0: never), lifetime_ms (1800000; 0: unlimited), slow_head_ms
 * (10), backoff_min_ms (25), backoff_max_ms (2000), oldest_first (0: the idle connection that was
 * used last is used next; 1: the one that has been idle longest), and hosts and
 * target_session_attrs as in onetrip_connect_new, which say whether ONETRIP_POOL_SCOUT may come. If
 * one is wrong, ONETRIP_CLOSED says what is wrong. */
onetrip_pool *onetrip_pool_new(double now, const uint8_t *settings, size_t len, double seed);
void onetrip_pool_free(onetrip_pool *pool);

/* timeout: in milliseconds; 0: no waiting; infinity: no limit; negative: wait_timeout_ms. */
bool onetrip_pool_checkout(onetrip_pool *pool, double now, uint32_t token, double timeout);
/* The number of the connection that a shared request can be sent on now; 0 if it has to wait. key:
 * as in onetrip_postgres_submit. */
uint32_t onetrip_pool_place(onetrip_pool *pool, double now, uint32_t key);
bool onetrip_pool_wait_shared(onetrip_pool *pool, double now, uint32_t token, uint32_t key, double
                              timeout);
/* Counts a request that may be hedged. */
void onetrip_pool_may_hedge(onetrip_pool *pool);
/* Whether to hedge a repeatable request that is unanswered on this connection. Positive: send it
 * again, on the connection with that number. Negative: ask again after that many milliseconds. key:
 * as above. */
double onetrip_pool_hedge(onetrip_pool *pool, double now, uint32_t number, uint32_t key);
/* A caller stops waiting. False if its answer is already in the completions. */
bool onetrip_pool_give_up(onetrip_pool *pool, double now, uint32_t token);

/* The condition in which a connection is returned. */
enum {
    ONETRIP_CONDITION_CLEAN = 0,         /* its session is as it was when it was opened */
    ONETRIP_CONDITION_DIRTY = 1,         /* a reset is sent with the next request */
    ONETRIP_CONDITION_DIRTY_HOLDING = 2, /* the same, and callers may wait for it */
    ONETRIP_CONDITION_BROKEN = 3         /* the pool forgets it */
};
void onetrip_pool_release(onetrip_pool *pool, double now, uint32_t number, uint32_t condition);

/* Until when a shared request of which ONETRIP_UNSENT was told may wait in line for another
 * connection; negative if it has failed. It is then placed as at first, and waits no longer than
 * that. times: how often it was so before. until: what was returned then. left: the milliseconds
 * that are left of its own time; infinity for wait_timeout_ms from the first time on. */
double onetrip_pool_again(onetrip_pool *pool, double now, uint32_t times, double until,
                          double left);

/* The pause before a repeatable request whose connection was lost is sent again for the number-th
 * time, in milliseconds; negative if it is not sent again. */
double onetrip_pool_repeat_pause(uint32_t number, double seed);

void onetrip_pool_opened(onetrip_pool *pool, double now, uint32_t number, onetrip_connection
                         *connection);
/* permanent: a retry can't help, as after a wrong password. */
void onetrip_pool_open_failed(onetrip_pool *pool, double now, uint32_t number, bool permanent);
void onetrip_pool_lost(onetrip_pool *pool, double now, uint32_t number);
void onetrip_pool_retire(onetrip_pool *pool, double now, uint32_t number);
/* Replies have arrived on a connection: a waiting request may have room there now, or it may have
 * answered the last that the pool waits for before it closes it. To be called whenever replies have
 * arrived, and quick where nobody waits. Returns whether there may be completions. */
bool onetrip_pool_answered(onetrip_pool *pool, double now, uint32_t number);
/* The host has acted on all completions of the last table: each request of an ONETRIP_POOL_PLACED
 * was submitted, or never will be. Until this call the connections of these requests count as busy.
 * To be called after each table that holds an ONETRIP_POOL_PLACED. */
void onetrip_pool_acted(onetrip_pool *pool, double now);

double onetrip_pool_deadline(onetrip_pool *pool);
void onetrip_pool_time(onetrip_pool *pool, double now);
/* The attempt that ONETRIP_POOL_SCOUT asked for is over, whatever it met. */
void onetrip_pool_scouted(onetrip_pool *pool, double now);
/* Who asks from now on is refused, who waits is still served. ONETRIP_CLOSED comes when no connection is left. */
void onetrip_pool_close(onetrip_pool *pool, double now);
/* The same, but who waits is refused, too. Connections that are in use are for the host to end, as lost ones. */
void onetrip_pool_cut(onetrip_pool *pool, double now);

size_t onetrip_pool_connections(onetrip_pool *pool);
size_t onetrip_pool_idle(onetrip_pool *pool);
size_t onetrip_pool_waiting(onetrip_pool *pool);
size_t onetrip_pool_take(onetrip_pool *pool);
const onetrip_completion *onetrip_pool_completions(onetrip_pool *pool);

/* --- clusters of Redis ---
 *
 * A cluster decides for nodes that the host opens and drives: which node a command is sent to, what
 * is sent again, and how several replies are put together.
 */

/* redirects_max: how many redirects one command follows. held_max: how many commands may wait for a
 * node, for at most held_time_max milliseconds. seed: any number, a different one for each cluster.
 */
onetrip_cluster *onetrip_cluster_new(uint32_t redirects_max, uint32_t held_max, double
                                     held_time_max, double seed);
void onetrip_cluster_free(onetrip_cluster *cluster);

/* What a command is, as flags. */
enum {
    ONETRIP_CLUSTER_REPEATABLE = 1,   /* running it twice is harmless */
    ONETRIP_CLUSTER_FROM_REPLICA = 2, /* a replica may answer it if it only reads */
    ONETRIP_CLUSTER_OWN = 4,          /* it may block, so it is sent on its own connection,
                                         outside the order */
    ONETRIP_CLUSTER_WHOLE = 8         /* a script, or MULTI with a list: it is sent as the host
                                         wrote it */
};
/* Takes a command in wire format. ONETRIP_CLUSTER_REPLY, _ERROR or _FAILED ends it. timeout: in
 * milliseconds; 0 for none. */
void onetrip_cluster_submit(onetrip_cluster *cluster, double now, uint32_t token, uint32_t flags,
                            const uint8_t *commands, size_t len, double timeout);
/* The length of a flight's command in wire format. The command is written to `to`, unless that is
 * null. */
size_t onetrip_cluster_write(onetrip_cluster *cluster, uint32_t flight, uint8_t *to);
/* The whole reply to a flight has arrived, without attributes. is_list: it is all replies to MULTI,
 * a list and EXEC; replies among them that are not errors may be shortened. True if this reply is
 * the result of the command: no completion follows for it. */
bool onetrip_cluster_replied(onetrip_cluster *cluster, double now, uint32_t flight, const uint8_t
                             *reply, size_t len, bool is_list);

/* Why a flight has no reply. */
enum {
    ONETRIP_UNANSWERED_LOST = 0,      /* its connection was lost, or could not be opened */
    ONETRIP_UNANSWERED_EXPIRED = 1,   /* its deadline passed on the connection */
    ONETRIP_UNANSWERED_TAKEN_BACK = 2 /* it was taken back before it was sent, because its caller
                                         gave it up */
};
void onetrip_cluster_unanswered(onetrip_cluster *cluster, double now, uint32_t flight, uint32_t why,
                                uint32_t outcome);
/* The answer to CLUSTER SLOTS of the node at this host and port; empty if there was none. False if
 * it is not a topology. */
bool onetrip_cluster_topology(onetrip_cluster *cluster, double now, const uint8_t *reply, size_t
                              len, const uint8_t *host, size_t host_len, uint32_t port);
/* The caller of a command stops waiting: the command ends. */
void onetrip_cluster_give_up(onetrip_cluster *cluster, double now, uint32_t token);
/* The node that serves a hash slot, or any master if there is no such slot; 0 for none. */
uint32_t onetrip_cluster_node_at(onetrip_cluster *cluster, uint32_t slot);

/* The token of subscriptions that are made again. */
#define ONETRIP_CLUSTER_AGAIN UINT32_MAX
/* Subscribes to a sharded channel. What follows is as for a command, SSUBSCRIBE of this channel; its
 * confirmation is its reply. It is subscribed again wherever that ends, by commands with the token
 * ONETRIP_CLUSTER_AGAIN, until it is unsubscribed. A failed call does not unsubscribe. */
void onetrip_cluster_subscribe(onetrip_cluster *cluster, double now, uint32_t token, const uint8_t
                               *channel, size_t len, double timeout);
/* Nobody reads a sharded channel any more. */
void onetrip_cluster_unsubscribe(onetrip_cluster *cluster, const uint8_t *channel, size_t len);
/* A node has a new connection for the commands of all callers, on which nothing was sent yet, or
 * has lost it. */
void onetrip_cluster_connected(onetrip_cluster *cluster, double now, uint32_t node, bool
                               is_connected);
/* A node has sent a push. True if it says that a channel was unsubscribed. */
bool onetrip_cluster_pushed(onetrip_cluster *cluster, double now, uint32_t node, const uint8_t
                            *push, size_t len);
/* Closes the cluster: nothing is sent any more. Commands that wait end now; flights end as they are
 * reported. */
void onetrip_cluster_close(onetrip_cluster *cluster);

double onetrip_cluster_deadline(onetrip_cluster *cluster);
/* The first call asks for the topology. */
void onetrip_cluster_time(onetrip_cluster *cluster, double now);
size_t onetrip_cluster_take(onetrip_cluster *cluster);
const onetrip_completion *onetrip_cluster_completions(onetrip_cluster *cluster);

/* Why a command of a cluster has no reply. */
enum {
    ONETRIP_WHY_LOST = 1,          /* the connection to its node was lost, or could not be opened */
    ONETRIP_WHY_REDIRECTS = 2,     /* it was redirected too often */
    ONETRIP_WHY_OUTSIDE = 3,       /* it was redirected to a node that is not part of the cluster */
    ONETRIP_WHY_UNSERVED = 4,      /* no node took it in time */
    ONETRIP_WHY_SERVER = 5,        /* a node answered with an error */
    ONETRIP_WHY_MISMATCH = 6,      /* the replies of the nodes can't be put together */
    ONETRIP_WHY_DEADLINE = 7,
    ONETRIP_WHY_GIVEN_UP = 8,
    ONETRIP_WHY_NO_MEMORY = 9,
    ONETRIP_WHY_CLOSED = 10,
    ONETRIP_WHY_CROSS_SLOT = 11,   /* its keys are in several hash slots */
    ONETRIP_WHY_KEYS_UNKNOWN = 12,
    ONETRIP_WHY_NODE_BY_NODE = 13, /* it has a meaning on one node only */
    ONETRIP_WHY_FULL = 14          /* too many commands wait */
};

/* --- Redis Sentinel ---
 *
 * It decides which server is the master and which replica is read from, and when connections to
 * another one are left. The host has two kinds of connections. A line goes to a Sentinel: the host
 * opens it, sends the bytes that it was given, and hands over what comes. A seat is a connection to
 * a server, or an attempt at one.
 */

/* settings, as above: master (its name at the Sentinels), sentinel (host:port, for each), user and
 * password for the Sentinels, reads (master, replica or prefer_replica), wait_timeout_ms (5000).
 * seed: any number, a different one for each client. Null if a setting is wrong. */
onetrip_sentinel *onetrip_sentinel_new(const uint8_t *settings, size_t len, double seed);
void onetrip_sentinel_free(onetrip_sentinel *sentinel);
/* A connection to the server with this role is wanted. seat: the host's number of it, which no other
 * has. ONETRIP_SENTINEL_DIAL or _NOT_FOUND follows. */
void onetrip_sentinel_connect(onetrip_sentinel *sentinel, double now, uint32_t seat, uint32_t role);
/* The connection is open, and its server has its role. */
void onetrip_sentinel_opened(onetrip_sentinel *sentinel, double now, uint32_t seat);
/* The connection could not be opened, or was lost; is_open: its server says that it has lost its
 * role, and the connection takes nothing new. why: a text for messages. */
void onetrip_sentinel_lost(onetrip_sentinel *sentinel, double now, uint32_t seat, bool is_open,
                           const uint8_t *why, size_t len);
/* The connection ended as it should, or is wanted no more. */
void onetrip_sentinel_left(onetrip_sentinel *sentinel, uint32_t seat);
/* Whether a replica answers a command now that goes by itself on a connection that others share.
 * only_reads: that is all it does. */
bool onetrip_sentinel_is_for_replica(onetrip_sentinel *sentinel, bool only_reads);
/* Bytes came from a Sentinel. */
void onetrip_sentinel_input(onetrip_sentinel *sentinel, double now, uint32_t line, const uint8_t
                            *bytes, size_t len);
/* A connection to a Sentinel could not be opened, or has ended. why: a text for messages. */
void onetrip_sentinel_closed(onetrip_sentinel *sentinel, double now, uint32_t line, const uint8_t
                             *why, size_t len);
/* Asks nobody any more. */
void onetrip_sentinel_close(onetrip_sentinel *sentinel);
double onetrip_sentinel_deadline(onetrip_sentinel *sentinel);
/* The first call asks the Sentinels. */
void onetrip_sentinel_time(onetrip_sentinel *sentinel, double now);
size_t onetrip_sentinel_take(onetrip_sentinel *sentinel);
const onetrip_completion *onetrip_sentinel_completions(onetrip_sentinel *sentinel);

/* --- caches of Redis ---
 *
 * A cache keeps replies of one connection at a time, on which the server says which keys are
 * changed (the setting tracking). It decides what is kept and for how long. The host reports that
 * connection, its pushes, what the client asks and what it changes on all of its connections.
 */

/* An empty cache of at most so many bytes. */
onetrip_cache *onetrip_cache_new(size_t bytes_max);
void onetrip_cache_free(onetrip_cache *cache);
/* The connection with this number tracks keys: its replies are kept from now on. Each connection
 * has a number of its own. */
void onetrip_cache_opened(onetrip_cache *cache, uint32_t connection);
/* The connection is lost, or its pushes are not read any more. */
void onetrip_cache_closed(onetrip_cache *cache, uint32_t connection);

/* What onetrip_cache_look_up returns where it returns no reply. */
enum {
    ONETRIP_FOUND_NOTHING = 0, /* the command is sent, and nothing is reported of it */
    ONETRIP_FOUND_JOINED = 1,  /* another caller has asked; `join` comes when that one is answered */
    ONETRIP_FOUND_FETCH = 2    /* the command is sent, and its end reported with `fetch` */
};
/* Looks for the reply to a command in wire format. Returns its address, which is valid until the
 * next call on this cache, or one of ONETRIP_FOUND_…. join: the number of the caller, if it joins.
 * fetch: where the number of a fetch is written to. */
size_t onetrip_cache_look_up(onetrip_cache *cache, const uint8_t *command, size_t len, uint32_t
                             join, uint64_t *fetch);
/* A fetch has ended on this connection, with its whole reply, or with no bytes if none comes.
 * Returns how many joined it: they get this reply, or ask by themselves. */
size_t onetrip_cache_ended(onetrip_cache *cache, const uint64_t *fetch, uint32_t connection, const
                           uint8_t *reply, size_t len);
/* The numbers of those who joined the fetch that ended last. */
const uint32_t *onetrip_cache_joined(onetrip_cache *cache);
/* The caller of a fetch is gone. True if nobody joined it: then it may be taken back, and nothing
 * more is reported of it. */
bool onetrip_cache_left(onetrip_cache *cache, const uint64_t *fetch);
/* A push was read. Returns whether it was one for the cache. */
bool onetrip_cache_pushed(onetrip_cache *cache, const uint8_t *push, size_t len);
/* The client submits these commands, on whichever connection. Returns what they may change; null
 * for nothing. A script is reported as EVAL. */
onetrip_cache_writes *onetrip_cache_submitted(onetrip_cache *cache, const uint8_t *commands, size_t
                                              len);
/* These commands have ended, and their caller is not told yet. Frees writes; cache is null if it was
 * freed before. */
void onetrip_cache_written(onetrip_cache *cache, onetrip_cache_writes *writes);

typedef struct onetrip_cache_counts {
    double hits;          /* commands that were answered from the cache */
    double misses;        /* commands that were sent because it did not have their replies */
    double joined;        /* commands that were answered together with one that was sent already */
    double invalidations; /* keys that were changed; all at once count as one */
    double evicted;       /* replies that were dropped because it was full */
    double bytes;         /* of the replies that it has, with all that belongs to them */
    double entries;       /* replies that it has */
    double is_on;         /* 1 if there is a connection whose replies are kept, 0 if not */
} onetrip_cache_counts;
void onetrip_cache_counts_now(onetrip_cache *cache, onetrip_cache_counts *counts);

/* --- how a client connects to PostgreSQL ---
 *
 * A plan decides what is tried and in which order, with TLS and without, and which server is
 * suitable. The host carries out one action at a time, until the time at which the action must be
 * given up, and reports the result.
 */

/* What one client has seen of servers. All of its plans share it. Null if there is no memory. */
onetrip_lineage *onetrip_lineage_new(void);
void onetrip_lineage_free(onetrip_lineage *lineage);

/* settings, as above: hosts (a letter for each: n for a name to look up, a for an address, s for a
 * Unix socket), connect_timeout_ms (0: no limit), and sslmode, sslnegotiation, target_session_attrs
 * and load_balance_hosts with the values of libpq, and scouts (1: it was asked for by
 * ONETRIP_POOL_SCOUT). lineage: what the client has seen of servers. Null if one is wrong, or if
 * there is no memory. */
onetrip_connect *onetrip_connect_new(double now, const uint8_t *settings, size_t len, double seed,
                                     const onetrip_lineage *lineage);
void onetrip_connect_free(onetrip_connect *connect);

enum {
    ONETRIP_CONNECT_RESOLVE = 1,     /* look up the name of the host */
    ONETRIP_CONNECT_DIAL = 2,        /* open a socket to the address, and close the one before it */
    ONETRIP_CONNECT_ASK_FOR_TLS = 3, /* send SSLRequest, and read one byte */
    ONETRIP_CONNECT_BEGIN_TLS = 4,   /* do the TLS handshake */
    ONETRIP_CONNECT_LOG_IN = 5,
    ONETRIP_CONNECT_DONE = 6,
    ONETRIP_CONNECT_FAILED = 7,
    ONETRIP_CONNECT_IDENTIFY = 8     /* call onetrip_postgres_identify */
};
uint32_t onetrip_connect_action(onetrip_connect *connect);
/* The host of the action, as its position in hosts; and the address, as its position in what the
 * lookup found. */
size_t onetrip_connect_host(onetrip_connect *connect);
size_t onetrip_connect_address(onetrip_connect *connect);
/* The time at which the action must be given up as late; infinity for never. */
double onetrip_connect_until(onetrip_connect *connect);

enum {
    ONETRIP_CONNECT_RESOLVED = 1,  /* a: the number of addresses */
    ONETRIP_CONNECT_CONNECTED = 2,
    ONETRIP_CONNECT_ANSWERED = 3,  /* a: the byte, plus ONETRIP_CONNECT_EARLY if more bytes have
                                      arrived */
    ONETRIP_CONNECT_SECURED = 4,
    ONETRIP_CONNECT_EARLY = 256
};
/* Reports an event. False if the server is not suitable; the host then reports a fault of the
 * server. The text is the code of that error, a zero byte, and the text that follows the server's
 * name. */
bool onetrip_connect_happened(onetrip_connect *connect, double now, uint32_t what, uint32_t a);
/* The login on this connection is over. Returns the same. */
bool onetrip_connect_logged_in(onetrip_connect *connect, onetrip_connection *connection,
                               onetrip_lineage *lineage);
/* The server of this connection has answered onetrip_postgres_identify. The lineage remembers it,
 * so others may now be known as former primaries: compare all connections. Returns as
 * onetrip_connect_happened. */
bool onetrip_connect_identified(onetrip_connect *connect, onetrip_connection *connection,
                                onetrip_lineage *lineage);
/* Ends a connection if its server is a former primary, by what was seen of others. */
void onetrip_lineage_compare(const onetrip_lineage *lineage, onetrip_connection *connection);

enum {
    ONETRIP_CONNECT_UNREACHABLE = 1,  /* no connection could be made to the address */
    ONETRIP_CONNECT_HANDSHAKE = 2,    /* the TLS handshake failed */
    ONETRIP_CONNECT_LOGIN_FAILED = 3, /* the text begins with the five characters of the server's
                                         code */
    ONETRIP_CONNECT_SERVER = 4,       /* any other fault of this server */
    ONETRIP_CONNECT_OURS = 5,         /* a fault of the client, which would be the same for all
                                         servers */
    ONETRIP_CONNECT_LATE = 6,         /* the address did not answer in time */
    ONETRIP_CONNECT_SESSION_REFUSED = 7 /* as LOGIN_FAILED, behind a login that the server had
                                           taken: b of ONETRIP_CLOSED says so */
};
void onetrip_connect_failed(onetrip_connect *connect, double now, uint32_t what, const uint8_t
                            *text, size_t len, onetrip_lineage *lineage);
/* The error for the caller, once all attempts have failed: twice its position among the faults
 * reported, plus one if several hosts have failed; -1 for none. onetrip_connect_text has its text.
 */
double onetrip_connect_verdict(onetrip_connect *connect);
/* The text of the last event, fault or verdict. Valid until the next one. */
const uint8_t *onetrip_connect_text(onetrip_connect *connect);
size_t onetrip_connect_said(onetrip_connect *connect);

/* --- reads on replicas ---
 *
 * The host has a pool for each server of its list beside that of the primary. Here it is decided
 * where each read goes, behind which guard, and where next; what is known of the position in the log
 * of the client's own writes; and which replica is probed.
 */

/* The replicas of a client, of which nothing is known. reads: 0 primary, 1 prefer_replica, 2
 * replica. max_lag in milliseconds; 0 is no limit. wait_timeout in milliseconds: how long a read
 * that only replicas may serve waits for one. Null if there is no memory. */
onetrip_replicas *onetrip_replicas_new(uint32_t count, uint32_t reads, double max_lag,
                                       double wait_timeout);
void onetrip_replicas_free(onetrip_replicas *replicas);

/* What a read must show. */
enum {
    ONETRIP_READ_OWN = 0,     /* what this client wrote */
    ONETRIP_READ_AFTER = 1,   /* what was acknowledged up to a position */
    ONETRIP_READ_ANYTHING = 2 /* whatever the replica has */
};
/* A read is made. token: the text of the position, for ONETRIP_READ_AFTER. bound: how many
 * milliseconds it waits for a replica; negative for the default. timeout: in how many it must be
 * answered; 0 for no limit. Returns its number, or 0 if the text is no position. */
uint32_t onetrip_replicas_begin(onetrip_replicas *replicas, double now, uint32_t wanted, const
                                uint8_t *token, size_t len, double bound, double timeout);
/* What a read whose text has this key would find in the pool of a replica, or of
 * ONETRIP_REPLICAS_PRIMARY. Called for all of them in front of each step. */
#define ONETRIP_REPLICAS_PRIMARY UINT32_MAX
void onetrip_replicas_see(onetrip_replicas *replicas, uint32_t at, const onetrip_pool *pool,
                          uint32_t key);

/* What a read does next. */
enum {
    ONETRIP_STEP_PRIMARY = 0,    /* it is submitted on the primary, and stays there */
    ONETRIP_STEP_PAUSE = 1,      /* ask again after onetrip_replicas_pause */
    ONETRIP_STEP_LATE = 2,       /* it fails: its deadline has passed */
    ONETRIP_STEP_NO_REPLICA = 3, /* it fails: only replicas may serve it, and none could in time */
    ONETRIP_STEP_REPLICA = 4     /* call onetrip_replicas_submit on a connection to a replica. Plus
                                    twice its number, and 1 if the read waits in line there where
                                    no connection takes it at once; else it pauses then */
};
/* Asked for when the read was made, behind each pause, and where onetrip_replicas_ended says so.
 * The number of a read that goes to the primary or fails is free again. */
uint32_t onetrip_replicas_step(onetrip_replicas *replicas, double now, uint32_t read);
double onetrip_replicas_pause(onetrip_replicas *replicas);
/* Submits a read on a shared connection to a replica, as onetrip_postgres_submit, behind a guard
 * where it needs one. If that fails or shows something new, ONETRIP_GUARD_PASSED or the like comes in
 * front of the end of the read. */
double onetrip_replicas_submit(onetrip_replicas *replicas, uint32_t read, onetrip_connection
                               *connection, double now, uint32_t token, uint32_t flags, size_t
                               text_len, size_t len, uint32_t key);
/* A guard has ended on a replica: kind, a and b of its record. */
void onetrip_replicas_guarded(onetrip_replicas *replicas, double now, uint32_t at, uint32_t read,
                              uint32_t kind, uint32_t a, uint32_t b);
/* A read has ended on a replica. outcome: 0 if it has not failed. skipped: it ended as
 * ONETRIP_END_ABORTED. is_final: its caller's deadline or cancel ended it, or the client is closed.
 * Whether it goes on with another step; if not, this end is its caller's, and its number is free. */
bool onetrip_replicas_ended(onetrip_replicas *replicas, double now, uint32_t read, uint32_t outcome,
                            bool skipped, bool is_final);
/* Nobody waits for a read any more. */
void onetrip_replicas_forget(onetrip_replicas *replicas, uint32_t read);

enum {
    ONETRIP_REPLICA_READS = 0,  /* reads that went there */
    ONETRIP_REPLICA_BEHIND = 1, /* those that it could not serve, since it had not replayed enough */
    ONETRIP_REPLICA_SERVES = 2, /* 1 if reads go there now, 0 if not */
    ONETRIP_REPLICA_LAG = 3     /* how far behind it was when it was last asked, in milliseconds;
                                   negative if it has not said */
};
/* One of these numbers of a replica, or of the primary (ONETRIP_REPLICAS_PRIMARY), which has the
 * first alone. */
double onetrip_replicas_number(onetrip_replicas *replicas, double now, uint32_t at, uint32_t what);

/* The replica to probe now, or ONETRIP_REPLICAS_PRIMARY for none. Asked behind each step. */
uint32_t onetrip_replicas_to_probe(onetrip_replicas *replicas, double now);
/* A probe has ended. row: the message with the row of its answer; empty if it failed. seed: any
 * number. */
void onetrip_replicas_probed(onetrip_replicas *replicas, double now, uint32_t at, const uint8_t
                             *row, size_t len, double seed);

/* ONETRIP_UNCERTAIN of a connection to the primary. Whether all of these are to be marked now. */
bool onetrip_replicas_uncertain(onetrip_replicas *replicas, uint32_t a);
/* ONETRIP_POSITION of such a connection. */
void onetrip_replicas_positioned(onetrip_replicas *replicas, uint32_t b, const uint8_t *block,
                                 size_t len);
/* Marks a connection to the primary, as each new one is. */
void onetrip_replicas_mark(onetrip_replicas *replicas, onetrip_connection *connection);

enum {
    ONETRIP_SAY_NEWEST = 0,   /* the position behind all writes that were acknowledged; empty if it
                                 is not known: then ask the primary */
    ONETRIP_SAY_QUESTION = 1, /* the question for it */
    ONETRIP_SAY_PROBE = 2     /* what a replica is asked that is to be probed */
};
/* Says a text, and returns its length. */
size_t onetrip_replicas_say(onetrip_replicas *replicas, uint32_t what);
/* Says the position in the row of the answer to the question; empty if it has none. */
size_t onetrip_replicas_read(onetrip_replicas *replicas, const uint8_t *row, size_t len);
/* The last text that was said. Valid until the next. */
const uint8_t *onetrip_replicas_text(onetrip_replicas *replicas);
/* Which of two positions, whose texts follow one another, covers both: 0 or 1; -1 if one of them is
 * none. */
int32_t onetrip_position_later(const uint8_t *texts, size_t first_len, size_t len);

#ifdef __cplusplus
}
#endif

#endif
