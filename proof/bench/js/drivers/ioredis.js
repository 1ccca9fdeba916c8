// ioredis, which sends what was asked in one turn of the event loop together when it is told to.
'use strict'

const Redis = require('ioredis')

function over(version) {
  async function open(url) {
    const redis = new Redis(url, { enableAutoPipelining: true, lazyConnect: true })
    await redis.connect()
    return { get: (key) => redis.get(key), close: () => redis.quit() }
  }
  return { open, version }
}

module.exports = { over }
