// Which settings of Redis contradict each other. Do not edit: written by `scripts/keywords`.

import type { Rule } from '../engine/rules'

/** Of what is in force. */
export const RULES: readonly Rule[] = [
  {
    when: [["path", true], ["host", true]],
    says: "a host and the path of a socket are two servers: leave out one of them",
  },
  {
    when: [["cache", true], ["cluster", true]],
    says: "cache is not for clusters: leave it out, or connect to a single server",
  },
  {
    when: [["cache", true], ["protocol", ["2"]]],
    says: "cache needs RESP3, by which the server says what changed: leave out protocol=2 or cache",
  },
  {
    when: [["db", true], ["cluster", true]],
    says: "a cluster has the database 0 alone: leave the number of the database out",
  },
  {
    when: [["replica_reads", true], ["cluster", false]],
    says: "replica_reads is for clusters: add cluster=1, or with Sentinels reads=replica",
  },
  {
    when: [["sentinel_username", true], ["master", false]],
    says: "settings of Sentinels go with redis+sentinel://, or in Rust and Node with sentinel",
  },
  {
    when: [["sentinel_password", true], ["master", false]],
    says: "settings of Sentinels go with redis+sentinel://, or in Rust and Node with sentinel",
  },
  {
    when: [["reads", true], ["master", false]],
    says: "settings of Sentinels go with redis+sentinel://, or in Rust and Node with sentinel",
  },
  {
    when: [["master", true], ["cluster", true]],
    says: "Sentinels know no clusters: leave cluster out, or name nodes of the cluster in a redis:// URL",
  },
  {
    when: [["master", true], ["path", true]],
    says: "Sentinels are reached by TCP, by a name or an address",
  },
  {
    when: [["path", true], ["sslmode", ["require", "verify-ca", "verify-full"]]],
    says: "a Unix socket has no TLS: leave sslmode and its like out",
  },
  {
    when: [["rediss", true], ["sslmode", ["disable"]]],
    says: "rediss:// asks for TLS, and sslmode=disable for none: leave sslmode out, or begin the URL with redis://",
  },
  {
    when: [["sslmode", ["disable"]], ["sslrootcert", true]],
    says: "sslrootcert, sslcert and sslkey are for TLS, and this connection has none: begin the URL with rediss://, or leave them out",
  },
  {
    when: [["sslmode", ["disable"]], ["sslcert", true]],
    says: "sslrootcert, sslcert and sslkey are for TLS, and this connection has none: begin the URL with rediss://, or leave them out",
  },
  {
    when: [["sslmode", ["disable"]], ["sslkey", true]],
    says: "sslrootcert, sslcert and sslkey are for TLS, and this connection has none: begin the URL with rediss://, or leave them out",
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

/** Of what was said beside options of TLS. */
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
