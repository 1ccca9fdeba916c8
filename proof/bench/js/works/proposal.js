// The statements of the benchmark of node-postgres's proposal to pipeline (brianc/node-postgres#3591), with rows as
// arrays, as they are there.
'use strict'

const { inFlight } = require('./loops')

const TYPES = `select typname, typnamespace, typowner, typlen, typbyval, typcategory, typispreferred, typisdefined,
  typdelim, typrelid, typelem, typarray from pg_type where typtypmod = $1 and typisdefined = $2`

/** An operation is one such query; `sum` makes a number of its result. */
function repeated(config, sum, prepare) {
  const query = { ...config, rowMode: 'array' }
  return {
    prepare,
    run: (client, round) =>
      inFlight(round, async () => {
        await client.query({ ...query })
      }),
    validate: async (client) => sum(await client.query({ ...query })),
  }
}

function textSum({ rows }) {
  let sum = 0
  for (const char of JSON.stringify(rows)) sum = (Math.imul(sum, 31) + char.charCodeAt(0)) >>> 0
  return sum
}

module.exports = {
  proposal_param: repeated({ text: TYPES, values: [-1, true] }, textSum),
  proposal_named: repeated({ name: 'types', text: TYPES, values: [-1, true] }, textSum),
  proposal_sequence: repeated({ text: 'select * from generate_series(1, 1000)' }, textSum),
  proposal_insert: repeated(
    { text: 'insert into foobar (name, age) values ($1, $2)', values: ['brian', 100] },
    ({ rowCount }) => rowCount,
    (client) => client.query({ text: 'create temp table foobar (name text, age numeric)' }),
  ),
}
