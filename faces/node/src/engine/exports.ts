// The numbers and signatures of the ABI. Do not edit: written from the Rust of `faces/abi` and
// `core/client` by `ONETRIP_WRITE=1 cargo test -p onetrip-lab --test tidy exports`.
//
// Numbers are const enums. The compiler puts their values where they are used, so packages hold no
// tables of them.

/** The exports of the module. Pointers are numbers. */
export interface Exports {
  readonly memory: WebAssembly.Memory
  onetrip_abi_version(): number
  onetrip_alloc(len: number): number
  onetrip_free(start: number, len: number): void
  onetrip_echo_new(): number
  onetrip_postgres_new(now: number, settings: number, len: number, nonce: number): number
  onetrip_postgres_password(
    connection: number,
    now: number,
    given: number,
    password: number,
    len: number,
  ): void
  onetrip_connection_free(connection: number): void
  onetrip_input(connection: number, len: number): number
  onetrip_received(connection: number, now: number, len: number): void
  onetrip_is_between(connection: number): number
  onetrip_transmit_len(connection: number): number
  onetrip_transmit(connection: number): number
  onetrip_written(connection: number, now: number, len: number): void
  onetrip_peer_closed(connection: number): void
  onetrip_postgres_violated(connection: number): void
  onetrip_terminate(connection: number, now: number): void
  onetrip_deadline(connection: number): number
  onetrip_time(connection: number, now: number): void
  onetrip_request(connection: number, len: number): number
  onetrip_echo_submit(connection: number, token: number, len: number): number
  onetrip_postgres_classify(text: number, len: number): number
  onetrip_postgres_text_key(text: number, len: number): number
  onetrip_postgres_refusal(shown: number, place: number): number
  onetrip_postgres_may_mend(error: number, len: number): number
  onetrip_postgres_submit(
    connection: number,
    now: number,
    token: number,
    flags: number,
    textLen: number,
    nameLen: number,
    len: number,
    timeout: number,
    key: number,
  ): number
  onetrip_postgres_feed(
    connection: number,
    now: number,
    token: number,
    part: number,
    len: number,
  ): number
  onetrip_postgres_taken(connection: number, bytes: number): void
  onetrip_postgres_leave(connection: number, now: number, token: number, rest: number): void
  onetrip_postgres_identify(connection: number): void
  onetrip_postgres_flush(connection: number, now: number): void
  onetrip_postgres_is_opening(connection: number): number
  onetrip_postgres_sync(connection: number, now: number, token: number): number
  onetrip_postgres_fail_segment(connection: number, now: number): void
  onetrip_postgres_begin(connection: number, modes: number): void
  onetrip_postgres_act(connection: number, now: number, act: number, token: number): number
  onetrip_retry_pause(failures: number, attemptsMax: number, seed: number): number
  onetrip_outcome_left(failure: number, by: number, hasLeft: number): number
  onetrip_segment_failure(members: number, len: number, end: number): number
  onetrip_outcome_over_attempts(last: number, mayHaveRun: number): number
  onetrip_cancel(connection: number, now: number, place: number): number
  onetrip_want_cancel(connection: number, now: number, token: number): void
  onetrip_let_run(connection: number, token: number): void
  onetrip_begin_cancel(connection: number, now: number): number
  onetrip_cancel_ended(connection: number, now: number, end: number): void
  onetrip_postgres_hold(connection: number, holder: number): number
  onetrip_postgres_reset(connection: number, now: number): void
  onetrip_take(connection: number): number
  onetrip_completions(connection: number): number
  onetrip_postgres_status(connection: number): number
  onetrip_in_flight(connection: number): number
  onetrip_queued(connection: number): number
  onetrip_cache_new(bytesMax: number): number
  onetrip_cache_free(cache: number): void
  onetrip_cache_opened(cache: number, connection: number): void
  onetrip_cache_closed(cache: number, connection: number): void
  onetrip_cache_look_up(
    cache: number,
    command: number,
    len: number,
    join: number,
    fetch: number,
  ): number
  onetrip_cache_ended(
    cache: number,
    fetch: number,
    connection: number,
    reply: number,
    len: number,
  ): number
  onetrip_cache_joined(cache: number): number
  onetrip_cache_left(cache: number, fetch: number): number
  onetrip_cache_pushed(cache: number, push: number, len: number): number
  onetrip_cache_submitted(cache: number, commands: number, len: number): number
  onetrip_cache_written(cache: number, writes: number): void
  onetrip_cache_counts_now(cache: number, counts: number): void
  onetrip_cluster_new(
    redirectsMax: number,
    heldMax: number,
    heldTimeMax: number,
    seed: number,
  ): number
  onetrip_cluster_free(cluster: number): void
  onetrip_cluster_submit(
    cluster: number,
    now: number,
    token: number,
    flags: number,
    commands: number,
    len: number,
    timeout: number,
  ): void
  onetrip_cluster_write(cluster: number, flight: number, to: number): number
  onetrip_cluster_replied(
    cluster: number,
    now: number,
    flight: number,
    reply: number,
    len: number,
    isList: number,
  ): number
  onetrip_cluster_unanswered(
    cluster: number,
    now: number,
    flight: number,
    why: number,
    outcome: number,
  ): void
  onetrip_cluster_topology(
    cluster: number,
    now: number,
    reply: number,
    len: number,
    host: number,
    hostLen: number,
    port: number,
  ): number
  onetrip_cluster_give_up(cluster: number, now: number, token: number): void
  onetrip_cluster_node_at(cluster: number, slot: number): number
  onetrip_cluster_subscribe(
    cluster: number,
    now: number,
    token: number,
    channel: number,
    len: number,
    timeout: number,
  ): void
  onetrip_cluster_unsubscribe(cluster: number, channel: number, len: number): void
  onetrip_cluster_connected(cluster: number, now: number, node: number, isConnected: number): void
  onetrip_cluster_pushed(
    cluster: number,
    now: number,
    node: number,
    push: number,
    len: number,
  ): number
  onetrip_cluster_close(cluster: number): void
  onetrip_cluster_deadline(cluster: number): number
  onetrip_cluster_time(cluster: number, now: number): void
  onetrip_cluster_take(cluster: number): number
  onetrip_cluster_completions(cluster: number): number
  onetrip_connect_new(
    now: number,
    settings: number,
    len: number,
    seed: number,
    lineage: number,
  ): number
  onetrip_connect_free(connect: number): void
  onetrip_connect_action(connect: number): number
  onetrip_connect_host(connect: number): number
  onetrip_connect_address(connect: number): number
  onetrip_connect_until(connect: number): number
  onetrip_connect_happened(connect: number, now: number, what: number, a: number): number
  onetrip_connect_logged_in(connect: number, connection: number, lineage: number): number
  onetrip_connect_identified(connect: number, connection: number, lineage: number): number
  onetrip_lineage_new(): number
  onetrip_lineage_free(lineage: number): void
  onetrip_lineage_compare(lineage: number, connection: number): void
  onetrip_connect_failed(
    connect: number,
    now: number,
    what: number,
    text: number,
    len: number,
    lineage: number,
  ): void
  onetrip_connect_verdict(connect: number): number
  onetrip_connect_text(connect: number): number
  onetrip_connect_said(connect: number): number
  onetrip_pool_new(now: number, settings: number, len: number, seed: number): number
  onetrip_pool_free(pool: number): void
  onetrip_pool_checkout(pool: number, now: number, token: number, timeout: number): number
  onetrip_pool_place(pool: number, now: number, key: number): number
  onetrip_pool_wait_shared(
    pool: number,
    now: number,
    token: number,
    key: number,
    timeout: number,
  ): number
  onetrip_pool_again(pool: number, now: number, times: number, until: number, left: number): number
  onetrip_pool_may_hedge(pool: number): void
  onetrip_pool_hedge(pool: number, now: number, number: number, key: number): number
  onetrip_pool_give_up(pool: number, now: number, token: number): number
  onetrip_pool_release(pool: number, now: number, number: number, condition: number): void
  onetrip_pool_opened(pool: number, now: number, number: number, connection: number): void
  onetrip_pool_repeat_pause(number: number, seed: number): number
  onetrip_pool_open_failed(pool: number, now: number, number: number, permanent: number): void
  onetrip_pool_lost(pool: number, now: number, number: number): void
  onetrip_pool_retire(pool: number, now: number, number: number): void
  onetrip_pool_answered(pool: number, now: number, number: number): number
  onetrip_pool_acted(pool: number, now: number): void
  onetrip_pool_close(pool: number, now: number): void
  onetrip_pool_cut(pool: number, now: number): void
  onetrip_pool_deadline(pool: number): number
  onetrip_pool_time(pool: number, now: number): void
  onetrip_pool_scouted(pool: number, now: number): void
  onetrip_pool_connections(pool: number): number
  onetrip_pool_idle(pool: number): number
  onetrip_pool_waiting(pool: number): number
  onetrip_pool_take(pool: number): number
  onetrip_pool_completions(pool: number): number
  onetrip_redis_new(now: number, settings: number, len: number): number
  onetrip_redis_submit(
    connection: number,
    now: number,
    token: number,
    flags: number,
    replies: number,
    textLen: number,
    len: number,
    timeout: number,
  ): number
  onetrip_redis_scripts_as_texts(connection: number): void
  onetrip_redis_look(command: number, len: number, traits: number): number
  onetrip_redis_slot(key: number, len: number): number
  onetrip_redis_line_wait(waitTimeout: number): number
  onetrip_redis_outcome(error: number, len: number, leaves: number): number
  onetrip_replicas_new(count: number, reads: number, maxLag: number, waitTimeout: number): number
  onetrip_replicas_free(held: number): void
  onetrip_replicas_begin(
    held: number,
    now: number,
    wanted: number,
    token: number,
    len: number,
    bound: number,
    timeout: number,
  ): number
  onetrip_replicas_see(held: number, at: number, pool: number, key: number): void
  onetrip_replicas_step(held: number, now: number, read: number): number
  onetrip_replicas_pause(held: number): number
  onetrip_replicas_submit(
    held: number,
    read: number,
    connection: number,
    now: number,
    token: number,
    flags: number,
    textLen: number,
    len: number,
    key: number,
  ): number
  onetrip_replicas_guarded(
    held: number,
    now: number,
    at: number,
    read: number,
    kind: number,
    a: number,
    b: number,
  ): void
  onetrip_replicas_ended(
    held: number,
    now: number,
    read: number,
    outcome: number,
    skipped: number,
    isFinal: number,
  ): number
  onetrip_replicas_forget(held: number, read: number): void
  onetrip_replicas_number(held: number, now: number, at: number, what: number): number
  onetrip_replicas_to_probe(held: number, now: number): number
  onetrip_replicas_probed(
    held: number,
    now: number,
    at: number,
    row: number,
    len: number,
    seed: number,
  ): void
  onetrip_replicas_uncertain(held: number, a: number): number
  onetrip_replicas_positioned(held: number, b: number, block: number, len: number): void
  onetrip_replicas_mark(held: number, connection: number): void
  onetrip_replicas_say(held: number, what: number): number
  onetrip_replicas_read(held: number, row: number, len: number): number
  onetrip_replicas_text(held: number): number
  onetrip_position_later(texts: number, firstLen: number, len: number): number
  onetrip_sentinel_new(settings: number, len: number, seed: number): number
  onetrip_sentinel_free(sentinel: number): void
  onetrip_sentinel_connect(sentinel: number, now: number, seat: number, role: number): void
  onetrip_sentinel_opened(sentinel: number, now: number, seat: number): void
  onetrip_sentinel_lost(
    sentinel: number,
    now: number,
    seat: number,
    isOpen: number,
    why: number,
    len: number,
  ): void
  onetrip_sentinel_left(sentinel: number, seat: number): void
  onetrip_sentinel_is_for_replica(sentinel: number, onlyReads: number): number
  onetrip_sentinel_input(
    sentinel: number,
    now: number,
    line: number,
    bytes: number,
    len: number,
  ): void
  onetrip_sentinel_closed(
    sentinel: number,
    now: number,
    line: number,
    why: number,
    len: number,
  ): void
  onetrip_sentinel_close(sentinel: number): void
  onetrip_sentinel_deadline(sentinel: number): number
  onetrip_sentinel_time(sentinel: number, now: number): void
  onetrip_sentinel_take(sentinel: number): number
  onetrip_sentinel_completions(sentinel: number): number
}

