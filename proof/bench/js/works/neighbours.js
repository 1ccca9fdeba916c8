// Quick statements beside slow ones in one pool: what they wait, at the 99th percentile and the 99.9th.
'use strict'

const TASKS = 200

/** Statements of all tasks in a second, for each connection: of a hundred one takes half a second. */
const RATE = 80

const SLOW = 0.5
const ROUND_MS = 3_000

/** Fifty texts that differ in more than a number. */
const TEXTS = Array.from({ length: 50 }, (_, at) => {
  const letter = (digit) => String.fromCharCode(97 + digit)
  return `select $1::float8 as t${letter(Math.floor(at / 10))}${letter(at % 10)}, pg_sleep($1)::text`
})

/** `texts`: five of fifty texts are slow in a tenth of their calls. `slow`: whether any is. */
function mixture({ texts, slow }) {
  let waits = []
  return {
    async run(client, { connections }) {
      waits = []
      const period = (1_000 * TASKS) / (RATE * connections)
      const room = { left: connections - 1 }
      const start = performance.now()
      const tasks = Array.from({ length: TASKS }, async () => {
        let next = start + period * Math.random()
        while (next < start + ROUND_MS) {
          await until(next)
          next += period * (0.5 + Math.random())
          await once(client, room)
        }
      })
      await Promise.all(tasks)
      return 0
    },
    /** Milliseconds. */
    figures() {
      const sorted = waits.slice().sort((a, b) => a - b)
      return [0.99, 0.999].map((share) => sorted[Math.floor(share * (sorted.length - 1))])
    },
  }

  async function once(client, room) {
    const which = Math.floor(Math.random() * 50)
    const wantsSlow = texts ? which < 5 && Math.random() < 0.1 : Math.random() < 0.01
    const isSlow = slow && wantsSlow && room.left > 0
    if (isSlow) room.left--
    const before = performance.now()
    if (texts) await client.text(TEXTS[which], isSlow ? SLOW : 0)
    else if (isSlow) await client.text('select $1::float8, pg_sleep($1)::text', SLOW)
    else await client.item(which + 1)
    if (isSlow) room.left++
    else waits.push(performance.now() - before)
  }
}

/** The longest of ten quick ones issued right behind one of 1.5 s, on a client with one connection. */
function oneTick() {
  const found = {}
  return {
    async run(_, { connections }, reopen) {
      const start = performance.now()
      const client = await reopen(connections)
      await client.value(0)
      const first = performance.now() - start
      const trips = []
      for (let i = 0; i < 20; i++) trips.push(await timed(() => client.value(i)))
      trips.sort((a, b) => a - b)
      const bound = trips[10] + first
      const slow = sent(client.text('select $1::float8, pg_sleep($1)::text', 1.5))
      const quick = Array.from({ length: 10 }, (_, i) => timed(() => client.value(i)))
      const longest = Math.max(...(await Promise.all(quick)))
      await slow
      await client.close()
      found.figures = [longest / bound, longest, bound]
      return 0
    },
    figures: () => found.figures,
  }
}

/** How many quick ones of twenty loops are answered in a second: beside slow ones on all connections but one. */
function busy({ slow }) {
  const found = {}
  return {
    async run(client, { connections }) {
      const count = slow ? connections - 1 : 0
      const reports = Array.from({ length: count }, () =>
        sent(client.text('select $1::float8, pg_sleep($1)::text', 2)),
      )
      // The slow ones are on their way by then.
      await until(performance.now() + 100)
      const start = performance.now()
      const loops = Array.from({ length: 20 }, async (_, loop) => {
        for (let i = 0; i < 250; i++) await client.item(1 + ((loop * 250 + i) % 50))
      })
      await Promise.all(loops)
      found.figures = [5_000 / ((performance.now() - start) / 1_000)]
      await Promise.all(reports)
      return 0
    },
    figures: () => found.figures,
  }
}

/** A template is sent when it is first awaited. */
const sent = (query) => query.then((rows) => rows)

async function timed(call) {
  const start = performance.now()
  await call()
  return performance.now() - start
}

function until(time) {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, time - performance.now())))
}

module.exports = {
  neighbours_mixed: mixture({ texts: false, slow: true }),
  neighbours_mixed_alone: mixture({ texts: false, slow: false }),
  neighbours_texts: mixture({ texts: true, slow: true }),
  neighbours_texts_alone: mixture({ texts: true, slow: false }),
  neighbours_one_tick: oneTick(),
  neighbours_busy: busy({ slow: true }),
  neighbours_busy_alone: busy({ slow: false }),
}
