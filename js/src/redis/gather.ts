import { Response } from '../engine/exports'
import { Call } from './call'
import type { Argument } from './encode'
import { RedisError } from './error'
import type { Reply } from './reply'
import { slotOf } from './spec'

/** A part of a command, and where it goes. */
export interface Part<T> {
  readonly to: T
  readonly args: readonly Argument[]
}

/** Sends the parts of a command, and answers it with what is made of their replies. */
export function gather<T>(
  call: Call,
  parts: readonly Part<T>[],
  send: (part: Call, to: T) => void,
  combine: (replies: Reply[]) => Reply,
  firstWins: boolean,
): void {
  const replies = new Array<Reply>(parts.length)
  let left = parts.length
  parts.forEach(({ to, args }, i) => {
    const done = (reply: unknown): void => {
      replies[i] = reply as Reply
      if (--left === 0) finish(call, replies, combine, firstWins)
    }
    // The deadline is that of the whole.
    const part = new Call(call.spec, args, call.how, undefined, done, done)
    part.leaves = call.leaves
    send(part, to)
  })
}

function finish(
  call: Call,
  replies: Reply[],
  combine: (replies: Reply[]) => Reply,
  firstWins: boolean,
): void {
  const good = replies.filter((reply) => !(reply instanceof RedisError))
  const [bad] = replies.filter((reply) => reply instanceof RedisError)
  if (bad !== undefined && !(firstWins && good.length > 0)) {
    // Some took effect, others did not.
    const mixed = good.length > 0 && !call.spec.readonly
    const differ = replies.some(
      (reply) => reply instanceof RedisError && reply.outcome !== bad.outcome,
    )
    return call.reject(mixed || differ ? bad.with('Unknown', call.spec.name) : bad)
  }
  try {
    call.answer(combine(good))
  } catch {
    const outcome = call.spec.readonly ? 'Rejected' : 'Applied'
    const message = 'the replies of the nodes do not fit together'
    call.reject(new RedisError(message, 'mismatch', outcome, call.spec.name))
  }
}

/** What is made of the replies of all nodes, by what the table says of the command. */
export function combined(
  name: string,
  policy: number,
  nodes: readonly string[],
  replies: Reply[],
): Reply {
  if (name === 'RANDOMKEY') return replies.find((reply) => reply !== null) ?? null
  const fold = FOLDS[policy]
  if (fold !== undefined) return replies.reduce((one, other) => folded(one, other, fold))
  if (policy === Response.ONE_SUCCEEDED || policy === Response.ALL_SUCCEEDED)
    return replies[0] as Reply
  if (policy === Response.USUAL) return replies.flatMap((reply) => reply as Reply[])
  const made = Object.create(null) as { [node: string]: Reply }
  nodes.forEach((node, i) => (made[node] = replies[i] as Reply))
  return made
}

type Fold = (one: number | bigint, other: number | bigint) => number | bigint

const FOLDS: { readonly [policy: number]: Fold | undefined } = {
  [Response.SUM]: (one, other) =>
    typeof one === 'number' && typeof other === 'number'
      ? one + other
      : BigInt(one) + BigInt(other),
  [Response.MIN]: (one, other) => (one < other ? one : other),
  [Response.MAX]: (one, other) => (one > other ? one : other),
  [Response.AND]: (one, other) => (one && other ? 1 : 0),
  [Response.OR]: (one, other) => (one || other ? 1 : 0),
}

/** Numbers, or lists of numbers item by item. */
function folded(one: Reply, other: Reply, fold: Fold): Reply {
  if (Array.isArray(one) && Array.isArray(other) && one.length === other.length) {
    return one.map((item, i) => folded(item, other[i] as Reply, fold))
  }
  if (isNumber(one) && isNumber(other)) return fold(one, other)
  throw new Error('no numbers')
}

function isNumber(reply: Reply): reply is number | bigint {
  return typeof reply === 'number' || typeof reply === 'bigint'
}

/** A command split by the hash slots of its keys, and the part and place of each key. */
export function split(
  name: string,
  args: readonly Argument[],
): { parts: Part<number>[]; order: [number, number][] } {
  const step = name.startsWith('MSET') ? 2 : 1
  const parts: { to: number; args: Argument[] }[] = []
  const partOf = new Map<number, number>()
  const order: [number, number][] = []
  for (let i = 0; i < args.length; i += step) {
    const slot = slotOf(args[i] as Argument)
    let at = partOf.get(slot)
    if (at === undefined) {
      at = parts.push({ to: slot, args: [] }) - 1
      partOf.set(slot, at)
    }
    const part = parts[at] as { args: Argument[] }
    order.push([at, part.args.length / step])
    part.args.push(...args.slice(i, i + step))
  }
  return { parts, order }
}
