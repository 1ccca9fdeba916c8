// Tasks that lock a row and read beside their transaction, and tasks that update that row; and many tasks of which
// each fifth statement is an update.
'use strict'

const { inFlight } = require('./loops')

const LOCKERS = 3
const UPDATERS = 6
const ROUND_MS = 2_000

function locks() {
  let found = []
  return {
    async run(client) {
      const start = performance.now()
      const ends = { count: 0, last: start, longest: 0 }
      const task = async (one) => {
        while (performance.now() < start + ROUND_MS) {
          await one()
          const now = performance.now()
          ends.longest = Math.max(ends.longest, now - ends.last)
          ends.last = now
          ends.count++
        }
      }
      const lockers = Array.from({ length: LOCKERS }, () => task(client.lockAndRead))
      const updaters = Array.from({ length: UPDATERS }, () => task(client.updateLocked))
      await Promise.all([...lockers, ...updaters])
      found = [ends.count / ((performance.now() - start) / 1_000), ends.longest]
      return 0
    },
    /** Requests in a second, and milliseconds. */
    figures: () => found,
  }
}

/** Rows of the table of items, and of counters. */
const ITEMS = 100_000
const COUNTERS = 10_000

const mixed = {
  run: (client, round) =>
    inFlight(round, async (number) => {
      const id = ((number * 7919) % ITEMS) + 1
      if (number % 5 === 0) {
        await client.update((id % COUNTERS) + 1)
        return
      }
      const item = await client.item(id)
      if (item.id !== id) throw new Error(`asked for ${id}, got ${item.id}`)
    }),
}

module.exports = { locks: locks(), mixed }
