import type { Parameter } from '../engine/link'
import { misuse } from './error'
import { shownBy } from './traits'
import { encode } from './values'

/** A part of a statement's text, with its parameters. Only `sql` makes fragments. */
export abstract class Fragment {
  /** Adds its text and parameters to a statement. */
  abstract _write(to: Draft): void
}

/** A statement under construction: its text, and its encoded parameters. */
export class Draft {
  text = ''
  readonly parameters: Parameter[] = []

  add(strings: readonly string[], values: readonly unknown[]): void {
    this.text += strings[0] as string
    for (let i = 0; i < values.length; i++) {
      const value = values[i]
      if (value instanceof Fragment) value._write(this)
      else this.#value(value, strings[i + 1] as string)
      this.text += strings[i + 1] as string
    }
  }

  #value(value: unknown, behind: string): void {
    if (Array.isArray(value) && value.some((it) => it instanceof Fragment)) {
      throw misuse('array_of_fragments', 'an array of fragments is not a value: use sql.join(…)')
    }
    this.parameters.push(encode(value, this.parameters.length + 1, behind))
    this.text += `$${this.parameters.length}`
  }
}

/**
 * The strings of a template, and the text that they make if everything between them is a value.
 */
export class Template {
  readonly strings: readonly string[]
  readonly #text: string
  #traits: number | undefined

  constructor(strings: readonly string[]) {
    this.strings = strings
    this.#text = strings.reduce((text, next, i) => `${text}$${i}${next}`)
  }

  /** The text and the parameters for these values. */
  write(values: readonly unknown[]): {
    text: string
    parameters: readonly Parameter[]
    traits: number
  } {
    const { length } = values
    const parameters = new Array<Parameter>(length)
    for (let i = 0; i < length; i++) {
      const value = values[i]
      if (typeof value === 'object' && (value instanceof Fragment || Array.isArray(value))) {
        return this.#assemble(values)
      }
      parameters[i] = encode(value, i + 1)
    }
    if (length > PARAMETERS_MAX) throw tooMany(length)
    this.#traits ??= shownBy(this.#text)
    return { text: this.#text, parameters, traits: this.#traits }
  }

  #assemble(values: readonly unknown[]): {
    text: string
    parameters: readonly Parameter[]
    traits: number
  } {
    const draft = new Draft()
    draft.add(this.strings, values)
    const { text, parameters } = draft
    if (parameters.length > PARAMETERS_MAX) throw tooMany(parameters.length)
    return { text, parameters, traits: shownBy(text) }
  }
}

/**
 * The template of the strings that the language made for a tagged template. Any other array is
 * refused, since a caller may have put user input into it.
 */
export function templateOf(strings: unknown): Template {
  let template = templates.get(strings as object)
  if (template === undefined) {
    check(strings)
    template = new Template(strings)
    templates.set(strings, template)
  }
  return template
}

/** One template for each place in the program: the language makes its strings once. */
const templates = new WeakMap<object, Template>()

function check(strings: unknown): asserts strings is readonly string[] {
  if (!Array.isArray(strings) || !Object.hasOwn(strings, 'raw')) {
    throw misuse(
      'not_a_template',
      'sql is a tag, not a function: write sql`select …`, without parentheses',
    )
  }
  const raw = Object.getOwnPropertyDescriptor(strings, 'raw')
  // The language makes both arrays, and freezes them (ECMAScript, GetTemplateObject). An array from
  // JSON or from code is not frozen in this way.
  const genuine =
    Object.isFrozen(strings) &&
    raw?.enumerable === false &&
    Array.isArray(raw.value) &&
    Object.isFrozen(raw.value) &&
    raw.value.length === strings.length
  if (!genuine) {
    throw misuse(
      'forged_template',
      'sql takes only a template literal: this array was made in another way',
    )
  }
  if (!strings.every((string) => typeof string === 'string')) {
    throw misuse('invalid_escape', 'the template has an invalid escape sequence: write \\\\ for \\')
  }
}

/** A quoted name of one or several parts. */
export class Identifier extends Fragment {
  readonly #text: string

  constructor(parts: readonly string[]) {
    super()
    if (parts.length === 0) throw misuse('identifier', 'sql.id: a name is missing')
    this.#text = parts.map(quoteName).join('.')
  }

  _write(to: Draft): void {
    to.text += this.#text
  }
}

function quoteName(name: unknown): string {
  if (typeof name !== 'string' || name === '' || name.includes('\0')) {
    throw misuse('identifier', 'sql.id takes strings that are not empty and have no zero byte')
  }
  return `"${name.replace(/"/g, '""')}"`
}

/** Parts, with a separator between each two. */
export class Joined extends Fragment {
  readonly #parts: readonly unknown[]
  readonly #separator: Fragment | undefined

  constructor(parts: readonly unknown[], separator: Fragment | undefined) {
    super()
    if (!Array.isArray(parts) || parts.length === 0) {
      throw misuse('nothing_to_join', 'sql.join: there is nothing to join')
    }
    if (separator !== undefined && !(separator instanceof Fragment)) {
      throw misuse('not_a_template', 'sql.join: the separator must be made by sql`…`')
    }
    this.#parts = [...parts]
    this.#separator = separator
  }

  _write(to: Draft): void {
    this.#parts.forEach((part, i) => {
      if (i > 0 && this.#separator === undefined) to.text += ', '
      else if (i > 0) this.#separator?._write(to)
      to.add(ALONE, [part])
    })
  }
}

const ALONE = ['', '']

function tooMany(count: number): Error {
  const message = `a statement takes at most ${PARAMETERS_MAX} parameters, and this one has ${count}: send an array`
  return misuse('too_many_parameters', message)
}

/** The protocol sends the number of parameters in two bytes. */
const PARAMETERS_MAX = 65_535
