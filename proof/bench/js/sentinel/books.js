// Tasks that keep books for the row redis_sentinel: what that asks for and reads stands in
// proof/bench/src/rows/redis_sentinel/books.rs.
'use strict'

const path = require('node:path')

const { redis } = require(path.join(__dirname, '../../../../faces/node/lib/redis'))

let isOver = false

/** Writes numbers to a list, each with WAIT 2 in the same flight. After a failure it takes another session. */
async function keep(client, list) {
  for (let number = 0; !isOver; ) {
    let session
    try {
      session = await client.session()
    } catch (error) {
      say(claimOf(error), list, ++number)
      continue
    }
    while (!isOver) {
      const [write, copies] = await Promise.allSettled([session.rpush(list, ++number), session.command('WAIT', 2, 1000)])
      if (write.status === 'rejected') say(claimOf(write.reason), list, number)
      else say(copies.value >= 2 ? 'copied' : 'unknown', list, number)
      if (!(copies.value >= 2)) break
    }
    await session.close()
  }
}

function claimOf({ outcome }) {
  return { NotSent: 'refused', Rejected: 'refused', Applied: 'unknown', Unknown: 'unknown' }[outcome]
}

function say(...words) {
  console.log(words.join(' '))
}

async function main([url, name, tasks]) {
  const connectionsMax = Number(tasks)
  const client = redis(url, { connectionsMax, waitTimeout: 60_000 })
  process.stdin.on('end', () => (isOver = true)).resume()
  await Promise.all(Array.from({ length: tasks }, (_, task) => keep(client, `${name}:${task}`)))
  await client.close()
  say('done')
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error)
  process.exit(1)
})
