// The clients, each behind the same few functions. A driver converts nothing: what its client returns is what is read.
'use strict'

const { readFileSync } = require('node:fs')
const path = require('node:path')

/** What is built from the package's source. */
const OURS = path.join(__dirname, '../../../../faces/node')

const pg = () => require('pg')
const dropIn = () => require(path.join(OURS, 'lib/pg'))

const DRIVERS = {
  onetrip_pg: () => require('./pg').over(dropIn(), ours()),
  pg: () => require('./pg').over(pg(), named('pg')),
  onetrip: () => require('./onetrip').over(require(path.join(OURS, 'lib/modern')), ours()),
  onetrip_guarded: () => reads('guarded'),
  onetrip_stale: () => reads('stale'),
  onetrip_alone: () => reads('alone'),
  postgres_js: () => require('./postgres-js').over(`postgres.js ${versionOf('postgres')}`),
  drizzle_onetrip: () => require('./drizzle').over(dropIn(), `${named('drizzle-orm')} on ${ours()}`),
  drizzle_pg: () => require('./drizzle').over(pg(), `${named('drizzle-orm')} on ${named('pg')}`),
  kysely_onetrip: () => require('./kysely').over(dropIn(), `${named('kysely')} on ${ours()}`),
  kysely_pg: () => require('./kysely').over(pg(), `${named('kysely')} on ${named('pg')}`),
  onetrip_redis: () => onetripRedis(),
  onetrip_redis_cached: () => onetripRedis({ cache: '64MiB' }),
  ioredis: () => require('./ioredis').over(named('ioredis')),
  floor: () => require('./floor'),
  node_redis: () => nodeRedis(),
  // More than there are keys.
  node_redis_cached: () => nodeRedis({ RESP: 3, clientSideCache: { ttl: 0, maxEntries: 20_000 } }),
}

function onetripRedis(settings) {
  return require('./onetrip-redis').over(require(path.join(OURS, 'lib/redis')), ours(), settings)
}

function nodeRedis(settings) {
  return require('./node-redis').over(`node-redis ${versionOf('redis')}`, settings)
}

function reads(way) {
  return require('./onetrip-reads').over(require(path.join(OURS, 'lib/modern')), ours(), way)
}

function driver(name) {
  return DRIVERS[name]()
}

/** Read as a file, since not every package lets its package.json be required. */
function versionOf(name) {
  return versionIn(path.join(__dirname, '../node_modules', name))
}

function named(name) {
  return `${name} ${versionOf(name)}`
}

function ours() {
  return `onetrip ${versionIn(OURS)}`
}

function versionIn(directory) {
  return JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8')).version
}

module.exports = { driver }
