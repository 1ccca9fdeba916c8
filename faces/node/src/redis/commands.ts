import type { Argument } from './encode'
import type { Reply } from './reply'

/** A key or a channel. */
export type Key = string | Uint8Array

/** Fields with values: an object, or pairs. */
export type Fields =
  { readonly [field: string]: Argument } | readonly (readonly [Argument, Argument])[]

/** Options of SET. */
export interface SetOptions {
  /** Seconds until it expires. */
  readonly ex?: number
  /** Milliseconds until it expires. */
  readonly px?: number
  /** When it expires, in seconds since 1970. */
  readonly exat?: number
  /** When it expires, in milliseconds since 1970. */
  readonly pxat?: number
  /** Keeps the expiry that the key has. */
  readonly keepttl?: boolean
  /** Sets the key only if it does not exist. */
  readonly nx?: boolean
  /** Sets the key only if it exists. */
  readonly xx?: boolean
}

/** Options of SCAN, HSCAN and SSCAN. */
export interface ScanOptions {
  readonly match?: string
  readonly count?: number
  readonly type?: string
}

/** A part of a scan. The next part begins at the cursor; the cursor `'0'` ends the scan. */
export interface Scanned<T> {
  readonly cursor: string
  readonly items: T
}

/** A member of a sorted set. */
export interface Scored<T = string> {
  readonly value: T
  readonly score: number
}

/** Options of ZADD. */
export interface ZAddOptions {
  readonly nx?: boolean
  readonly xx?: boolean
  readonly gt?: boolean
  readonly lt?: boolean
  readonly ch?: boolean
}

/** Options of ZRANGE. */
export interface ZRangeOptions {
  readonly by?: 'score' | 'lex'
  readonly rev?: boolean
  readonly limit?: { readonly offset: number; readonly count: number }
}

/** An entry of a stream. */
export interface Entry<T = string> {
  readonly id: string
  readonly fields: { [field: string]: T }
}

/** Options of XADD. */
export interface XAddOptions {
  readonly nomkstream?: boolean
  /** Trims the stream to about this many entries; with `exact`, to exactly as many. */
  readonly maxlen?: number
  readonly exact?: boolean
}

/** Options of XREAD. */
export interface XReadOptions {
  readonly count?: number
  /** Waits for an entry, on a connection of its own: milliseconds, or 0 for ever. */
  readonly block?: number
}

/** Entries by stream. */
export type Streams<T = string> = { [stream: string]: Entry<T>[] }

/**
 * Commands as methods, by their names in small letters. Several keys, members or values are
 * separate arguments or an array. Send other commands with `command`.
 */
