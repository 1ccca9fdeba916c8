// What was found.

export interface Failure {
  readonly code: string
  readonly message: string
  readonly outcome: string | undefined
}

/** What became of uses that stand or fall together: their rows, or the error. */
export type End = { readonly rows: readonly string[] } | { readonly error: Failure }

export interface Report {
  readonly uses: number
  readonly migrations: number
  /** The errors that migrations cost, by their texts. */
  readonly errors: Readonly<Record<string, number>>
  readonly skipped: readonly string[]
  readonly wrong: readonly string[]
}

export class Book {
  where = ''
  uses = 0
  migrations = 0
  readonly skipped = new Set<string>()
  readonly #wrong: string[] = []
  readonly #errors = new Map<string, number>()

  wrong(what: string): void {
    this.#wrong.push(`${this.where}: ${what}`)
  }

  /** Notes an error that a migration cost. It may have had no effect. */
  cost({ code, message, outcome }: Failure): void {
    const said = `${code} ${message.replaceAll(/\bm\d+/g, 'm').replaceAll(/\d{3,}/g, 'N')}`
    this.#errors.set(said, (this.#errors.get(said) ?? 0) + 1)
    if (outcome !== 'Rejected' && outcome !== 'NotSent') this.wrong(`an error is ${outcome}: ${said}`)
  }

  report(): Report {
    const { uses, migrations } = this
    const errors = Object.fromEntries(this.#errors)
    return { uses, migrations, errors, skipped: [...this.skipped], wrong: this.#wrong }
  }
}

const PATIENCE_MS = 60_000

/** Waits for an end, and takes it for a failure if none comes. */
export async function ended(work: Promise<string[]>): Promise<End> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('it does not end')), PATIENCE_MS)
  })
  try {
    return { rows: await Promise.race([work, late]) }
  } catch (error) {
    const { code = '', message, outcome } = error as Error & Partial<Failure>
    return { error: { code, message, outcome } }
  } finally {
    clearTimeout(timer)
  }
}

export function said(end: End | undefined): string {
  if (end === undefined) return 'nothing'
  return 'rows' in end ? end.rows.join(' ') : `${end.error.code} ${end.error.message}`
}
