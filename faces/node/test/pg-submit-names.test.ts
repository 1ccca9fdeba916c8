import type { Client, Submittable } from '../src/pg'
import { both, settled } from './pg-both'

const theirs = require('pg') as { Query: new (config: object, done: (...args: unknown[]) => void) => Submittable }

/** Runs a Query of the real pg, which runs itself here. */
function runsItself(client: Client, config: object): Promise<unknown> {
  return new Promise((resolve) => {
    client.query(new theirs.Query(config, (error, result) => resolve(error ?? result)))
  })
}

const text = 'select $1::int as a'

for (const pipeline of [false, true]) {
  const title = `pipeline: ${pipeline}`
  both(`a name that a query which runs itself has prepared stands for its text, ${title}`, async (client, { name }) => {
    // With pg a pipelining client takes no such query.
    const config = { name: 'n', text, values: [1] }
    const seen = [pipeline && name === 'pg' ? await client.query(config) : await runsItself(client, config)]
    seen.push(await settled(client.query({ name: 'n', text: 'select 2 as a' })))
    seen.push(...(await Promise.all([2, 3].map((a) => client.query({ name: 'n', text, values: [a] })))))
    seen.push(await client.query({ name: 'n', values: [4] }))
    if (!pipeline) seen.push(await runsItself(client, { ...config, values: [5] }))
    seen.push(await client.query({ name: 'n', text, values: [6] }))
    return [seen, await client.query('select name, statement from pg_prepared_statements')]
  }, { pipeline })
}

both('a name that is prepared by a query which runs itself is known to those behind it', async (client) => {
  const first = runsItself(client, { name: 'n', text, values: [1] })
  const behind = [2, 3].map((a) => client.query({ name: 'n', text, values: [a] }))
  return [await first, await Promise.all(behind)]
})

both('such a name in a transaction that failed is as good as any behind it', async (client) => {
  await client.query('begin')
  await runsItself(client, { name: 'n', text, values: [1] })
  await settled(client.query('select 1/0'))
  const failed = await settled(client.query({ name: 'n', text, values: [2] }))
  await client.query('rollback')
  return [failed, await client.query({ name: 'n', text, values: [3] })]
})
