import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/**
 * The channel binding of SCRAM (`tls-server-end-point`, RFC 5929, section 4.1): the hash of the
 * server's certificate, by the hash function of its signature, or by SHA-256 if that is MD5 or
 * SHA-1. Undefined without TLS.
 */
export function channelBinding(stream: Socket): string | undefined {
  if (!(stream instanceof TLSSocket)) return undefined
  const { raw } = stream.getPeerCertificate()
  return raw && createHash(hashOf(raw)).update(raw).digest('hex')
}

/**
 * The same, but undefined if the certificate allows no channel binding. An Ed25519 certificate does
 * not, since PostgreSQL has no hash function for it.
 */
export function bindingIfAny(stream: Socket): string | undefined {
  try {
    const binding = channelBinding(stream)
    return binding && (stream as TLSSocket).getPeerCertificate().raw.includes(ED25519) ? undefined : binding
  } catch {
    return undefined
  }
}

/** The hash function for a certificate, by its name in `node:crypto`. */
export function hashOf(certificate: Buffer): string {
  const whole = new Der(certificate).enter(SEQUENCE)
  whole.skip()
  const algorithm = whole.enter(SEQUENCE)
  const name = algorithm.take(OID).toString('hex')
  const signed = name === RSA_PSS ? algorithm.enter(SEQUENCE).enter(FIRST) : undefined
  const hash = signed ? HASHES[signed.enter(SEQUENCE).take(OID).toString('hex')] : SIGNATURES[name]
  if (hash === undefined) {
    throw new Error('SASL channel binding: the certificate of the server is signed in an unknown way')
  }
  return hash
}

/** Reads DER: values with their types and lengths in front (X.690, section 8.1). */
class Der {
  #at = 0

  constructor(readonly bytes: Buffer) {}

  enter(type: number): Der {
    return new Der(this.take(type))
  }

  skip(): void {
    this.take(this.bytes[this.#at])
  }

  take(type: number | undefined): Buffer {
    const { bytes } = this
    if (type === undefined || bytes[this.#at] !== type) throw new Error(MALFORMED)
    let length = bytes[this.#at + 1] ?? 0
    let start = this.#at + 2
    if (length > 0x7f) {
      const size = length & 0x7f
      if (size < 1 || size > 4 || start + size > bytes.length) throw new Error(MALFORMED)
      length = bytes.readUIntBE(start, size)
      start += size
    }
    if (start + length > bytes.length) throw new Error(MALFORMED)
    this.#at = start + length
    return bytes.subarray(start, this.#at)
  }
}

const MALFORMED = 'SASL channel binding: the certificate of the server is malformed'

const SEQUENCE = 0x30
const OID = 0x06
/** The tag of the first optional field. */
const FIRST = 0xa0

/** 1.3.101.112 (RFC 8410), with its type and length in front. */
const ED25519 = Buffer.from('06032b6570', 'hex')

/** 1.2.840.113549.1.1.10 (RFC 4055): the parameters name the hash. */
const RSA_PSS = '2a864886f70d01010a'

/** Hash functions of signatures, by the OID of the signature (RFC 4055, RFC 5758, RFC 8410). */
const SIGNATURES: { readonly [oid: string]: string } = {
  // MD5 and SHA-1 with RSA, SHA-1 with ECDSA.
  '2a864886f70d010104': 'sha256',
  '2a864886f70d010105': 'sha256',
  '2a8648ce3d0401': 'sha256',
  '2a864886f70d01010e': 'sha224',
  '2a864886f70d01010b': 'sha256',
  '2a864886f70d01010c': 'sha384',
  '2a864886f70d01010d': 'sha512',
  '2a864886f70d01010f': 'sha512-224',
  '2a864886f70d010110': 'sha512-256',
  '2a8648ce3d040301': 'sha224',
  '2a8648ce3d040302': 'sha256',
  '2a8648ce3d040303': 'sha384',
  '2a8648ce3d040304': 'sha512',
  // Ed25519, as pg has it.
  '2b6570': 'sha512',
}

/** Hash functions, by their OIDs: MD5, SHA-1, SHA-2. */
const HASHES: { readonly [oid: string]: string } = {
  '2a864886f70d0205': 'sha256',
  '2b0e03021a': 'sha256',
  '608648016503040204': 'sha224',
  '608648016503040201': 'sha256',
  '608648016503040202': 'sha384',
  '608648016503040203': 'sha512',
}
