/* onetrip: PostgreSQL and Redis without waiting for round trips, behind a C ABI.
 *
 * The host keeps the socket, the clock and the randomness. It hands over what arrived, writes what is to be sent,
 * and walks a table of what happened. Who owns which bytes, and for how long: MEMORY.md.
 *
 * Times are milliseconds since any moment that the host keeps; they never go backwards. A connection is
 * used by one thread at a time. No function blocks, and none calls back.
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
typedef struct onetrip_connect onetrip_connect;

/* The version of this interface: what a program was written against must be what it is linked with. */
#define ONETRIP_ABI_VERSION 1
uint32_t onetrip_abi_version(void);

/* --- what happened --- */

typedef struct onetrip_completion {
    uint32_t kind;  /* ONETRIP_READY, … */
    uint32_t token; /* the request that it is about, by the host's own number; 0 for none */
    uint32_t a;     /* depends on the kind */
    uint32_t b;     /* depends on the kind */
    size_t len;     /* of the block, in bytes */
    const uint8_t *block; /* null if it is empty */
} onetrip_completion;

enum {
    ONETRIP_READY = 1,         /* logged in. a: process id; of Redis the protocol, 2 or 3. Block: settings, name and value, each ended by a zero byte */
    ONETRIP_DATA = 2,          /* whole messages of a reply. a: the statement that described its rows; 0: it does so itself */
    ONETRIP_PIECE = 3,         /* a piece of a long message. a: as above. b: bytes of it still to come */
    ONETRIP_END = 4,           /* a request ended. a: as above. b: an end, and an outcome << 8. Block: the last part, or the error */
    ONETRIP_RESTARTED = 5,     /* what came of this reply is void: it is sent again */
    ONETRIP_EVENT = 6,         /* a message that belongs to no request. a: which. Block: the message */
    ONETRIP_FULL = 7,          /* a request had to wait in the queue */
    ONETRIP_DRAINED = 8,       /* nothing waits, and the window is below three quarters; once per FULL */
    ONETRIP_CANCEL = 9,        /* open a socket, and ask the server to cancel: onetrip_begin_cancel */
    ONETRIP_NOT_CANCELLED = 10, /* a cancel that was wanted is not made */
    ONETRIP_ASTRAY = 11,       /* a cancel may still arrive: close the connection once it has answered what it has */
    ONETRIP_CLOSED = 12,       /* the connection ended. a: why. b: of Redis, 1 if time does not mend it. Block: the server's message, or a text */
    ONETRIP_FORGOTTEN = 13,    /* nothing names this statement any more. a: its number */
    ONETRIP_PASSWORD = 14,     /* the server asks for the password, where ask_password is 1. a: 3 in clear text, 5 by MD5, 10 by SASL */

    ONETRIP_FEED = 15,         /* a COPY FROM STDIN takes more data than it did when it was fed last */
    ONETRIP_READ = 16,         /* whether to read: a is 0 where nobody takes the stream that comes, and 1 once somebody has */
    ONETRIP_HELD_UP = 17,      /* requests waited on a shared connection for one that took long. token: the key of its text;
                                  a: how many; b: how long it took, in milliseconds */
    ONETRIP_POOL_OPEN = 32,    /* a connection is wanted. a: its number from now on */
    ONETRIP_POOL_GRANTED = 33, /* a caller has this connection to itself. a: its number; 0 if it was lost since */
    ONETRIP_POOL_PLACED = 34,  /* a shared request goes on this connection. a: as above */
    ONETRIP_POOL_FAILED = 35,  /* a caller gets no connection. a: why */
    ONETRIP_POOL_RESET = 36,   /* an idle connection is to be reset, unless it left with a request meanwhile. a: its number */
    ONETRIP_POOL_CLOSE = 37,   /* the pool has forgotten this connection: close it, or give up opening it. a: its number */

    ONETRIP_CLUSTER_SEND = 48,        /* a command, or a part of one, is to be sent to a node, behind what was to be sent there
                                       * before. token: that of the command. a: the number of the flight. b: the node */
    ONETRIP_CLUSTER_SEND_ASKING = 49, /* the same behind ASKING, whose reply is nobody's */
    ONETRIP_CLUSTER_REPLY = 50,       /* a command is answered. Block: the reply, which may be an error */
    ONETRIP_CLUSTER_ERROR = 51,       /* a command failed. a: why. b: the outcome. Block: the error of the server */
    ONETRIP_CLUSTER_FAILED = 52,      /* the same where no server said it. Block: a text */
    ONETRIP_CLUSTER_ASK = 53,         /* ask for the topology by CLUSTER SLOTS. a: the node; 0: a server known otherwise */
    ONETRIP_CLUSTER_OPEN = 54,        /* a node is part of the cluster. a: its number. b: its port. Block: its host */
    ONETRIP_CLUSTER_CLOSE = 55        /* a node is part of the cluster no longer. a: its number */
};

