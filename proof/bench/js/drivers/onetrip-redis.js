// onetrip for Redis.
'use strict'

function over({ redis }, version) {
  async function open(url) {
    const client = redis(url)
    await client.connect()
    return {
      get: (key) => client.get(key),
      set: (key, value) => client.set(key, value),
      close: () => client.close(),
    }
  }
  return { open, version }
}

module.exports = { over }
