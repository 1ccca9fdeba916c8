import { TaggedStatement, type Defaults, type Query } from './query'
import type { Scope } from './scope'
import { type Fragment, Identifier, Joined, templateOf } from './template'
import { Json, type Value } from './values'
import { Watch } from './watch'

/**
 * What may stand between the strings of a template: values, which are only ever sent as parameters,
 * and fragments.
 */
export type Part = Value | Fragment

/** A row of which nobody said what is in it. */
// eslint-disable-next-line @typescript-eslint/consistent-indexed-object-style
export type UnknownRow = { [column: string]: unknown }

/** Makes statements of templates. */
export interface Tag {
  <Row = UnknownRow>(strings: TemplateStringsArray, ...values: readonly Part[]): Query<Row>
  /** A name, quoted: `sql.id('schema', 'table')`. */
  id(...parts: readonly [string, ...string[]]): Fragment
  /** A value that is sent as JSON. */
  json(value: unknown): Json
  /**
   * Values or fragments with a fragment, or a comma, between each two. There has to be one at
   * least.
   */
  join(parts: readonly Part[], separator?: Fragment): Fragment
}

/** A tag whose statements go to this scope. */
export function tagOf<T extends object>(scope: Scope, defaults: Defaults, more: T): Tag & T {
  const { timeoutMs, cancelsLate } = defaults
  const tag = (strings: TemplateStringsArray, ...values: readonly unknown[]): unknown => {
    const statement = new TaggedStatement(scope, templateOf(strings), values)
    if (timeoutMs > 0 || !cancelsLate) {
      const watch = new Watch()
      watch.timeoutMs = timeoutMs
      watch.cancelsLate = cancelsLate
      statement.watch = watch
    }
    return statement
  }
  const helpers = {
    id: (...parts: string[]) => new Identifier(parts),
    json: (value: unknown) => new Json(value),
    join: (parts: readonly Part[], separator?: Fragment) => new Joined(parts, separator),
  }
  return Object.defineProperties(tag, {
    ...Object.getOwnPropertyDescriptors(helpers),
    ...Object.getOwnPropertyDescriptors(more),
  }) as unknown as Tag & T
}