/* How a request ended: b & 0xff of ONETRIP_END. */
enum {
    ONETRIP_END_COMPLETE = 0,
    ONETRIP_END_PROVISIONAL = 1, /* done, if the end of its segment is */
    ONETRIP_END_SERVER = 2,      /* the server answered with an error, which is the block */
    ONETRIP_END_ABORTED = 3,     /* one before it in its segment failed */
    ONETRIP_END_DEADLINE = 4,
    ONETRIP_END_CANCELLED = 5,
    ONETRIP_END_CLOSED = 6,
    ONETRIP_END_BEGIN = 7,       /* it did not run, since the BEGIN held for it failed; the block is the error to that */
    ONETRIP_END_SAVEPOINT = 8,   /* the same of the SAVEPOINT in front of it */
    ONETRIP_END_ROLLED_BACK = 9  /* what was to stand was rolled back. Block: why, as text with a zero byte, and behind that the
                                    server's error to what made it fail, if that is known */
};

/* What is known of the effect of a request that failed: b >> 8 of ONETRIP_END. */
enum {
    ONETRIP_OUTCOME_NONE = 0,     /* it did not fail */
    ONETRIP_OUTCOME_NOT_SENT = 1, /* no byte of it was sent */
    ONETRIP_OUTCOME_REJECTED = 2, /* the server answered that it did not take effect */
    ONETRIP_OUTCOME_APPLIED = 3,  /* it took effect; only reading the answer failed */
    ONETRIP_OUTCOME_UNKNOWN = 4   /* it was sent, and there is no final answer */
};

/* Messages that belong to no request: a of ONETRIP_EVENT. */
enum { ONETRIP_EVENT_NOTICE = 1, ONETRIP_EVENT_NOTIFICATION = 2, ONETRIP_EVENT_PARAMETER_STATUS = 3, ONETRIP_EVENT_PUSH = 4 };

/* Why a connection ended: a of ONETRIP_CLOSED. */
enum {
    ONETRIP_CLOSE_HOST = 1,      /* the host closed it, or the peer did */
    ONETRIP_CLOSE_SERVER = 2,    /* the server said so; the block is its error */
    ONETRIP_CLOSE_VIOLATION = 3, /* a message that the state can't explain; the block says which */
    ONETRIP_CLOSE_STALLED = 4,   /* the peer took no bytes for too long */
    ONETRIP_CLOSE_LOGIN = 5,     /* the login failed on this side; the block says why */
    ONETRIP_CLOSE_NO_MEMORY = 6, /* there is no memory for what came or is to be sent; the block says what to do */
    ONETRIP_CLOSE_UNUSABLE = 7,  /* nobody may go on with the session, by what was sent on it; the block says why */
    ONETRIP_CLOSE_NOT_RESET = 9  /* the session of the user before could not be reset; 8 is left to hosts */
};

/* Why a caller got no connection: a of ONETRIP_POOL_FAILED. */
enum {
    ONETRIP_POOL_LINE_FULL = 1,   /* too many wait */
    ONETRIP_POOL_DEADLINE = 2,    /* its deadline passed while others had the connections */
    ONETRIP_POOL_OPEN_FAILED = 3, /* none could be opened */
    ONETRIP_POOL_CLOSED = 4       /* the pool closes */
};

/* --- memory --- */

/* Null where there is not so much. */
uint8_t *onetrip_alloc(size_t len);
void onetrip_free(uint8_t *start, size_t len);

/* --- connections --- */

/* What is submitted ends at once with its own bytes and is to be sent; what arrives comes out as it came. */
onetrip_connection *onetrip_echo_new(void);

/* Over a socket that is open, and through TLS if there is to be TLS. The login is to be sent at once; requests may be
 * submitted at once, and follow it. nonce: 18 fresh random bytes. settings: pairs of name and value, each
 * ended by a zero byte:
 *   user; database; password; secure_channel (0 or 1: nobody else can read what is sent); allow_cleartext (0 or 1);
 *   ask_password (0; 1: ONETRIP_PASSWORD comes when the server asks for it); channel_binding (the hash of the server's
 *   certificate for tls-server-end-point, hexadecimal); scram_iterations_max (100000); parameter.NAME (of the startup packet);
 *   in_flight_max (1024 requests), in_flight_bytes_max (1 MiB), queue_max (16384 requests), queue_bytes_max (16 MiB),
 *   stall_timeout_ms (30000); prepare_threshold (5: the use at which a text is prepared; 0: never), statements_max (256);
 *   pieces (0: a row or a part of a COPY that is longer than 128 KiB is put together; 1: it comes as ONETRIP_PIECE);
 *   message_bytes_max (1 GiB: what is put together is no longer than this);
 *   hold_begin (0; 1: a plain BEGIN outside of a transaction is answered at once, and leaves with the first statement
 *   behind it; with a COMMIT or ROLLBACK behind it nothing is sent. Where the server refuses it, all up to the end of
 *   the transaction ends as ONETRIP_END_BEGIN. With an in_flight_max of 1 the two are one)
 */
