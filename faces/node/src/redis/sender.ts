import { isUint8Array } from 'node:util/types'

import type { Shape } from './call'
import type { Argument } from './encode'
import { type Spec, specOf } from './spec'
import { type Row, TABLE, unfold } from './table'

/**
 * An object with the methods of `Commands`: a client, a session or a list. `_send` decides what the
 * methods return.
 */
export interface Sender {
  /** Not for callers: sends a command, or adds it to a list. */
  _send(spec: Spec, args: readonly Argument[], shape: Shape | undefined): unknown
}

type Method = (this: Sender, ...args: unknown[]) => unknown

/** Gives a class the methods of `Commands`. */
export function addCommands(target: { readonly prototype: object }): void {
  for (const name of Object.keys(TABLE) as (keyof typeof TABLE)[]) {
    const value = methodOf(TABLE[name])
    Object.defineProperty(target.prototype, name, { value, writable: true, configurable: true })
  }
}

function methodOf({ name, shape, build }: Row): Method {
  // The command is looked up at its first use, since a lookup loads the module.
  let spec: Spec | undefined
  if (build !== undefined) {
    return function (...args) {
      return this._send((spec ??= specOf(name)), build(...args), shape)
    }
  }
  return function (...args) {
    return this._send((spec ??= specOf(name)), areFlat(args) ? args : unfold(args), shape)
  }
}

function areFlat(args: readonly unknown[]): args is readonly Argument[] {
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]
    if (typeof arg === 'object' && !isUint8Array(arg)) return false
  }
  return true
}
