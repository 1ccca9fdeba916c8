// A writer on the modern face for the row failover.pause: it writes a row every few milliseconds, and prints the time
// and the server's port when the port is another one. The client connects anew by itself.
'use strict'

const path = require('node:path')
const { setTimeout: pause } = require('node:timers/promises')

const { postgres } = require(path.join(__dirname, '../../../../faces/node/lib/modern'))

async function main([url, text]) {
  const sql = postgres({ url, connectionsMax: 1 })
  // Only the language makes templates.
  const write = new Function('sql', `return sql\`${text}\`.values()`)
  let last
  for (;;) {
    const rows = await write(sql).catch(() => undefined)
    if (rows !== undefined && rows[0][0] !== last) {
      last = rows[0][0]
      console.log(`${Math.round((performance.timeOrigin + performance.now()) * 1000)} ${last}`)
    }
    await pause(PAUSE_MS)
  }
}

const PAUSE_MS = 5

void main(process.argv.slice(2))