onetrip_connection *onetrip_postgres_new(double now, const uint8_t *settings, size_t len, const uint8_t *nonce);

/* Says the password that an ONETRIP_PASSWORD has asked for. given: whether there is one. */
void onetrip_postgres_password(onetrip_connection *connection, double now, bool given, const uint8_t *password,
                               size_t len);

/* Says no goodbye; nobody hears of what was on its way. */
void onetrip_connection_free(onetrip_connection *connection);

/* --- bytes of the peer --- */

/* Null where there is no memory: then the connection has ended. */
uint8_t *onetrip_input(onetrip_connection *connection, size_t len);
void onetrip_received(onetrip_connection *connection, double now, size_t len);

/* Whether what was received ends with the end of a message, so that what comes next is the begin of another one. For
 * before the bytes of a connection without requests are read by somebody else. */
bool onetrip_is_between(onetrip_connection *connection);
/* How many bytes are to be sent now. What may wait for the next reply is not among them before that came: ask again then. */
size_t onetrip_transmit_len(onetrip_connection *connection);
const uint8_t *onetrip_transmit(onetrip_connection *connection);
void onetrip_written(onetrip_connection *connection, double now, size_t len);
void onetrip_peer_closed(onetrip_connection *connection);
/* What came can't be explained by whoever read it, such as a row that does not fit its columns: the connection ends, and
 * all that is on its way. */
void onetrip_postgres_violated(onetrip_connection *connection);
/* Takes no more requests, and says goodbye when all is answered. */
void onetrip_terminate(onetrip_connection *connection, double now);

/* --- time --- */

/* When onetrip_time is to be called; infinity for never. */
double onetrip_deadline(onetrip_connection *connection);
void onetrip_time(onetrip_connection *connection, double now);

/* --- requests --- */

/* What a request is. */
enum {
    ONETRIP_SIMPLE = 1,    /* any number of statements, by the simple protocol */
    ONETRIP_BINARY = 2,    /* results in binary form */
    ONETRIP_MEMBER = 4,    /* more of the same segment follows, before anything else is submitted */
    ONETRIP_UNPREPARED = 8, /* never prepared by counting */
    ONETRIP_COPY_IN = 16,  /* a COPY FROM STDIN: the first of its data stands in the place of parameters, the rest is fed */
    ONETRIP_STREAM = 32,   /* its reply is taken as it comes, on a connection that one caller has to himself */
    ONETRIP_REPEATABLE = 64 /* it may run twice: on a shared connection neighbouring reads of its kind share a sync point */
};

/* Why a request was refused: nothing of it was sent, and nothing comes under its token. */
#define ONETRIP_REFUSED_CLOSED (-1.0)
#define ONETRIP_REFUSED_FULL (-2.0)
#define ONETRIP_REFUSED_MALFORMED (-3.0)
#define ONETRIP_REFUSED_NAME_TAKEN (-4.0)
#define ONETRIP_REFUSED_NO_MEMORY (-5.0)

/* What the text of a statement shows. */
enum {
    ONETRIP_SHOWS_CONTROL = 1,       /* it begins, ends or divides a transaction */
    ONETRIP_SHOWS_LOCAL = 2,         /* it ends with its transaction: SET LOCAL, SET CONSTRAINTS */
    ONETRIP_SHOWS_SESSION = 4,       /* it makes, uses or drops something that lives in the session */
    ONETRIP_SHOWS_ALONE = 8,         /* it commits by itself and can't be part of a transaction */
    ONETRIP_SHOWS_COPY = 16,         /* COPY FROM STDIN or TO STDOUT */
    ONETRIP_SHOWS_CALL = 32,         /* CALL or DO: it may commit in between */
    ONETRIP_SHOWS_SEVERAL = 64,      /* more than one statement; it shows what any of them does */
    ONETRIP_SHOWS_READ = 128,        /* one read that shows no writing */
    ONETRIP_SHOWS_SAVEPOINT = 256,   /* control that leaves the transaction open */
    ONETRIP_SHOWS_COMMIT = 512,      /* COMMIT or END */
    ONETRIP_SHOWS_COPY_IN = 1024,    /* COPY FROM STDIN */
    ONETRIP_SHOWS_QUERY = 2048,      /* SELECT and its like, INSERT, UPDATE, DELETE, MERGE, SHOW */
    ONETRIP_SHOWS_MAY_LEAVE = 4096,  /* not on the short list of what can leave nothing behind in its session */
    ONETRIP_SHOWS_SHAREABLE = 65536  /* it may run next to others': one query that shows nothing of the session */
};