/** The version of the ABI. */
export const ABI_VERSION = 1

/** From `core/client/src/completion.rs`. */
export const enum Kind {
  READY = 1,
  DATA = 2,
  PIECE = 3,
  END = 4,
  RESTARTED = 5,
  EVENT = 6,
  FULL = 7,
  DRAINED = 8,
  CANCEL = 9,
  NOT_CANCELLED = 10,
  ASTRAY = 11,
  CLOSED = 12,
  FORGOTTEN = 13,
  PASSWORD = 14,
  FEED = 15,
  READ = 16,
  HELD_UP = 17,
  POSITION = 18,
  UNCERTAIN = 19,
  GUARD_PASSED = 20,
  GUARD_BEHIND = 21,
  GUARD_FAILED = 22,
  IDENTIFIED = 23,
  UNSENT = 24,
  POOL_OPEN = 32,
  POOL_GRANTED = 33,
  POOL_PLACED = 34,
  POOL_FAILED = 35,
  POOL_RESET = 36,
  POOL_CLOSE = 37,
  POOL_SCOUT = 38,
  CLUSTER_SEND = 48,
  CLUSTER_SEND_ASKING = 49,
  CLUSTER_REPLY = 50,
  CLUSTER_ERROR = 51,
  CLUSTER_FAILED = 52,
  CLUSTER_ASK = 53,
  CLUSTER_OPEN = 54,
  CLUSTER_CLOSE = 55,
  CLUSTER_UNSUBSCRIBE = 56,
  CLUSTER_RESUBSCRIBED = 57,
  SENTINEL_OPEN = 64,
  SENTINEL_CLOSE = 65,
  SENTINEL_DIAL = 66,
  SENTINEL_LEAVE = 67,
  SENTINEL_NOT_FOUND = 68,
}

