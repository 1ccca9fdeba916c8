"""TLS by the standard library: a context as libpq's settings want it, and what binds SCRAM to the
channel.
"""

from __future__ import annotations

import ssl

from ._config import Config

#: Signatures by their names in DER (RFC 4055, RFC 5758), with the hash that binds: SHA-256 for MD5
#: and SHA-1 (RFC 5929).
_SIGNATURES = {
    bytes.fromhex("2a864886f70d010104"): "sha256",
    bytes.fromhex("2a864886f70d010105"): "sha256",
    bytes.fromhex("2a8648ce3d0401"): "sha256",
    bytes.fromhex("2a864886f70d01010e"): "sha224",
    bytes.fromhex("2a864886f70d01010b"): "sha256",
    bytes.fromhex("2a864886f70d01010c"): "sha384",
    bytes.fromhex("2a864886f70d01010d"): "sha512",
    bytes.fromhex("2a8648ce3d040301"): "sha224",
    bytes.fromhex("2a8648ce3d040302"): "sha256",
    bytes.fromhex("2a8648ce3d040303"): "sha384",
    bytes.fromhex("2a8648ce3d040304"): "sha512",
}


def context_of(config: Config) -> ssl.SSLContext:
    """As in libpq: who names an authority wants it looked at, and without one ``require`` verifies
    nothing.
    """
    if config.context is not None:
        return config.context
    mode, root = config.sslmode, config.text("sslrootcert")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    verifies = mode.startswith("verify") or (mode == "require" and root is not None)
    context.check_hostname = mode == "verify-full"
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    if verifies and root is not None and root != "system":
        context.load_verify_locations(root)
    elif verifies:
        context.load_default_certs()
    revoked = config.text("sslcrl")
    if verifies and revoked is not None:
        context.load_verify_locations(revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    oldest, newest = config.versions()
    context.minimum_version = _VERSIONS[oldest]
    if newest is not None:
        context.maximum_version = _VERSIONS[newest]
    certificate = config.text("sslcert")
    if certificate is not None and config.said("sslcertmode") != "disable":
        _load(context, certificate, config)
    if config.said("sslnegotiation") == "direct":
        context.set_alpn_protocols(["postgresql"])
    return context


_VERSIONS = {2: ssl.TLSVersion.TLSv1_2, 3: ssl.TLSVersion.TLSv1_3}


def _load(context: ssl.SSLContext, certificate: str, config: Config) -> None:
    """The client's certificate and its key. OpenSSL never asks the terminal for a password."""
    key, password = config.text("sslkey"), config.text("sslpassword")
    try:
        context.load_cert_chain(certificate, key, password or "")
    except (OSError, ValueError) as error:
        said = "that can be read" if isinstance(error, FileNotFoundError) else "that fit"
        raise ValueError(
            f"sslcert and sslkey have to be files {said}, and an encrypted key needs sslpassword: "
            f"{certificate}, {key}: {error}"
        ) from None


def binding_of(certificate: bytes | None) -> bytes | None:
    """``tls-server-end-point``: a hash of the server's certificate.

    None where nothing can be bound to it.
    """
    if certificate is None:
        return None
    try:
        whole, _ = _enter(certificate)
        _, behind = _enter(whole)
        algorithm, _ = _enter(behind)
        name, _ = _enter(algorithm)
        import hashlib  # Late: not all that is imported here is needed by all programs.

        return hashlib.new(_SIGNATURES[name], certificate).digest()
    except (IndexError, KeyError):
        return None


def _enter(der: bytes) -> tuple[bytes, bytes]:
    """What is in the first value, and what is behind it (X.690, section 8.1)."""
    length, start = der[1], 2
    if length > 0x7F:
        size = length & 0x7F
        length, start = int.from_bytes(der[2 : 2 + size], "big"), 2 + size
    return der[start : start + length], der[start + length :]