uint32_t onetrip_postgres_classify(const uint8_t *text, size_t len);

/* Where a statement is about to go. */
enum {
    ONETRIP_PLACE_SHARED = 0,     /* a connection that others use too, with a sync point of its own */
    ONETRIP_PLACE_PIPELINE = 1,   /* a pipeline on such a connection */
    ONETRIP_PLACE_ALONE = 2,      /* the same, between two sync points */
    ONETRIP_PLACE_SESSION = 3,    /* a connection of the caller's own */
    ONETRIP_PLACE_TRANSACTION = 4 /* the same, with a transaction open that sees each BEGIN, COMMIT and ROLLBACK */
};

/* Why a statement that shows this is not to go there: a name for programs and a sentence, each ended by a zero byte. Null if
 * it may. */
const uint8_t *onetrip_postgres_refusal(uint32_t shown, uint32_t place);

/* Whether time may mend that a server refused a login by this ErrorResponse, of len bytes with its type: of others
   nobody is to wait for another attempt. */
uint32_t onetrip_postgres_may_mend(const uint8_t *error, size_t len);

/* Null where there is no memory. */
uint8_t *onetrip_request(onetrip_connection *connection, size_t len);
bool onetrip_echo_submit(onetrip_connection *connection, uint32_t token, size_t len);

/* Submits the first len bytes of the room: the text, the name, and the parameters as they stand in a Bind (formats,
 * then values; nothing for none). token: from 1 to 1048576, free again when ONETRIP_END has come.
 * timeout: in milliseconds, and it covers the queue; 0 or infinity for none. Returns 0 if it was sent, its place in the
 * queue if it waits, or why it was refused. key: a number from 2 that is the same for the same text, by which a pool knows
 * how long it takes; 1 for one that wants to be alone on its connection; 0 where nothing is said. */
double onetrip_postgres_submit(onetrip_connection *connection, double now, uint32_t token, uint32_t flags,
                               size_t text_len, size_t name_len, size_t len, double timeout, uint32_t key);

/* Hands over more of a COPY FROM STDIN, the first len bytes of the room. part: 0 data, 1 that it is over, 2 that the COPY is
 * given up, for a reason in UTF-8. 1 if it was taken; 0 where it is not yet: ONETRIP_FEED comes when it will be, unless the
 * COPY ends before; or why it was refused. One that is given up before it was sent is taken back. */
double onetrip_postgres_feed(onetrip_connection *connection, double now, uint32_t token, uint32_t part, size_t len);

/* So many bytes of a stream were taken, of those that came under its token. */
void onetrip_postgres_taken(onetrip_connection *connection, size_t bytes);

/* Nobody takes more of a stream: only its end comes. rest: 0 what is still to come is read, as in a transaction; 1 the server is
 * asked to stop, where it is in none; 2 the same, and the connection ends if it is much, since nobody else has it. */
void onetrip_postgres_leave(onetrip_connection *connection, double now, uint32_t token, uint32_t rest);

/* Nobody goes on with a transaction: sends a BEGIN that is held, and forgets that one was refused. For before a
 * connection is lent to somebody else. */
void onetrip_postgres_flush(onetrip_connection *connection, double now);

/* Whether a BEGIN is held, unanswered or refused, and the transaction goes on: onetrip_postgres_sync tells whether it has
 * begun. */
bool onetrip_postgres_is_opening(onetrip_connection *connection);

/* Ends a segment of members: one sync point for all of them. Without members it sends a BEGIN that is held, and ends as
 * that does. */
double onetrip_postgres_sync(onetrip_connection *connection, double now, uint32_t token);

/* Begins a transaction on a connection that one caller has to himself; nothing is sent yet. What is submitted from now on
 * belongs to it, and members share a sync point that onetrip_postgres_act adds. modes: in the lowest 3 bits the isolation
 * (0 what the server has set, 1 read uncommitted, 2 read committed, 3 repeatable read, 4 serializable), in 2 bits each
 * whether it is read only and deferrable (0 what the server has set, 1 yes, 2 no). */
void onetrip_postgres_begin(onetrip_connection *connection, uint32_t modes);