/** From `core/client/src/completion.rs`. */
export const enum ClusterWhy {
  LOST = 1,
  REDIRECTS = 2,
  OUTSIDE = 3,
  UNSERVED = 4,
  SERVER = 5,
  MISMATCH = 6,
  DEADLINE = 7,
  GIVEN_UP = 8,
  NO_MEMORY = 9,
  CLOSED = 10,
  CROSS_SLOT = 11,
  KEYS_UNKNOWN = 12,
  NODE_BY_NODE = 13,
  FULL = 14,
}

/** From `core/client/src/completion.rs`. */
export const enum Role {
  MASTER = 1,
  REPLICA = 2,
}

/** From `core/client/src/completion.rs`. */
export const enum End {
  COMPLETE = 0,
  PROVISIONAL = 1,
  SERVER = 2,
  ABORTED = 3,
  DEADLINE = 4,
  CANCELLED = 5,
  CLOSED = 6,
  BEGIN = 7,
  SAVEPOINT = 8,
  ROLLED_BACK = 9,
  UNCONFIRMED = 10,
}

/** From `core/client/src/completion.rs`. */
export const enum Event {
  NOTICE = 1,
  NOTIFICATION = 2,
  PARAMETER_STATUS = 3,
  PUSH = 4,
}

/** From `core/client/src/completion.rs`. */
export const enum Close {
  HOST = 1,
  SERVER = 2,
  VIOLATION = 3,
  STALLED = 4,
  LOGIN = 5,
  NO_MEMORY = 6,
  UNUSABLE = 7,
  NOT_RESET = 9,
  OTHER_ROLE = 10,
  REFUSED = 11,
  LOST = 8,
}

