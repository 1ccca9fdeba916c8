/**
 * A rule of settings: it refuses where all of these hold. A setting is said (true) or not (false),
 * or is one of some words. The rules themselves are generated.
 */
export interface Rule {
  readonly when: readonly (readonly [string, boolean | readonly string[]])[]
  readonly says: string
}

/** What was said of settings, by their names in a URL. */
export interface Said {
  readonly [name: string]: string | undefined
}

/** The words of the first rule that the settings break. */
export function broken(rules: readonly Rule[], said: Said): string | undefined {
  const holds = ([name, is]: Rule['when'][number]): boolean => {
    const text = said[name] || undefined
    return typeof is === 'boolean' ? is === (text !== undefined) : is.includes(text as string)
  }
  return rules.find((rule) => rule.when.every(holds))?.says
}

/** What options of `tls.connect` say, as the rules know it. */
export function saidOfTls(options: object | undefined): Said {
  if (options === undefined) return {}
  const of = options as { readonly [name: string]: unknown }
  const has = (...names: string[]): string | undefined =>
    names.some((name) => of[name] !== undefined) ? '1' : undefined
  const context = has('secureContext')
  return {
    tls: '1',
    'tls.ca': context ?? has('ca'),
    'tls.cert': context ?? has('cert', 'pfx'),
    'tls.key': context ?? has('key', 'pfx'),
    'tls.passphrase': context ?? has('passphrase'),
    'tls.crl': context ?? has('crl'),
    'tls.min': context ?? has('minVersion', 'secureProtocol'),
    'tls.max': context ?? has('maxVersion', 'secureProtocol'),
    'tls.verifies': of['rejectUnauthorized'] === false ? '0' : '1',
    'tls.checks_name': has('checkServerIdentity') === undefined ? '1' : '0',
  }
}
