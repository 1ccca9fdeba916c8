// What is measured: how a round is run, and what is checked after it, outside the time.
'use strict'

const { row, rows } = require('./checksum')
const { inFlight } = require('./loops')

/** Rows of the table. */
const ITEMS = 100_000

function idOf(number) {
  // Neighbours in time are not neighbours in the table.
  return ((number * 7919) % ITEMS) + 1
}

const value = {
  run: (client, round) =>
    inFlight(round, async (number) => {
      const got = await client.value(number)
      if (got !== number) throw new Error(`asked for ${number}, got ${got}`)
    }),
  async validate(client) {
    return (await client.value(17)) + (await client.value(-4))
  },
}

const item = {
  run: (client, round) =>
    inFlight(round, async (number) => {
      const { id } = await client.item(idOf(number))
      if (id !== idOf(number)) throw new Error(`asked for ${idOf(number)}, got ${id}`)
    }),
  async validate(client) {
    return row(await client.item(1)) + row(await client.item(2)) + row(await client.item(99_999))
  },
}

/** A Date is stored in a column without a zone. */
const moment = {
  run: (client, round) =>
    inFlight(round, async (number) => {
      const { id, seconds } = await client.moment((number % MOMENTS) + 1, momentOf(number))
      if (id !== (number % MOMENTS) + 1 || seconds !== number) throw new Error(`stored ${seconds}, not ${number}`)
    }),
  async validate(client) {
    return (await client.moment(1, momentOf(17))).seconds
  },
}

const MOMENTS = 1_000

/** So many seconds after the beginning of 2024. */
function momentOf(seconds) {
  return new Date(Date.UTC(2024, 0, 1) + seconds * 1_000)
}

/** An operation is one select of so many rows. */
function items(count) {
  return {
    run: (client, round) =>
      inFlight(round, async () => {
        const { length } = await client.items(count)
        if (length !== count) throw new Error(`asked for ${count} rows, got ${length}`)
      }),
    validate: async (client) => rows(await client.items(count)),
  }
}

/** An operation is one select, and so many go together. */
const group = {
  async run(client, { operations, first }) {
    for (let at = first; at < first + operations; at += GROUP) {
      const numbers = Array.from({ length: GROUP }, (_, index) => at + index)
      const got = await client.values(numbers)
      for (let i = 0; i < GROUP; i++) {
        if (got[i] !== at + i) throw new Error(`asked for ${at + i}, got ${got[i]}`)
      }
    }
  },
  async validate(client) {
    const [a, b] = await client.values([17, -4])
    return a + b
  },
}

const GROUP = 1_000

/** An ORM's transaction of two statements. */
const transaction = {
  run: (client, round) =>
    inFlight(round, async (number) => {
      const changed = await client.transaction((number % ACCOUNTS) + 1)
      if (changed !== 1) throw new Error(`changed ${changed} rows`)
    }),
}

const ACCOUNTS = 100

function getOf(keys, values) {
  return {
    run: (client, round) =>
      inFlight(round, async (number) => {
        const at = (number * 7919) % keys.length
        const got = await client.get(keys[at])
        if (got !== values[at]) throw new Error(`asked for ${values[at]}, got ${got}`)
      }),
  }
}

const set = {
  run: (client, round) =>
    inFlight(round, async (number) => {
      const at = (number * 7919) % KEYS
      const got = await client.set(keys[at], values[at])
      if (got !== 'OK') throw new Error(`set ${keys[at]}, got ${got}`)
    }),
}

const KEYS = 1_000
const keys = Array.from({ length: KEYS }, (_, at) => `bench:key:${String(at).padStart(6, '0')}`)
const values = Array.from({ length: KEYS }, (_, at) => String(at).padStart(64, '0'))

/** Those of the rows about caches. */
const hotKeys = Array.from({ length: 10_000 }, (_, at) => `bench:hot:${String(at).padStart(6, '0')}`)
const hotValues = hotKeys.map((key) => key.padStart(64))

module.exports = {
  group,
  transaction,
  get: getOf(keys, values),
  get_hot: getOf(hotKeys, hotValues),
  set,
  ...require('./proposal'),
  ...require('./neighbours'),
  ...require('./locks'),
  ...require('./replicas'),
  ...require('./floor'),
  value,
  item,
  moment,
  items_1000: items(1_000),
  items_100000: items(100_000),
}
