import { TaggedStatement, type Defaults, type Query } from './query'
import type { Scope } from './scope'
import type { Statement } from './statement'
import { type Fragment, Identifier, Joined, type Template, templateOf } from './template'
import { Json, type Value } from './values'
import { Watch } from './watch'

/**
 * What may stand in `${…}` of a template: a value, which is only ever sent as a parameter, or a
 * fragment, whose text becomes part of the statement.
 */
export type Part = Value | Fragment

/** A row whose type was not given. */
// eslint-disable-next-line @typescript-eslint/consistent-indexed-object-style
export type UnknownRow = { [column: string]: unknown }

/** A tag that makes statements of templates. Nothing is sent before a statement is awaited. */
export interface Tag {
  <Row = UnknownRow>(strings: TemplateStringsArray, ...values: readonly Part[]): Query<Row>
  /** A quoted name: `sql.id('shop', 'item')` is `"shop"."item"`. */
  id(...parts: readonly [string, ...string[]]): Fragment
  /** A value that is sent as JSON. */
  json(value: unknown): Json
  /** Joins values and fragments, at least one, by a fragment (default: a comma). */
  join(parts: readonly Part[], separator?: Fragment): Fragment
}

/**
 * Makes a tag whose statements are sent to this scope, with the members of `more`, of which none is
 * a getter. `made` makes the statements.
 */
export function tagOf<T extends object>(
  scope: Scope,
  defaults: Defaults,
  more: T,
  made: new (scope: Scope, template: Template, given: readonly unknown[]) => Statement = TaggedStatement,
): Tag & T {
  const { timeoutMs, cancelsLate } = defaults
  const tag = (strings: TemplateStringsArray, ...values: readonly unknown[]): unknown => {
    const statement = new made(scope, templateOf(strings), values)
    if (timeoutMs > 0 || !cancelsLate) {
      const watch = new Watch()
      watch.timeoutMs = timeoutMs
      watch.cancelsLate = cancelsLate
      watch.isDefault = true
      statement.watch = watch
    }
    return statement
  }
  return Object.assign(tag, HELPERS, more) as unknown as Tag & T
}

const HELPERS = {
  id: (...parts: string[]) => new Identifier(parts),
  json: (value: unknown) => new Json(value),
  join: (parts: readonly Part[], separator?: Fragment) => new Joined(parts, separator),
}
