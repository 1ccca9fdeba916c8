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

module.exports = { replica_slow: slow, replica_points: points }
