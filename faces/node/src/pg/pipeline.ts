/** How many queries of a client are sent before the first of them is answered. */
export interface Pipelining {
  readonly on: boolean
  readonly window: number
}

/** The keys of a configuration that say so. */
export interface PipelineConfig {
  /** Queries are sent at once, without waiting for those before them. Each fails alone. Default false. */
  pipeline?: boolean | undefined
  /** Another name for it. */
  pipelineMode?: boolean | undefined
  /** Queries that are sent and unanswered at most; more wait. Default 1000. */
  pipelineMaxQueries?: number | undefined
}

export const PIPELINE_MAX_QUERIES = 1000

export function pipeliningOf(config: PipelineConfig): Pipelining {
  if (!config.pipeline && !config.pipelineMode) return { on: false, window: 1 }
  const window = config.pipelineMaxQueries ?? PIPELINE_MAX_QUERIES
  if (!Number.isInteger(window) || window < 1) {
    throw new RangeError('pipelineMaxQueries is to be a whole number above 0')
  }
  return { on: true, window }
}
