/**
 * PostgreSQL and Redis without waiting for round trips. What was written for `pg` finds itself in
 * `onetrip/pg`.
 *
 * @module onetrip
 */
export type { Outcome } from './engine/exports'
export { postgres, PostgresError } from './modern'
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
  Results,
  Rows,
  Session as PostgresSession,
  Sql,
  Tag,
  TransactionOptions,
  Tx,
  Types,
  Value,
} from './modern'
export {
  Client as RedisClient,
  redis,
  RedisError,
  Session as RedisSession,
  Subscription,
} from './redis'
export type {
  Argument,
  CallOptions,
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
  SetOptions,
  StreamOptions,
  Streams,
  XAddOptions,
  XReadOptions,
  ZAddOptions,
  ZRangeOptions,
} from './redis'
