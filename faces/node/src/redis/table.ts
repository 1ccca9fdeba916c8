import { isUint8Array } from 'node:util/types'

import type {
  Commands,
  Fields,
  Key,
  ScanOptions,
  SetOptions,
  XAddOptions,
  XReadOptions,
  ZAddOptions,
  ZRangeOptions,
} from './commands'
import type { Shape } from './call'
import type { Argument } from './encode'
import * as shapes from './shapes'

/** The command of a method. */
export interface Row {
  readonly name: string
  readonly shape: Shape | undefined
  /** Makes the command's arguments. Without it arrays and objects are unfolded. */
  build?(...args: unknown[]): Argument[]
}

type Table = { readonly [K in keyof Commands]: Row }

function row<A extends unknown[]>(
  name: string,
  shape?: Shape,
  build?: (...args: A) => Argument[],
): Row {
  return build === undefined ? { name, shape } : { name, shape, build }
}

const { bool, bools, float, set, map, scored, scan, scanPairs, entries, streams } = shapes

/** The words of the options that are set: the name, and the value unless that is true. */
function options(
  given: { readonly [option: string]: unknown } | undefined,
  names: readonly string[],
): Argument[] {
  const words: Argument[] = []
  if (given === undefined) return words
  for (const name of names) {
    const value = given[name]
    if (value === true) words.push(name.toUpperCase())
    else if (typeof value === 'number' || typeof value === 'string')
      words.push(name.toUpperCase(), value)
  }
  return words
}

const EXPIRY = ['ex', 'px', 'exat', 'pxat']
const scanWords = (given?: ScanOptions): Argument[] =>
  options({ ...given }, ['match', 'count', 'type'])

/** Unfolds arrays, maps and objects into one list of arguments. */
export function unfold(args: readonly unknown[], into: Argument[] = []): Argument[] {
  for (const arg of args) {
    if (typeof arg !== 'object' || arg === null || isUint8Array(arg))
      into.push(arg as Argument)
    else if (Symbol.iterator in arg) unfold([...(arg as Iterable<unknown>)], into)
    else
      for (const field of Object.keys(arg))
        into.push(field, (arg as { [field: string]: Argument })[field] as Argument)
  }
  return into
}

function zrange(
  key: Key,
  start: string | number,
  stop: string | number,
  given: ZRangeOptions | undefined,
): Argument[] {
  const args: Argument[] = [key, start, stop]
  if (given?.by !== undefined) args.push(given.by === 'score' ? 'BYSCORE' : 'BYLEX')
  if (given?.rev === true) args.push('REV')
  if (given?.limit !== undefined) args.push('LIMIT', given.limit.offset, given.limit.count)
  return args
}

function reading(
  given: XReadOptions | undefined,
  from: { readonly [stream: string]: string },
): Argument[] {
  const keys = Object.keys(from)
  const ids = keys.map((key) => from[key] as string)
  return [...options({ ...given }, ['count', 'block', 'noack']), 'STREAMS', ...keys, ...ids]
}

