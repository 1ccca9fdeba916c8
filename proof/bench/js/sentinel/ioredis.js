// A writer on ioredis for the row redis_sentinel.pause: it runs a script that writes and returns the server's port, and
// prints the time and the port when the port is another one.
'use strict'

const { setTimeout: pause } = require('node:timers/promises')

const Redis = require('ioredis')

const PAUSE_MS = 5

/** It listens to the Sentinels' announcements, leaves a master that turns into a replica, and tries all the time. */
function connect({ sentinels, name, password, sentinel_password: sentinelPassword }) {
  const redis = new Redis({
    sentinels: sentinels.map(([host, port]) => ({ host, port })),
    name,
    password,
    sentinelPassword,
    failoverDetector: true,
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
    retryStrategy: () => PAUSE_MS,
    sentinelRetryStrategy: () => PAUSE_MS,
  })
  redis.on('error', () => undefined)
  return redis
}

async function main([told, script]) {
  const redis = connect(JSON.parse(told))
  let last
  for (;;) {
    const port = await redis.eval(script, 1, 'ioredis').catch(() => last)
    if (port !== last) {
      last = port
      console.log(`${Math.round((performance.timeOrigin + performance.now()) * 1000)} ${last}`)
    }
    await pause(PAUSE_MS)
  }
}

void main(process.argv.slice(2))