/* Does something with that transaction. act: 0 sets a savepoint, behind which all goes from now on; 1 releases the innermost
 * savepoint, or rolls back to it where a statement behind it has failed; 2 rolls back to it; 3 COMMIT; 4 ROLLBACK; 5 ends the
 * segment of the members that were submitted; 6 says whether what begins it was answered: only then a COPY or a text of the
 * simple protocol is taken; 7 whether it is run again, as things stand; 8 what is known of a statement that left with
 * COMMIT and failed, both as outcomes, its own being the token; 9 forgets the transaction. 1, 3 and 4 end under the token.
 * Returns what it says, or why it was refused. */
double onetrip_postgres_act(onetrip_connection *connection, double now, uint32_t act, uint32_t token);

/* How many milliseconds pass before a transaction is run again that has failed so often. Negative where it is not: it was tried
 * attempts_max times (0: as often as by default). seed: any number, another one for each transaction. */
double onetrip_retry_pause(uint32_t failures, uint32_t attempts_max, double seed);

/* Takes a request back that still waits in its place. Whether that was so. */
bool onetrip_cancel(onetrip_connection *connection, double now, double place);

/* Asks for a request that was sent to be cancelled at the server, where that harms no other. */
void onetrip_want_cancel(onetrip_connection *connection, double now, uint32_t token);
/* What to send on a socket of its own, its length in the first four bytes; null if it is not to be sent after all. A server
 * forgets a cancel that comes before the request has begun: the same may be sent again, each time on a new socket, while
 * the request runs on; onetrip_cancel_ended follows the last. */
const uint8_t *onetrip_begin_cancel(onetrip_connection *connection, double now);
/* end: 0 if no byte of it was sent, 1 if the server closed its socket, 2 if nobody knows. */
void onetrip_cancel_ended(onetrip_connection *connection, double now, uint32_t end);

/* Who has the session from now on: 0 all callers, who must not change it (where one does all the same, the connection ends
 * as ONETRIP_CLOSE_UNUSABLE); 1 one for himself; 2 nobody any more: nothing is on its way; 3 one who has run something past
 * this connection. Whether the session is to be reset, or is being reset: that leaves in front of the next request, and
 * nothing behind it runs unless it succeeds. Without this call a session is its host's own affair. */
bool onetrip_postgres_hold(onetrip_connection *connection, uint32_t holder);

/* Sends the reset now, if one is owed, and not with the next request. */
void onetrip_postgres_reset(onetrip_connection *connection, double now);

/* --- what happened --- */

/* Lets go of what was taken before, and takes what came since. Returns how many records. */
size_t onetrip_take(onetrip_connection *connection);
const onetrip_completion *onetrip_completions(onetrip_connection *connection);

/* The transaction status that the server told last: 'I', 'T' or 'E'. */
uint32_t onetrip_postgres_status(onetrip_connection *connection);
size_t onetrip_in_flight(onetrip_connection *connection);
size_t onetrip_queued(onetrip_connection *connection);

/* --- Redis --- */

/* Over a socket that is open, and through TLS if there is to be TLS. The login is to be sent at once: HELLO, what else the
 * settings ask for, and PING; without HELLO where the server has none. Commands may be submitted at once, and follow it.
 * settings: pairs of name and value, each ended by a zero byte:
 *   user; password; database (0); client_name; protocol (3, or 2 where the server has no other; 2: only that);
 *   subscriber (0; 1: it is there for subscriptions: on RESP2 messages look like replies there);
 *   readonly (0; 1: a replica of a cluster may be read from); reply_bytes_max (513 MiB: one reply, which is kept until it
 *   is whole; a longer one ends the connection);
 *   in_flight_max (10000 requests), in_flight_bytes_max (16 MiB), queue_max (16384 requests), queue_bytes_max (16 MiB),
 *   stall_timeout_ms (30000)
 * DATA and END hold whole replies as they came; pushes come as ONETRIP_EVENT_PUSH. */
onetrip_connection *onetrip_redis_new(double now, const uint8_t *settings, size_t len);

/* What commands are. */
enum {
    ONETRIP_REDIS_LEAVES = 1,    /* of one command: what it did before an error stands */
    ONETRIP_REDIS_CONFIRMED = 2, /* confirmed by pushes, as SUBSCRIBE is: one for each of so many channels */
    ONETRIP_REDIS_ATOMIC = 4     /* MULTI, what runs as a whole, and EXEC, perhaps behind ASKING, all of them among the
                                    replies: if EXEC is refused and MULTI goes on, the connection ends */
};

