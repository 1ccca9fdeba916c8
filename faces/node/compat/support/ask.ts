/** Runs a statement with the real pg, whichever driver is tested, to create and drop databases. */
export async function ask(server: string, text: string): Promise<void> {
  const { Client } = require('pg-real') as typeof import('pg')
  const client = new Client(server)
  await client.connect()
  await client.query(text)
  await client.end()
}
