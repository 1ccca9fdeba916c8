import assert from 'node:assert/strict'
import { createServer, type AddressInfo } from 'node:net'

import type { ClientConfig } from '../src/pg'
import { bothAlone, settled, type Side } from './pg-both'

/** The parameters of a client's startup message, sorted by name. */
async function told(side: Side, config: ClientConfig, environment: { [name: string]: string } = {}): Promise<unknown> {
  let first: Buffer | undefined
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (chunk) => {
      first = chunk
      socket.destroy()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const before = { ...process.env }
  Object.assign(process.env, environment)
  try {
    const { port } = server.address() as AddressInfo
    const connectionString = config.connectionString?.replace('PORT', String(port))
    const client = new side.Client({ host: '127.0.0.1', port, user: 'me', ...config, connectionString })
    client.on('error', () => {})
    await settled(client.connect())
  } finally {
    for (const name of Object.keys(environment)) delete process.env[name]
    Object.assign(process.env, before)
    server.close()
  }
  assert.ok(first)
  const texts = first.subarray(8).toString().split('\0')
  const pairs: string[] = []
  for (let i = 0; i + 1 < texts.length && texts[i] !== ''; i += 2) pairs.push(`${texts[i]}=${texts[i + 1]}`)
  return [first.readInt32BE(4), pairs.sort()]
}

const CONFIGS: readonly [string, ClientConfig, { [name: string]: string }?][] = [
  ['no more than the user', {}],
  ['a database', { database: 'd ü' }],
  ['names of the application', { application_name: 'a', fallback_application_name: 'b' }],
  ['a fallback alone', { fallback_application_name: 'b' }],
  ['timeouts', { statement_timeout: 1500, lock_timeout: 20.9, idle_in_transaction_session_timeout: '30000' }],
  ['timeouts of nothing', { statement_timeout: 0, lock_timeout: false, idle_in_transaction_session_timeout: undefined }],
  ['options', { options: '-c geqo=off -c search_path=a\\ b' }],
  ['replication', { replication: 'database' }],
  ['replication as a boolean', { replication: true }],
  ['an encoding', { client_encoding: 'latin1' }],
  ['what concerns only this side', { query_timeout: 5, binary: true, keepAlive: true, types: { getTypeParser: () => String } }],
  ['the environment', {}, { PGAPPNAME: 'env', PGOPTIONS: '-c geqo=off', PGDATABASE: 'e', PGCLIENTENCODING: 'utf8' }],
  ['both', { application_name: 'a', database: 'd' }, { PGAPPNAME: 'env', PGDATABASE: 'e' }],
]

for (const [name, config, environment] of CONFIGS) {
  bothAlone(`the server is told of ${name}`, (side) => told(side, config, environment))
}

bothAlone('a connection string says what a configuration says', (side) => {
  const parameters = 'application_name=a&fallback_application_name=f&options=-c%20geqo%3Doff&statement_timeout=7'
  return told(side, { connectionString: `postgres://u@127.0.0.1:PORT/d?${parameters}` })
})