/* Submits len bytes of the room: commands as they go onto the wire, behind the text of the script that the one command
 * calls by its hash (text_len bytes, 0 for none). It goes as EVAL with the text the first time, and where one has failed
 * since. If the server has forgotten it, the text is loaded and the call sent again by itself, unless something was sent
 * behind it. replies: how many come, which is the host's word, errors
 * among them; 0 for one command whose error is that of the request (ONETRIP_END_SERVER). The rest is as for
 * onetrip_postgres_submit. */
double onetrip_redis_submit(onetrip_connection *connection, double now, uint32_t token, uint32_t flags,
                            uint32_t replies, size_t text_len, size_t len, double timeout);

/* From now on scripts go as texts: the caller says MULTI. */
void onetrip_redis_scripts_as_texts(onetrip_connection *connection);

/* What is known of a command. */
typedef struct onetrip_redis_traits {
    uint32_t bits;      /* ONETRIP_REDIS_KNOWN, …; and a place, shifted */
    size_t advice_len;
    const uint8_t *advice; /* what to do instead where it can't share a connection; lives as long as the library */
} onetrip_redis_traits;

enum {
    ONETRIP_REDIS_KNOWN = 1,
    ONETRIP_REDIS_READONLY = 2,
    ONETRIP_REDIS_WRITE = 4,
    ONETRIP_REDIS_MAY_LEAVE = 8,   /* what it did before an error stands; of what is unknown too */
    ONETRIP_REDIS_NO_MULTI = 16,   /* refused between MULTI and EXEC */
    ONETRIP_REDIS_KEYS_KNOWN = 32,
    ONETRIP_REDIS_DEPENDS = 64,    /* its place depends on its arguments */
    ONETRIP_REDIS_PLACE_SHIFT = 8, /* two bits: where it may go */
    ONETRIP_REDIS_SHARED = 0,      /* a place: it may share a connection */
    ONETRIP_REDIS_OWN = 1,         /* it may block: on a connection of its own */
    ONETRIP_REDIS_SESSION = 2,     /* it changes its connection, or depends on it */
    ONETRIP_REDIS_NOWHERE = 3      /* it is not answered by one reply */
};

/* The command as it goes onto the wire. False if there is no memory to look at one so long. */
bool onetrip_redis_look(const uint8_t *command, size_t len, onetrip_redis_traits *traits);
/* The hash slot of a key. */
uint32_t onetrip_redis_slot(const uint8_t *key, size_t len);
/* What an error among replies says of the effect of its command: an outcome. */
uint32_t onetrip_redis_outcome(const uint8_t *error, size_t len, bool leaves);

/* --- pools ---
 *
 * The policy over connections that the host opens and drives: which one, when one more, who waits and who is next,
 * what expires. A connection that a pool was told of lives until the pool was told that it is lost or broken, or has said
 * ONETRIP_POOL_CLOSE, or was freed itself. */

/* seed: any number, another one for each pool. settings, as above: connections_max (10), connections_min (0),
 * waiting_max (16384 callers), opening_max (4 at a time), wait_timeout_ms (30000), idle_timeout_ms (600000; 0: never),
 * lifetime_ms (1800000; 0: for ever), slow_head_ms (10), backoff_min_ms (100), backoff_max_ms (10000), oldest_first (0 or 1: which of several
 * idle connections). A wrong one comes out as ONETRIP_CLOSED. */
onetrip_pool *onetrip_pool_new(double now, const uint8_t *settings, size_t len, double seed);
void onetrip_pool_free(onetrip_pool *pool);

/* timeout: in milliseconds; 0: at once or never; infinity: no end; negative: wait_timeout_ms. */
bool onetrip_pool_checkout(onetrip_pool *pool, double now, uint32_t token, double timeout);
/* The number of the connection on which a shared request goes at once; 0 if it has to wait. key: as of
 * onetrip_postgres_submit. */
uint32_t onetrip_pool_place(onetrip_pool *pool, double now, uint32_t key);
bool onetrip_pool_wait_shared(onetrip_pool *pool, double now, uint32_t token, uint32_t key, double timeout);
/* A request that may be sent a second time was made. */
void onetrip_pool_may_hedge(onetrip_pool *pool);
/* Whether a request that may run twice, and is unanswered on this connection, is sent a second time since its
 * answer is late. Positive: the connection for that. Negative: ask again after as many milliseconds. key: as above. */
double onetrip_pool_hedge(onetrip_pool *pool, double now, uint32_t number, uint32_t key);
/* False if what it waited for is on its way. */
bool onetrip_pool_give_up(onetrip_pool *pool, double now, uint32_t token);

