// A writer on onetrip for the row redis_sentinel.pause, as ioredis.js is one. It finds the next master by itself.
'use strict'

const path = require('node:path')
const { setTimeout: pause } = require('node:timers/promises')

const { redis } = require(path.join(__dirname, '../../../../faces/node/lib/redis'))

const PAUSE_MS = 5

async function main([url, script]) {
  const client = redis(url, { waitTimeout: 60_000 })
  let last
  for (;;) {
    const port = await client.command('EVAL', script, 1, 'onetrip-node').catch(() => last)
    if (port !== last) {
      last = port
      console.log(`${Math.round((performance.timeOrigin + performance.now()) * 1000)} ${last}`)
    }
    await pause(PAUSE_MS)
  }
}

// Without Sentinels in the client, this throws.
if (process.argv[2] === '--check') redis('redis+sentinel://127.0.0.1:26379/mymaster').destroy()
else void main(process.argv.slice(2))
