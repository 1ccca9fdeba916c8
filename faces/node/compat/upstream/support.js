'use strict'
// Loaded before each test of node-postgres: where the server is, and, if that is asked for, clients
// and pools that pipeline.

const { hostname, port, username, password, pathname } = new URL(process.env.ONETRIP_TEST_POSTGRES)
Object.assign(process.env, {
  PGHOST: hostname,
  PGPORT: port,
  PGUSER: username,
  PGPASSWORD: password,
  PGDATABASE: pathname.slice(1),
  PGTESTNOSSL: '1',
})

if (process.env.ONETRIP_UPSTREAM_PIPELINE) {
  // Every configuration has it then, also the one that a test leaves out.
  Object.defineProperty(Object.prototype, 'pipeline', { value: true, writable: true, configurable: true })
}