/* In which condition a connection comes back. */
enum {
    ONETRIP_CONDITION_CLEAN = 0,         /* as it was when it was opened */
    ONETRIP_CONDITION_DIRTY = 1,         /* a reset rides along with the next user's first request */
    ONETRIP_CONDITION_DIRTY_HOLDING = 2, /* the same, and others may wait for it */
    ONETRIP_CONDITION_BROKEN = 3         /* the pool forgets it */
};
void onetrip_pool_release(onetrip_pool *pool, double now, uint32_t number, uint32_t condition);

/* How many milliseconds pass before a request that may run twice, and whose connection was lost, is sent again for the
 * number-th time; negative where it is not. */
double onetrip_pool_repeat_pause(uint32_t number, double seed);

void onetrip_pool_opened(onetrip_pool *pool, double now, uint32_t number, onetrip_connection *connection);
/* permanent: time does not mend it, as a wrong password. */
void onetrip_pool_open_failed(onetrip_pool *pool, double now, uint32_t number, bool permanent);
void onetrip_pool_lost(onetrip_pool *pool, double now, uint32_t number);
void onetrip_pool_retire(onetrip_pool *pool, double now, uint32_t number);
/* Replies have come on a connection: somebody who waits may have a place now. */
void onetrip_pool_answered(onetrip_pool *pool, double now, uint32_t number);
/* All that the pool told was acted on: what it placed (ONETRIP_POOL_PLACED) was submitted, or will not be. To be called
   behind each table in which something was placed: until then its connection counts as busy. */
void onetrip_pool_acted(onetrip_pool *pool, double now);

double onetrip_pool_deadline(onetrip_pool *pool);
void onetrip_pool_time(onetrip_pool *pool, double now);
/* ONETRIP_CLOSED comes when no connection is left. */
void onetrip_pool_close(onetrip_pool *pool, double now);

size_t onetrip_pool_connections(onetrip_pool *pool);
size_t onetrip_pool_idle(onetrip_pool *pool);
size_t onetrip_pool_waiting(onetrip_pool *pool);
size_t onetrip_pool_take(onetrip_pool *pool);
const onetrip_completion *onetrip_pool_completions(onetrip_pool *pool);

/* --- clusters of Redis ---
 *
 * The policy over nodes that the host opens and drives: what goes where, what is sent again, what is made of several replies. */

/* redirects_max: how many one command follows. held_max: how many commands may wait for a node; held_time_max: for how many
 * milliseconds. seed: any number, another one for each cluster. */
onetrip_cluster *onetrip_cluster_new(uint32_t redirects_max, uint32_t held_max, double held_time_max, double seed);
void onetrip_cluster_free(onetrip_cluster *cluster);

/* What a command is. */
enum {
    ONETRIP_CLUSTER_REPEATABLE = 1,   /* running it twice does no harm */
    ONETRIP_CLUSTER_FROM_REPLICA = 2, /* a replica may answer, if it only reads */
    ONETRIP_CLUSTER_OWN = 4,          /* it may block: over a connection of its own, outside of the order */
    ONETRIP_CLUSTER_WHOLE = 8         /* a script, or MULTI and a list: it goes as the host writes it */
};
/* As it goes onto the wire. ONETRIP_CLUSTER_REPLY, _ERROR or _FAILED ends it. timeout: 0 for none. */
void onetrip_cluster_submit(onetrip_cluster *cluster, double now, uint32_t token, uint32_t flags, const uint8_t *commands,
                            size_t len, double timeout);
/* How long the command of a flight is on the wire. It is written to `to` unless that is null. */
size_t onetrip_cluster_write(onetrip_cluster *cluster, uint32_t flight, uint8_t *to);
/* The whole reply to a flight, without attributes; is_list: all replies to MULTI, a list and EXEC, of which those that are no
 * errors may be shortened. True: it is what the command is answered, and nothing more is said of that. */
bool onetrip_cluster_replied(onetrip_cluster *cluster, double now, uint32_t flight, const uint8_t *reply, size_t len,
                             bool is_list);

/* Why a flight has no reply. */
enum {
    ONETRIP_UNANSWERED_LOST = 0,      /* its connection was lost, or never was */
    ONETRIP_UNANSWERED_EXPIRED = 1,   /* its deadline passed there */
    ONETRIP_UNANSWERED_TAKEN_BACK = 2 /* it was not sent, and its caller gives it up */
};
void onetrip_cluster_unanswered(onetrip_cluster *cluster, double now, uint32_t flight, uint32_t why, uint32_t outcome);
/* What the node at this host answered to CLUSTER SLOTS; nothing where it did not. False if that is no topology. */
bool onetrip_cluster_topology(onetrip_cluster *cluster, double now, const uint8_t *reply, size_t len, const uint8_t *host,
                              size_t host_len, uint32_t port);
