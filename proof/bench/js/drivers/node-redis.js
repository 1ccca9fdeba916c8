// node-redis, which pipelines by default.
'use strict'

const { createClient } = require('redis')

function over(version, settings) {
  async function open(url) {
    const client = createClient({ url, ...settings })
    client.on('error', (error) => console.error(error))
    await client.connect()
    return { get: (key) => client.get(key), close: () => client.close() }
  }
  return { open, version }
}

module.exports = { over }
