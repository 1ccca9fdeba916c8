// The keywords of configuration, as all languages have them. Do not edit: written by
// `scripts/keywords`.

import type { Rule } from '../engine/rules'

/** How the text of a setting is read. A number is the least that it takes. */
export type Form = 'text' | 'switch' | number | readonly string[]

/**
 * A setting that a connection string can have, and the variable of the environment that it is
 * otherwise taken from.
 */
export interface Keyword {
  readonly form: Form
  readonly variable?: string
  /** What holds where nothing is said. */
  readonly otherwise?: string
}

export const KEYWORDS = {
  /** The section of the service file whose settings hold where nothing else is set. */
  service: { form: 'text', variable: 'PGSERVICE' },
  /** The service file. */
  servicefile: { form: 'text', variable: 'PGSERVICEFILE' },
  /** Names, addresses or directories of Unix sockets, in the order to try them. */
  host: { form: 'text', variable: 'PGHOST' },
  /** The address of each host, in the same order, which saves the lookup. */
  hostaddr: { form: 'text', variable: 'PGHOSTADDR' },
  /** One port for all hosts, or one for each. */
  port: { form: 'text', variable: 'PGPORT', otherwise: '5432' },
  /** The database; by default the one with the user's name. */
  dbname: { form: 'text', variable: 'PGDATABASE' },
  /** The role that logs in; by default the user of this process. */
  user: { form: 'text', variable: 'PGUSER' },
  /** The password; by default it is looked up in the password file. */
  password: { form: 'text', variable: 'PGPASSWORD' },
  /** The password file. */
  passfile: { form: 'text', variable: 'PGPASSFILE' },
  /** The name that the server shows for the connection. */
  application_name: { form: 'text', variable: 'PGAPPNAME' },
  /** The application name to use if no other is given. */
  fallback_application_name: { form: 'text' },
  /** Options for the server process. */
  options: { form: 'text', variable: 'PGOPTIONS' },
  /** The encoding of texts, which is UTF-8. */
  client_encoding: {
    form: ['auto', 'UTF8', 'utf8', 'UTF-8', 'utf-8', 'unicode'],
    variable: 'PGCLIENTENCODING',
    otherwise: 'auto',
  },
  /** Seconds for each address, its login included. */
  connect_timeout: { form: 0, variable: 'PGCONNECT_TIMEOUT', otherwise: '10' },
  /** Whether TCP keepalives are on. */
  keepalives: { form: 'switch', otherwise: '1' },
  /** Seconds of silence before the first keepalive. */
  keepalives_idle: { form: 0, otherwise: '30' },
  /** Which servers of the list are accepted. */
  target_session_attrs: {
    form: ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'],
    variable: 'PGTARGETSESSIONATTRS',
    otherwise: 'any',
  },
  /** In which order servers are tried. */
  load_balance_hosts: {
    form: ['disable', 'random'],
    variable: 'PGLOADBALANCEHOSTS',
    otherwise: 'disable',
  },
  /** Whether the connection is encrypted, and the server verified. */
  sslmode: {
    form: ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'],
    variable: 'PGSSLMODE',
    otherwise: 'prefer',
  },
  /** Whether the server is asked for TLS, or TLS begins at once. */
  sslnegotiation: {
    form: ['postgres', 'direct'],
    variable: 'PGSSLNEGOTIATION',
    otherwise: 'postgres',
  },
  /** The file with the client's certificate. */
  sslcert: { form: 'text', variable: 'PGSSLCERT' },
  /** The file with the client's key. */
  sslkey: { form: 'text', variable: 'PGSSLKEY' },
  /** The password of an encrypted key file. Rust reads no such files. */
  sslpassword: { form: 'text' },
  /** Whether the client's certificate is sent if the server asks for it. */
  sslcertmode: { form: ['disable', 'allow'], variable: 'PGSSLCERTMODE', otherwise: 'allow' },
  /** The file with the authorities that are trusted, or system. */
  sslrootcert: { form: 'text', variable: 'PGSSLROOTCERT' },
  /** The file with lists of revoked certificates. */
  sslcrl: { form: 'text', variable: 'PGSSLCRL' },
  /** Whether the host's name is sent in clear text (SNI). */
  sslsni: { form: ['0', '1'], variable: 'PGSSLSNI', otherwise: '1' },
  /** The oldest TLS to speak. */
  ssl_min_protocol_version: {
    form: 'text',
    variable: 'PGSSLMINPROTOCOLVERSION',
    otherwise: 'TLSv1.2',
  },
  /** The newest TLS to speak. */
  ssl_max_protocol_version: { form: 'text', variable: 'PGSSLMAXPROTOCOLVERSION' },
  /** GSSAPI encryption, which is not supported. */
  gssencmode: { form: ['disable', 'prefer'], variable: 'PGGSSENCMODE', otherwise: 'prefer' },
  /** Whether the login is bound to the TLS connection. */
  channel_binding: {
    form: ['disable', 'prefer'],
    variable: 'PGCHANNELBINDING',
    otherwise: 'prefer',
  },
  /** Whether a password may be sent where others could read it. */
  allow_plain_password: { form: 'switch', otherwise: '0' },
  /** SCRAM iterations that a server may demand. */
  scram_iterations_max: { form: 1, otherwise: '100000' },
  /** Requests sent and not yet answered, per connection. */
  in_flight_max: { form: 1, otherwise: '1024' },
  /** Bytes of requests sent and not yet answered, per connection. */
  in_flight_bytes_max: { form: 1, otherwise: '1048576' },
  /** Requests that wait to be sent, per connection. */
  queue_max: { form: 1, otherwise: '16384' },
  /** Bytes of requests that wait to be sent, per connection. */
  queue_bytes_max: { form: 1, otherwise: '16777216' },
  /** Bytes of one result that are kept in memory; 0: any number. */
  result_bytes_max: { form: 0, otherwise: '268435456' },
  /** The use of a text at which it is prepared; 0: never. */
  prepare_threshold: { form: 0, otherwise: '5' },
  /** Statements that a connection keeps prepared. */
  prepared_max: { form: 0, otherwise: '256' },
  /** Connections that a client opens at most. */
  connections_max: { form: 1, otherwise: '10' },
  /** Connections that a client keeps open. */
  connections_min: { form: 0, otherwise: '0' },
  /** Milliseconds that a caller waits for a connection. */
  wait_timeout_ms: { form: 1, otherwise: '30000' },
  /** Callers that may wait for a connection. */
  waiting_max: { form: 0, otherwise: '16384' },
  /** Milliseconds after which an idle connection is closed. */
  idle_timeout_ms: { form: 1, otherwise: '600000' },
  /** Milliseconds after which a connection is replaced. */
  lifetime_ms: { form: 1, otherwise: '1800000' },
  /** Milliseconds after which a connection's oldest statement is slow. */
  slow_head_ms: { form: 1, otherwise: '10' },
  /** Milliseconds that a statement may hold up others behind it on its shared connection. */
  yield_after_ms: { form: 0, otherwise: '500' },
  /** Which of several idle connections is taken first. */
  idle_order: { form: ['lifo', 'fifo', 'newest', 'oldest'], otherwise: 'lifo' },
  /** Milliseconds that a request may take. */
  request_timeout_ms: { form: 0, otherwise: '0' },
  /** Milliseconds that bytes may lie unsent while nothing moves. */
  stall_timeout_ms: { form: 1, otherwise: '30000' },
  /** Whether a statement that is late is cancelled at the server. */
  cancel_on_timeout: { form: 'switch', otherwise: '1' },
  /** Where reads go that may go to a replica. */
  reads: { form: ['primary', 'prefer_replica', 'replica'], otherwise: 'primary' },
  /** Milliseconds that a replica may be behind; 0: any number. */
  max_lag_ms: { form: 0, otherwise: '0' },
} as const satisfies { readonly [name: string]: Keyword }

