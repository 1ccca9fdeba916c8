import { isIP, type Socket } from 'node:net'
import { connect } from 'node:tls'

import { InletSocket } from '../engine/socket'
import type { Config, Server } from './config'
import { RedisError } from './error'

/** The name of a server in messages. */
export function nameOf(server: Server): string {
  if ('path' in server) return server.path
  return server.host.includes(':')
    ? `[${server.host}]:${server.port}`
    : `${server.host}:${server.port}`
}

/**
 * Opens a socket, and TLS on it if TLS is configured. Returns a function that gives it up.
 * `received` is the listener of `data` that will be added to the socket.
 */
export function open(
  config: Config,
  server: Server,
  received: (chunk: Buffer) => void,
  opened: (socket: Socket) => void,
  failed: (error: RedisError) => void,
): () => void {
  const socket = begin(config, server, received)
  const end = (error: RedisError | undefined): void => {
    clearTimeout(timer)
    socket.removeAllListeners()
    // Later errors of the socket are ignored.
    socket.on('error', () => {})
    socket.destroy()
    if (error !== undefined) failed(error)
  }
  const timer = setTimeout(() => end(tooSlow(config, server)), config.connectTimeout)
  socket.once('error', (cause) => {
    const message = `the connection to ${nameOf(server)} could not be opened: ${cause.message || String(cause)}`
    end(new RedisError(message, 'connect_failed', 'NotSent', undefined, cause))
  })
  socket.once('close', () => {
    const message = `the connection to ${nameOf(server)} ended before it could be used`
    end(new RedisError(message, 'connect_failed', 'NotSent'))
  })
  socket.once(config.tls !== undefined && !('path' in server) ? 'secureConnect' : 'connect', () => {
    clearTimeout(timer)
    socket.removeAllListeners('error')
    socket.removeAllListeners('close')
    opened(socket)
  })
  return () => end(undefined)
}

function begin(config: Config, server: Server, received: (chunk: Buffer) => void): Socket {
  if ('path' in server) return new InletSocket(received).connect(server.path)
  const { host, port } = server
  if (config.tls === undefined) return tuned(new InletSocket(received)).connect(port, host)
  // An IP address must not be sent as a server name (RFC 6066, section 3).
  const name = isIP(host) === 0 ? { servername: host } : {}
  return tuned(connect({ ...name, ...config.tls, host, port }))
}

function tuned(socket: Socket): Socket {
  return socket.setNoDelay(true).setKeepAlive(true, KEEPALIVE_DELAY_MS)
}

const KEEPALIVE_DELAY_MS = 60_000

function tooSlow(config: Config, server: Server): RedisError {
  const tls = config.tls === undefined ? ', does it need TLS (rediss://)' : ''
  const message = `${nameOf(server)} was not connected in time: can it be reached${tls}, and is connectTimeout long enough?`
  return new RedisError(message, 'connect_timeout', 'NotSent')
}