/** The commands of all methods. */
export const TABLE: Table = {
  get: row('GET'),
  set: row('SET', undefined, (key: Key, value: Argument, given?: SetOptions) =>
    given === undefined
      ? [key, value]
      : [key, value, ...options({ ...given }, [...EXPIRY, 'keepttl', 'nx', 'xx'])],
  ),
  getset: row('GETSET'),
  getdel: row('GETDEL'),
  getex: row('GETEX', undefined, (key: Key, given: object) => [
    key,
    ...options({ ...given }, [...EXPIRY, 'persist']),
  ]),
  setnx: row('SETNX', bool),
  setex: row('SETEX'),
  psetex: row('PSETEX'),
  mget: row('MGET'),
  mset: row('MSET'),
  msetnx: row('MSETNX', bool),
  append: row('APPEND'),
  strlen: row('STRLEN'),
  getrange: row('GETRANGE'),
  setrange: row('SETRANGE'),
  incr: row('INCR'),
  decr: row('DECR'),
  incrby: row('INCRBY'),
  decrby: row('DECRBY'),
  incrbyfloat: row('INCRBYFLOAT', float),
  delifeq: row('DELIFEQ', bool),
  del: row('DEL'),
  unlink: row('UNLINK'),
  exists: row('EXISTS'),
  touch: row('TOUCH'),
  expire: row('EXPIRE', bool),
  pexpire: row('PEXPIRE', bool),
  expireat: row('EXPIREAT', bool),
  pexpireat: row('PEXPIREAT', bool),
  ttl: row('TTL'),
  pttl: row('PTTL'),
  persist: row('PERSIST', bool),
  type: row('TYPE'),
  rename: row('RENAME'),
  renamenx: row('RENAMENX', bool),
  copy: row('COPY', bool),
  keys: row('KEYS'),
  randomkey: row('RANDOMKEY'),
  scan: row('SCAN', scan, (cursor: string | number, given?: ScanOptions) => [
    cursor,
    ...scanWords(given),
  ]),
  dump: row('DUMP'),
  hget: row('HGET'),
  hset: row('HSET'),
  hsetnx: row('HSETNX', bool),
  hmget: row('HMGET'),
  hgetall: row('HGETALL', map),
  hdel: row('HDEL'),
  hexists: row('HEXISTS', bool),
  hincrby: row('HINCRBY'),
  hincrbyfloat: row('HINCRBYFLOAT', float),
  hkeys: row('HKEYS'),
  hvals: row('HVALS'),
  hlen: row('HLEN'),
  hstrlen: row('HSTRLEN'),
  hscan: row('HSCAN', scanPairs, (key: Key, cursor: string | number, given?: ScanOptions) => [
    key,
    cursor,
    ...scanWords(given),
  ]),
  lpush: row('LPUSH'),
  rpush: row('RPUSH'),
  lpushx: row('LPUSHX'),
  rpushx: row('RPUSHX'),
  lpop: row('LPOP'),
  rpop: row('RPOP'),
  lrange: row('LRANGE'),
  llen: row('LLEN'),
  lindex: row('LINDEX'),
  lset: row('LSET'),
  lrem: row('LREM'),
  ltrim: row('LTRIM'),
  linsert: row('LINSERT'),
  lmove: row('LMOVE'),
  rpoplpush: row('RPOPLPUSH'),
  blpop: row('BLPOP'),
  brpop: row('BRPOP'),
  blmove: row('BLMOVE'),
  sadd: row('SADD'),
  srem: row('SREM'),
  smembers: row('SMEMBERS', set),
  sismember: row('SISMEMBER', bool),
  smismember: row('SMISMEMBER', bools),
  scard: row('SCARD'),
  spop: row('SPOP'),
  srandmember: row('SRANDMEMBER'),
  smove: row('SMOVE', bool),
  sinter: row('SINTER', set),
  sunion: row('SUNION', set),
  sdiff: row('SDIFF', set),
  sinterstore: row('SINTERSTORE'),
  sunionstore: row('SUNIONSTORE'),
  sdiffstore: row('SDIFFSTORE'),
  sscan: row('SSCAN', scan, (key: Key, cursor: string | number, given?: ScanOptions) => [
    key,
    cursor,
    ...scanWords(given),
  ]),
  zadd: row(
    'ZADD',
    undefined,
    (key: Key, members: readonly (readonly [number, Argument])[], given?: ZAddOptions) => [
      key,
      ...options({ ...given }, ['nx', 'xx', 'gt', 'lt', 'ch']),
      ...unfold(members),
    ],
  ),
  zrem: row('ZREM'),
  zscore: row('ZSCORE', float),
  zincrby: row('ZINCRBY', float),
  zcard: row('ZCARD'),
  zcount: row('ZCOUNT'),
  zrank: row('ZRANK'),
  zrevrank: row('ZREVRANK'),
  zrange: row('ZRANGE', undefined, zrange),
  zrange_withscores: row(
    'ZRANGE',
    scored,
    (key: Key, start: string | number, stop: string | number, given?: ZRangeOptions) => [
      ...zrange(key, start, stop, given),
      'WITHSCORES',
    ],
  ),
  zremrangebyrank: row('ZREMRANGEBYRANK'),
  zremrangebyscore: row('ZREMRANGEBYSCORE'),
  zpopmin: row('ZPOPMIN', scored),
  zpopmax: row('ZPOPMAX', scored),
  xadd: row('XADD', undefined, (key: Key, id: string, fields: Fields, given?: XAddOptions) => [
    key,
    ...(given?.nomkstream === true ? ['NOMKSTREAM'] : []),
    ...(given?.maxlen === undefined
      ? []
      : ['MAXLEN', given.exact === true ? '=' : '~', given.maxlen]),
    id,
    ...unfold([fields]),
  ]),
  xlen: row('XLEN'),
  xrange: row('XRANGE', entries, ranged),
  xrevrange: row('XREVRANGE', entries, ranged),
  xdel: row('XDEL'),
  xread: row(
    'XREAD',
    streams,
    (from: { readonly [stream: string]: string }, given?: XReadOptions) => reading(given, from),
  ),
  xreadgroup: row(
    'XREADGROUP',
    streams,
    (
      group: string,
      consumer: string,
      from: { readonly [stream: string]: string },
      given?: XReadOptions,
    ) => ['GROUP', group, consumer, ...reading(given, from)],
  ),
  xgroup_create: row(
    'XGROUP CREATE',
    undefined,
    (key: Key, group: string, id: string, given?: { readonly mkstream?: boolean }) => [
      key,
      group,
      id,
      ...options(given, ['mkstream']),
    ],
  ),
  xack: row('XACK'),
  getbit: row('GETBIT'),
  setbit: row('SETBIT'),
  bitcount: row('BITCOUNT'),
  pfadd: row('PFADD', bool),
  pfcount: row('PFCOUNT'),
  pfmerge: row('PFMERGE'),
  fcall: row(
    'FCALL',
    undefined,
    (name: string, keys: readonly Key[], args: readonly Argument[] = []) => [
      name,
      keys.length,
      ...keys,
      ...args,
    ],
  ),
  script_flush: row('SCRIPT FLUSH'),
  publish: row('PUBLISH'),
  spublish: row('SPUBLISH'),
  ping: row('PING'),
  echo: row('ECHO'),
  dbsize: row('DBSIZE'),
  flushdb: row('FLUSHDB'),
  flushall: row('FLUSHALL'),
  info: row('INFO'),
  object_encoding: row('OBJECT ENCODING'),
  config_get: row('CONFIG GET', map),
}

function ranged(key: Key, start: string, end: string, count?: number): Argument[] {
  return count === undefined ? [key, start, end] : [key, start, end, 'COUNT', count]
}
