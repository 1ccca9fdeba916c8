import type { Query, Tag } from '../../src/modern'

type Make = (sql: Tag, values: readonly unknown[]) => Query<unknown[]>

/**
 * A statement of a text with `$1`, `$2`, …: the modern face takes templates only, and only those that stand in a program. So
 * this is one. Each parameter may stand once, in order.
 */
export function statement(sql: Tag, text: string, values: readonly unknown[] = []): Query<unknown[]> {
  const escaped = text
    .replace(/[\\`]|\$\{/g, '\\$&')
    .replaceAll('\r', '\\r')
  const hole = (_: string, number: string): string => '${values[' + (Number(number) - 1) + ']}'
  const literal = values.length === 0 ? escaped : escaped.replace(/\$(\d+)/g, hole)
  const make = new Function('sql', 'values', `return sql\`${literal}\``) as Make
  return make(sql, values)
}
