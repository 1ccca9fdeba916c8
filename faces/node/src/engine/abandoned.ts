import { safely } from './guard'

/** What a handle has on loan, apart from the handle itself, which this must not reach. */
export interface Loan {
  /**
   * Nobody can reach the handle any more: gives back what it has on loan. Returns a warning;
   * undefined if there was nothing to give back.
   */
  abandoned(): string | undefined
}

/** Has the loan given back once the garbage collector has found that nobody can reach the handle. */
export function onLoan(handle: object, loan: Loan): void {
  registry.register(handle, loan, loan)
}

/** Forgets a loan, which may reach the handle from now on. */
export function settled(loan: Loan): void {
  registry.unregister(loan)
}

const registry = new FinalizationRegistry<Loan>((loan) =>
  safely(() => {
    const warning = loan.abandoned()
    if (warning !== undefined) process.emitWarning(warning, { code: 'ONETRIP_ABANDONED' })
  }),
)