/** From `core/client/src/completion.rs`. */
export const enum PoolCause {
  LINE_FULL = 1,
  DEADLINE = 2,
  OPEN_FAILED = 3,
  CLOSED = 4,
  LOST = 5,
}

/** From `core/client/src/connect.rs`. */
export const enum Connect {
  RESOLVE = 1,
  DIAL = 2,
  ASK_FOR_TLS = 3,
  BEGIN_TLS = 4,
  LOG_IN = 5,
  DONE = 6,
  FAILED = 7,
  IDENTIFY = 8,
}

/** From `core/client/src/connect.rs`. */
export const enum ConnectEvent {
  RESOLVED = 1,
  CONNECTED = 2,
  ANSWERED = 3,
  SECURED = 4,
  EARLY = 256,
}

/** From `core/client/src/connect.rs`. */
export const enum ConnectFault {
  UNREACHABLE = 1,
  HANDSHAKE = 2,
  LOG_IN = 3,
  SERVER = 4,
  OURS = 5,
  LATE = 6,
  SESSION = 7,
}

/** From `core/client/src/flag.rs`. */
export const enum Flag {
  SIMPLE = 1,
  BINARY = 1 << 1,
  MEMBER = 1 << 2,
  UNPREPARED = 1 << 3,
  COPY_IN = 1 << 4,
  STREAM = 1 << 5,
  REPEATABLE = 1 << 6,
  DESCRIBE = 1 << 7,
  ELSEWHERE = 1 << 8,
  ANEW = 1 << 9,
}

