/** Calls code of the user. What it throws is thrown in the next tick, so replies are read on. */
export function guarded(call: () => unknown): void {
  try {
    call()
  } catch (error) {
    process.nextTick(() => {
      throw error
    })
  }
}
