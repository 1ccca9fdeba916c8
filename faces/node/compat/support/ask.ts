/** One statement by the real pg, whatever is tested, so that databases come and go. */
export async function ask(server: string, text: string): Promise<void> {
  const { Client } = require('pg-real') as typeof import('pg')
  const client = new Client(server)
  await client.connect()
  await client.query(text)
  await client.end()
}
