import type { Query, Tag } from '../../src/modern'

type Make = (sql: Tag, values: readonly unknown[]) => Query<unknown[]>

/**
 * Makes a statement of a text with `$1`, `$2`, …. The modern face takes only template literals of a
 * program, so this generates one. Each parameter may occur once, in order.
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
