// onetrip for Redis.
'use strict'

function over({ redis }, version, settings) {
  async function open(url) {
    const client = redis({ url, ...settings })
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