/* A caller does not wait any more: its command ends. */
void onetrip_cluster_give_up(onetrip_cluster *cluster, double now, uint32_t token);
/* The node that has a hash slot, or any master where there is no such slot; 0 for none. */
uint32_t onetrip_cluster_node_at(onetrip_cluster *cluster, uint32_t slot);
/* Nothing is sent any more, at first or again: what waits ends, and what is on its way when that is told. */
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
    ONETRIP_WHY_MISMATCH = 6,      /* the replies of the nodes do not fit together */
    ONETRIP_WHY_DEADLINE = 7,
    ONETRIP_WHY_GIVEN_UP = 8,
    ONETRIP_WHY_NO_MEMORY = 9,
    ONETRIP_WHY_CLOSED = 10,
    ONETRIP_WHY_CROSS_SLOT = 11,   /* its keys lie in several hash slots */
    ONETRIP_WHY_KEYS_UNKNOWN = 12,
    ONETRIP_WHY_NODE_BY_NODE = 13, /* it means something on one node only */
    ONETRIP_WHY_FULL = 14          /* too many wait */
};
/* --- how a client comes to a server of PostgreSQL ---
 *
 * What is tried, in which order, with TLS and without, and which server will do. The host carries out one action after
 * another, until the moment when it is given up, and says what came of it. */

/* settings, as above: hosts (a letter for each: n is a name that has to be looked up, a an address, s a Unix socket),
 * connect_timeout_ms (0: no limit), and by the words of libpq sslmode, sslnegotiation, target_session_attrs and
 * load_balance_hosts. Null if they are none, or there is no memory. */
onetrip_connect *onetrip_connect_new(double now, const uint8_t *settings, size_t len, double seed);
void onetrip_connect_free(onetrip_connect *connect);

enum {
    ONETRIP_CONNECT_RESOLVE = 1,     /* the name of the host is looked up */
    ONETRIP_CONNECT_DIAL = 2,        /* a socket to the address is opened; the one before is let go of */
    ONETRIP_CONNECT_ASK_FOR_TLS = 3, /* SSLRequest is sent, and one byte read */
    ONETRIP_CONNECT_BEGIN_TLS = 4,   /* the handshake */
    ONETRIP_CONNECT_LOG_IN = 5,
    ONETRIP_CONNECT_DONE = 6,
    ONETRIP_CONNECT_FAILED = 7
};
uint32_t onetrip_connect_action(onetrip_connect *connect);
/* Whose name or address, by its place in hosts; and which address of what was found. */
size_t onetrip_connect_host(onetrip_connect *connect);
size_t onetrip_connect_address(onetrip_connect *connect);
/* When the action is given up, as unreachable; infinity: never. */
double onetrip_connect_until(onetrip_connect *connect);

enum {
    ONETRIP_CONNECT_RESOLVED = 1,  /* a: the number of addresses */
    ONETRIP_CONNECT_CONNECTED = 2,
    ONETRIP_CONNECT_ANSWERED = 3,  /* a: the byte, and ONETRIP_CONNECT_EARLY if more has come */
    ONETRIP_CONNECT_SECURED = 4,
    ONETRIP_CONNECT_LOGGED_IN = 5, /* a: in_hot_standby, and 4 times default_transaction_read_only: 0 not said, 1 off, 2 on */
    ONETRIP_CONNECT_EARLY = 256
};
/* False: the server won't do, which the host reports as a fault of the server. The text is the code of the error, a zero
 * byte, and what stands behind the server's name. */
bool onetrip_connect_happened(onetrip_connect *connect, double now, uint32_t what, uint32_t a);

enum {
    ONETRIP_CONNECT_UNREACHABLE = 1,  /* nobody answered at this address, or not in time */
    ONETRIP_CONNECT_HANDSHAKE = 2,    /* TLS failed */
    ONETRIP_CONNECT_LOGIN_FAILED = 3, /* the text begins with the five letters of the server's code */
    ONETRIP_CONNECT_SERVER = 4,       /* anything else of this server */
    ONETRIP_CONNECT_OURS = 5          /* what is the same for all servers */
};
void onetrip_connect_failed(onetrip_connect *connect, double now, uint32_t what, const uint8_t *text, size_t len);
/* Once all has failed: twice the place of the error that the caller is given among those that were reported, and one more
 * where the text tells of several hosts; -1: none. */
double onetrip_connect_verdict(onetrip_connect *connect);
/* Valid until the next event, fault or verdict. */
const uint8_t *onetrip_connect_text(onetrip_connect *connect);
size_t onetrip_connect_said(onetrip_connect *connect);

#ifdef __cplusplus
}
#endif

#endif
