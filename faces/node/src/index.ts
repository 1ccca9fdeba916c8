/**
 * Clients for PostgreSQL (`postgres`) and Redis (`redis`) that pipeline by themselves. `onetrip/pg`
 * is the drop-in for programs that are written for `pg`.
 *
 * @module onetrip
 */
export type { Outcome } from './engine/choices'
export { PostgresError } from './modern/error'
export { Position } from './modern/position'
export { postgres } from './modern/sql'
export type {
  BeginOptions,
  Column,
  Config as PostgresConfig,
  CopyIn,
  CopyOut,
  Decode,
  Fragment,
  Json,
  ListenEvent,
  Listener,
  Notice,
  Part,
  Password,
  Query,
  Reads,
  Results,
  Rows,
  Session as PostgresSession,
  PoolStats,
  ReadStats,
  ReplicaStats,
  SlowNeighbour,
  Sql,
  Stats as PostgresStats,
  Tag,
  TransactionOptions,
  Tx,
  Types,
  Value,
} from './modern/index'
export { redis } from './redis/index'
export { RedisError } from './redis/error'
export type {
  Argument,
  CacheMetrics,
  CallOptions,
  Client as RedisClient,
  Metrics as RedisMetrics,
  Commands,
  CommandWords,
  Entry,
  Fields,
  Key,
  List,
  Message,
  RedisOptions,
  Reply,
  Results as RedisResults,
  ScanOptions,
  Scanned,
  Scored,
  Script,
  Session as RedisSession,
  SetOptions,
  StreamOptions,
  Streams,
  Subscription,
  XAddOptions,
  XReadOptions,
  ZAddOptions,
  ZRangeOptions,
} from './redis/index'