/** Off and on, by turns. */
export const SWITCH: readonly string[] = ['false', 'true', '0', '1', 'off', 'on']

/** Of libpq, and not here: what they need. */
export const UNSUPPORTED: { readonly [name: string]: string } = {
  sslcrldir: 'a directory of revocation lists',
  sslcompression: 'compression by TLS',
  sslkeylogfile: 'a log of TLS keys',
  requiressl: 'what sslmode=require says today',
  krbsrvname: 'GSSAPI',
  gsslib: 'GSSAPI',
  gssdelegation: 'GSSAPI',
  requirepeer: "checking the server's user on a Unix socket",
  replication: 'the replication protocol',
  scram_client_key: 'SCRAM by key',
  scram_server_key: 'SCRAM by key',
  oauth_issuer: 'OAuth',
  oauth_client_id: 'OAuth',
  oauth_client_secret: 'OAuth',
  oauth_scope: 'OAuth',
}

/** Variables that ask for what is not here: what asks for nothing, and what they need. */
export const LACKING: readonly (readonly [string, string, string])[] = [
  ['PGSSLCRLDIR', '', 'a directory of revocation lists'],
  ['PGREQUIREPEER', '', "checking the server's user on a Unix socket"],
  ['PGMINPROTOCOLVERSION', '3.0', 'min_protocol_version'],
  ['PGREQUIREAUTH', '', 'require_auth'],
]

