// Reads on replicas.
'use strict'

const { inFlight } = require('./loops')

/** Reads that take a server 5 ms. */
const slow = {
  prepare: (client) => client.served(),
  run: (client, round) =>
    inFlight(round, async () => {
      const { length } = await client.slow()
      if (length !== 1) throw new Error(`asked for one row, got ${length}`)
    }),
}

/** Reads at once behind each write. */
const DEPTH = 100
const IDS = Array.from({ length: DEPTH }, (_, at) => at + 1)

const points = {
  prepare: (client) => client.served(),
  async run(client, { operations, first }) {
    for (let at = first; at < first + operations; at += DEPTH) {
      const got = await client.behind((Math.floor(at / DEPTH) % 1_000) + 1, IDS)
      got.forEach((n, index) => {
        if (n !== IDS[index]) throw new Error(`asked for ${IDS[index]}, got ${n}`)
      })
    }
  },
}

/** By so many milliseconds older than the delay is a position that replicas are to serve. */
const SETTLED_MS = 100

/** Reads at once, of the newest write and of an older one. */
const AT_ONCE = Array.from({ length: 5 })

/** Tasks that write numbers and read them, where standbys replay so late. An operation is a read of each task. */
function late(delayMs) {
  const found = { writes: 0, reads: 0, stale: 0, settled: 0, served: 0 }
  return {
    prepare: (client) => client.served(),
    async run(client, { inFlight: tasks, operations }) {
      await Promise.all(Array.from({ length: tasks }, (_, at) => one(client, at + 1, operations)))
      return 0
    },
    figures: () => [found.writes, found.reads, found.stale, found.settled, found.served],
  }

  async function one(client, task, reads) {
    const old = []
    for (let n = 1, left = reads; left > 0; n++) {
      await client.write(task, n)
      found.writes++
      const own = await Promise.all(AT_ONCE.map(() => client.own(task)))
      left -= see(own, n)
      old.push([performance.now(), n, await client.position()])
      const [[since, written, position]] = old
      if (performance.now() - since < delayMs + SETTLED_MS) continue
      old.shift()
      const later = await Promise.all(AT_ONCE.map(() => client.after(position, task)))
      left -= see(later, written)
      found.settled += later.length
      found.served += later.filter(({ port }) => client.isReplica(port)).length
    }
  }

  function see(rows, written) {
    found.reads += rows.length
    found.stale += rows.filter(({ n }) => n < written).length
    return rows.length
  }
}

module.exports = {
  replica_slow: slow,
  replica_points: points,
  replica_stale_0: late(0),
  replica_stale_10: late(10),
  replica_stale_1000: late(1_000),
}
