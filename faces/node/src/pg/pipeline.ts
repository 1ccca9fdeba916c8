/** Whether a client pipelines, and how many queries may be in flight. */
export interface Pipelining {
  readonly on: boolean
  readonly window: number
}

/** The keys of a configuration for pipelining. */
export interface PipelineConfig {
  /**
   * Sends queries without waiting for the answers to earlier ones. Each fails alone. Default false.
   */
  pipeline?: boolean | undefined
  /** Another name for `pipeline`. */
  pipelineMode?: boolean | undefined
  /** The most queries in flight; further queries wait. Default 1000. */
  pipelineMaxQueries?: number | undefined
}

export const PIPELINE_MAX_QUERIES = 1000

export function pipeliningOf(config: PipelineConfig): Pipelining {
  if (!config.pipeline && !config.pipelineMode) return { on: false, window: 1 }
  const window = config.pipelineMaxQueries ?? PIPELINE_MAX_QUERIES
  if (!Number.isInteger(window) || window < 1) {
    throw new RangeError('pipelineMaxQueries takes a whole number above 0')
  }
  return { on: true, window }
}