/** What is said of a text that is refused, behind the name of its keyword. */
export const SAYS = {
  oneOf: 'takes one of ',
  whole: 'takes a whole number',
  atLeast: 'must be at least ',
  atMost: 'must be at most ',
  unknown: 'there is no keyword ',
  needs: ' needs ',
  lacking: ", which isn't in this version: remove it",
  tooLong: 'the line is too long: libpq reads 1,022 bytes of one',
  noSetting: 'the line is no keyword=value',
  nested: "a service can't name another service: write its settings here",
  ldap: "the line asks an LDAP directory, which isn't in this version: write the settings here",
  notFound: 'the service has no section in ',
  noFile: "this service file can't be read: ",
}

/** Which settings contradict each other, of those that are in force. */
export const RULES: readonly Rule[] = [
  {
    when: [["sslnegotiation", ["direct"]], ["sslmode", ["disable", "allow", "prefer"]]],
    says: "sslnegotiation=direct can't go on without TLS: set sslmode to require, verify-ca or verify-full",
  },
  {
    when: [["sslrootcert", ["system"]], ["sslmode", ["disable", "allow", "prefer", "require", "verify-ca"]]],
    says: "sslrootcert=system trusts whoever has a certificate of a public authority: set sslmode=verify-full, or leave sslmode out",
  },
  {
    when: [["tls", true], ["sslmode", ["disable"]]],
    says: "sslmode=disable contradicts the options of TLS: leave out one of them",
  },
  {
    when: [["sslcert", true], ["sslkey", false], ["sslcertmode", ["allow"]]],
    says: "sslcert is nothing without its key: name the file of the key in sslkey",
  },
  {
    when: [["sslkey", true], ["sslcert", false], ["sslcertmode", ["allow"]]],
    says: "sslkey is nothing without its certificate: name the file of the certificate in sslcert",
  },
]

/** The same of what was said in the program. */
export const TLS_OPTIONS: readonly Rule[] = [
  {
    when: [["tls.ca", true], ["sslrootcert", true]],
    says: "sslrootcert and the options of TLS both name authorities: leave out one of them",
  },
  {
    when: [["tls.cert", true], ["sslcert", true]],
    says: "sslcert and the options of TLS both have a certificate: leave out one of them",
  },
  {
    when: [["tls.key", true], ["sslkey", true]],
    says: "sslkey and the options of TLS both have a key: leave out one of them",
  },
  {
    when: [["tls.passphrase", true], ["sslpassword", true]],
    says: "sslpassword and the options of TLS both have a password: leave out one of them",
  },
  {
    when: [["tls.cert", true], ["sslcertmode", ["disable"]]],
    says: "sslcertmode=disable contradicts the options of TLS, which have a certificate: leave out one of them",
  },
  {
    when: [["tls.crl", true], ["sslcrl", true]],
    says: "sslcrl and the options of TLS both have revoked certificates: leave out one of them",
  },
  {
    when: [["tls.min", true], ["ssl_min_protocol_version", true]],
    says: "ssl_min_protocol_version and the options of TLS both have an oldest version: leave out one of them",
  },
  {
    when: [["tls.max", true], ["ssl_max_protocol_version", true]],
    says: "ssl_max_protocol_version and the options of TLS both have a newest version: leave out one of them",
  },
  {
    when: [["tls.verifies", ["0"]], ["sslmode", ["verify-ca", "verify-full"]]],
    says: "this sslmode verifies the server, and the options of TLS turn that off: leave out one of them",
  },
  {
    when: [["tls.verifies", ["0"]], ["sslrootcert", true]],
    says: "sslrootcert is for verifying the server, and the options of TLS turn that off: leave out one of them",
  },
  {
    when: [["tls.checks_name", ["0"]], ["sslmode", ["verify-full"]]],
    says: "sslmode=verify-full checks the name of the server, and the options of TLS turn that off: leave out one of them",
  },
]
