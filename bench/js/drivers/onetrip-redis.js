// onetrip for Redis.
'use strict'

function over({ redis }, version) {
  async function open(url) {
    const client = redis(url)
    await client.get('none')
    return { get: (key) => client.get(key), close: () => client.end() }
  }
  return { open, version }
}

module.exports = { over }
