type Authentication =
  'Ok' | 'CleartextPassword' | 'MD5Password' | 'SASL' | 'SASLContinue' | 'SASLFinal'

/** An authentication request of the server, as in `pg`. */
export interface AuthenticationMessage {
  name: `authentication${Authentication}`
  length: number
  salt?: Buffer
  mechanisms?: string[]
  data?: string
}

export interface BackendKeyDataMessage {
  length: number
  processID: number
  secretKey: number
  name: 'backendKeyData'
}

/** Reads a whole message of a login; undefined for a message of another type. */
export function readLogin(
  bytes: Buffer,
): AuthenticationMessage | BackendKeyDataMessage | undefined {
  const length = bytes.length - 1
  if (bytes[0] === BACKEND_KEY_DATA) {
    const [processID, secretKey] = [bytes.readInt32BE(5), bytes.readInt32BE(9)]
    return { length, processID, secretKey, name: 'backendKeyData' }
  }
  return bytes[0] === AUTHENTICATION ? readAuthentication(bytes, length) : undefined
}

function readAuthentication(bytes: Buffer, length: number): AuthenticationMessage | undefined {
  const kind = bytes.readInt32BE(5)
  const rest = bytes.subarray(9)
  const name = NAMES[kind]
  if (name === undefined) return undefined
  const message: AuthenticationMessage = { name: `authentication${name}`, length }
  if (kind === MD5) message.salt = rest
  else if (kind === SASL) message.mechanisms = rest.toString().split('\0').filter(Boolean)
  else if (kind > SASL) message.data = rest.toString()
  return message
}

const NAMES: { readonly [kind: number]: Authentication } = {
  0: 'Ok',
  3: 'CleartextPassword',
  5: 'MD5Password',
  10: 'SASL',
  11: 'SASLContinue',
  12: 'SASLFinal',
}
const MD5 = 5
const SASL = 10

const AUTHENTICATION = 0x52
const BACKEND_KEY_DATA = 0x4b