export interface Commands {
  // --- strings ---
  get(key: Key): string | null
  /** Null if `nx` or `xx` kept the key from being set. */
  set(key: Key, value: Argument, options?: SetOptions): 'OK' | null
  getset(key: Key, value: Argument): string | null
  getdel(key: Key): string | null
  getex(
    key: Key,
    options: Pick<SetOptions, 'ex' | 'px' | 'exat' | 'pxat'> & { readonly persist?: boolean },
  ): string | null
  setnx(key: Key, value: Argument): boolean
  setex(key: Key, seconds: number, value: Argument): 'OK'
  psetex(key: Key, milliseconds: number, value: Argument): 'OK'
  mget(...keys: (Key | readonly Key[])[]): (string | null)[]
  mset(fields: Fields): 'OK'
  msetnx(fields: Fields): boolean
  append(key: Key, value: Argument): number
  strlen(key: Key): number
  getrange(key: Key, start: number, end: number): string
  setrange(key: Key, offset: number, value: Argument): number
  incr(key: Key): number
  decr(key: Key): number
  incrby(key: Key, by: number | bigint): number
  decrby(key: Key, by: number | bigint): number
  incrbyfloat(key: Key, by: number): number
  /** Deletes the key if it holds this value, and says whether it did. Since Valkey 9.0. */
  delifeq(key: Key, value: Argument): boolean
  // --- keys ---
  del(...keys: (Key | readonly Key[])[]): number
  unlink(...keys: (Key | readonly Key[])[]): number
  exists(...keys: (Key | readonly Key[])[]): number
  touch(...keys: (Key | readonly Key[])[]): number
  expire(key: Key, seconds: number): boolean
  pexpire(key: Key, milliseconds: number): boolean
  expireat(key: Key, seconds: number): boolean
  pexpireat(key: Key, milliseconds: number): boolean
  /** In seconds; -1 if the key does not expire, -2 if there is no key. */
  ttl(key: Key): number
  pttl(key: Key): number
  persist(key: Key): boolean
  type(key: Key): 'string' | 'list' | 'set' | 'zset' | 'hash' | 'stream' | 'none'
  rename(key: Key, to: Key): 'OK'
  renamenx(key: Key, to: Key): boolean
  copy(key: Key, to: Key): boolean
  keys(pattern: string): string[]
  randomkey(): string | null
  scan(cursor: string | number, options?: ScanOptions): Scanned<string[]>
  dump(key: Key): string | null
  // --- hashes ---
  hget(key: Key, field: Argument): string | null
  hset(key: Key, fields: Fields): number
  hsetnx(key: Key, field: Argument, value: Argument): boolean
  hmget(key: Key, ...fields: (Argument | readonly Argument[])[]): (string | null)[]
  /** An object without a prototype. */
  hgetall(key: Key): { [field: string]: string }
  hdel(key: Key, ...fields: (Argument | readonly Argument[])[]): number
  hexists(key: Key, field: Argument): boolean
  hincrby(key: Key, field: Argument, by: number | bigint): number
  hincrbyfloat(key: Key, field: Argument, by: number): number
  hkeys(key: Key): string[]
  hvals(key: Key): string[]
  hlen(key: Key): number
  hstrlen(key: Key, field: Argument): number
  hscan(
    key: Key,
    cursor: string | number,
    options?: ScanOptions,
  ): Scanned<{ [field: string]: string }>
  // --- lists ---
  lpush(key: Key, ...values: (Argument | readonly Argument[])[]): number
  rpush(key: Key, ...values: (Argument | readonly Argument[])[]): number
  lpushx(key: Key, ...values: (Argument | readonly Argument[])[]): number
  rpushx(key: Key, ...values: (Argument | readonly Argument[])[]): number
  lpop(key: Key): string | null
  rpop(key: Key): string | null
  lrange(key: Key, start: number, stop: number): string[]
  llen(key: Key): number
  lindex(key: Key, index: number): string | null
  lset(key: Key, index: number, value: Argument): 'OK'
  lrem(key: Key, count: number, value: Argument): number
  ltrim(key: Key, start: number, stop: number): 'OK'
  linsert(key: Key, where: 'BEFORE' | 'AFTER', pivot: Argument, value: Argument): number
  lmove(from: Key, to: Key, take: 'LEFT' | 'RIGHT', put: 'LEFT' | 'RIGHT'): string | null
  rpoplpush(from: Key, to: Key): string | null
  /**
   * Waits on a connection of its own, `timeout` seconds, or for ever if that is 0. Answers the key
   * and the value, or null.
   */
  blpop(keys: Key | readonly Key[], timeout: number): [string, string] | null
  brpop(keys: Key | readonly Key[], timeout: number): [string, string] | null
  blmove(
    from: Key,
    to: Key,
    take: 'LEFT' | 'RIGHT',
    put: 'LEFT' | 'RIGHT',
    timeout: number,
  ): string | null
  // --- sets ---
  sadd(key: Key, ...members: (Argument | readonly Argument[])[]): number
  srem(key: Key, ...members: (Argument | readonly Argument[])[]): number
  smembers(key: Key): Set<string>
  sismember(key: Key, member: Argument): boolean
  smismember(key: Key, ...members: (Argument | readonly Argument[])[]): boolean[]
  scard(key: Key): number
  spop(key: Key): string | null
  srandmember(key: Key): string | null
  smove(from: Key, to: Key, member: Argument): boolean
  sinter(...keys: (Key | readonly Key[])[]): Set<string>
  sunion(...keys: (Key | readonly Key[])[]): Set<string>
  sdiff(...keys: (Key | readonly Key[])[]): Set<string>
  sinterstore(to: Key, ...keys: (Key | readonly Key[])[]): number
  sunionstore(to: Key, ...keys: (Key | readonly Key[])[]): number
  sdiffstore(to: Key, ...keys: (Key | readonly Key[])[]): number
  sscan(key: Key, cursor: string | number, options?: ScanOptions): Scanned<string[]>
  // --- sorted sets ---
  /** Adds members, as pairs of score and member. */
  zadd(key: Key, members: readonly (readonly [number, Argument])[], options?: ZAddOptions): number
  zrem(key: Key, ...members: (Argument | readonly Argument[])[]): number
  zscore(key: Key, member: Argument): number | null
  zincrby(key: Key, by: number, member: Argument): number
  zcard(key: Key): number
  zcount(key: Key, min: string | number, max: string | number): number
  zrank(key: Key, member: Argument): number | null
  zrevrank(key: Key, member: Argument): number | null
  zrange(key: Key, start: string | number, stop: string | number, options?: ZRangeOptions): string[]
  zrange_withscores(
    key: Key,
    start: string | number,
    stop: string | number,
    options?: ZRangeOptions,
  ): Scored[]
  zremrangebyrank(key: Key, start: number, stop: number): number
  zremrangebyscore(key: Key, min: string | number, max: string | number): number
  zpopmin(key: Key, count?: number): Scored[]
  zpopmax(key: Key, count?: number): Scored[]
  // --- streams ---
  /** Answers the id of the new entry; null if `nomkstream` is set and there is no stream. */
  xadd(key: Key, id: string, fields: Fields, options?: XAddOptions): string | null
  xlen(key: Key): number
  xrange(key: Key, start: string, end: string, count?: number): Entry[]
  xrevrange(key: Key, end: string, start: string, count?: number): Entry[]
  xdel(key: Key, ...ids: (string | readonly string[])[]): number
  xread(streams: { readonly [stream: string]: string }, options?: XReadOptions): Streams | null
  xreadgroup(
    group: string,
    consumer: string,
    streams: { readonly [stream: string]: string },
    options?: XReadOptions & { readonly noack?: boolean },
  ): Streams | null
  xgroup_create(
    key: Key,
    group: string,
    id: string,
    options?: { readonly mkstream?: boolean },
  ): 'OK'
  xack(key: Key, group: string, ...ids: (string | readonly string[])[]): number
  // --- bitmaps, HyperLogLog ---
  getbit(key: Key, offset: number): number
  setbit(key: Key, offset: number, value: 0 | 1): number
  bitcount(key: Key): number
  pfadd(key: Key, ...values: (Argument | readonly Argument[])[]): boolean
  pfcount(...keys: (Key | readonly Key[])[]): number
  pfmerge(to: Key, ...keys: (Key | readonly Key[])[]): 'OK'
  // --- scripts and functions ---
  /** Calls a function by its name. */
  fcall(name: string, keys: readonly Key[], args?: readonly Argument[]): Reply
  script_flush(): 'OK'
  // --- messages, server ---
  /** Answers the number of receivers. */
  publish(channel: Key, message: Argument): number
  spublish(channel: Key, message: Argument): number
  ping(): 'PONG'
  echo(message: Argument): string
  dbsize(): number
  flushdb(): 'OK'
  flushall(): 'OK'
  info(section?: string): string
  object_encoding(key: Key): string | null
  config_get(parameter: string): { [name: string]: string }
}

/** The reply of a command with bytes in place of strings. */
export type InBytes<R> = [Reply] extends [R] ? R : InBytesOf<R>

type InBytesOf<R> = R extends string
  ? string extends R
    ? Buffer
    : R
  : R extends Set<infer T>
    ? Set<InBytes<T>>
    : R extends readonly unknown[]
      ? { [I in keyof R]: InBytes<R[I]> }
      : R extends Scanned<infer T>
        ? Scanned<InBytes<T>>
        : R extends Entry
          ? { readonly id: string; readonly fields: Map<Buffer, Buffer> }
          : R extends Scored
            ? Scored<Buffer>
            : R extends { [field: string]: infer T }
              ? Map<Buffer, InBytes<T>>
              : R

/** The methods of `Commands`, each of which returns a promise. */
export type Promised<B extends boolean> = {
  [K in keyof Commands]: (
    ...args: Parameters<Commands[K]>
  ) => Promise<B extends true ? InBytes<ReturnType<Commands[K]>> : ReturnType<Commands[K]>>
}