/** From `core/client/src/cluster.rs`. */
export const enum ClusterFlag {
  REPEATABLE = 1,
  FROM_REPLICA = 1 << 1,
  OWN = 1 << 2,
  WHOLE = 1 << 3,
}

/** From `core/client/src/redis/submission.rs`. */
export const enum RedisFlag {
  LEAVES = 1,
  CONFIRMED = 1 << 1,
  ATOMIC = 1 << 2,
}

/** From `core/client/src/redis/look.rs`. */
export const enum Traits {
  KNOWN = 1,
  READONLY = 1 << 1,
  WRITE = 1 << 2,
  LEAVES = 1 << 3,
  NO_MULTI = 1 << 4,
  KEYS_KNOWN = 1 << 5,
  DEPENDS = 1 << 6,
  CACHEABLE = 1 << 10,
  CHANGES = 1 << 11,
  PLACE = 8,
}

/** From `core/client/src/redis/look.rs`. */
export const enum Place {
  SHARED = 0,
  OWN = 1,
  SESSION = 2,
  REFUSED = 3,
}

/** From `faces/abi/src/codes.rs`. */
export const enum Trait {
  CONTROL = 1,
  LOCAL = 1 << 1,
  SESSION = 1 << 2,
  ALONE = 1 << 3,
  COPY = 1 << 4,
  CALL = 1 << 5,
  SEVERAL = 1 << 6,
  READ = 1 << 7,
  SAVEPOINT = 1 << 8,
  COMMIT = 1 << 9,
  COPY_IN = 1 << 10,
  QUERY = 1 << 11,
  MAY_LEAVE = 1 << 12,
  RENAMES = 1 << 15,
  SHAREABLE = 1 << 16,
}

/** From `faces/abi/src/codes.rs`. */
export const enum Key {
  STAYS = 1 << 30,
}

/** From `faces/abi/src/codes.rs`. */
export const enum StatementPlace {
  SHARED = 0,
  PIPELINE = 1,
  ALONE = 2,
  SESSION = 3,
  TRANSACTION = 4,
  READ = 5,
}

/** From `faces/abi/src/codes.rs`. */
export const enum Member {
  SKIPPED = 5,
}

/** From `faces/abi/src/codes.rs`. */
export const enum Refused {
  CLOSED = -1,
  FULL = -2,
  MALFORMED = -3,
  NAME_TAKEN = -4,
  NO_MEMORY = -5,
  TOO_LONG = -6,
}

/** From `faces/abi/src/export_cache.rs`. */
export const enum Found {
  NOTHING = 0,
  JOINED = 1,
  FETCH = 2,
}

/** From `faces/abi/src/export_cluster.rs`. */
export const enum Unanswered {
  LOST = 0,
  EXPIRED = 1,
  TAKEN_BACK = 2,
}

/** From `faces/abi/src/export_pool.rs`. */
export const enum Condition {
  CLEAN = 0,
  DIRTY = 1,
  DIRTY_HOLDING = 2,
  BROKEN = 3,
}

/** From `faces/abi/src/export_replicas.rs`. */
export const enum Shows {
  OWN = 0,
  AFTER = 1,
  ANYTHING = 2,
}

/** From `faces/abi/src/export_replicas.rs`. */
export const enum Step {
  PRIMARY = 0,
  PAUSE = 1,
  LATE = 2,
  NO_REPLICA = 3,
  REPLICA = 4,
}

/** From `faces/abi/src/export_replicas.rs`. */
export const enum Say {
  NEWEST = 0,
  QUESTION = 1,
  PROBE = 2,
}

/** From `faces/abi/src/export_replicas.rs`. */
export const enum ReplicaNumber {
  READS = 0,
  BEHIND = 1,
  SERVES = 2,
  LAG = 3,
}
