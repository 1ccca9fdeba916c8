//! What is read from a server's certificate itself: its public key, and the hash that a login is
//! bound to. rustls decides about trust.

use der::asn1::{AnyRef, BitStringRef, ObjectIdentifier};
use der::{Decode, Reader, SliceReader, Tag, TagNumber, Tagged};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

/// The channel binding data `tls-server-end-point` (RFC 5929 section 4.1): the hash of the
/// certificate, by the hash of its signature, but SHA-256 in place of MD5 or SHA-1. `None` if the
/// signature has no hash of its own (Ed25519), or one that is not known here: for these the RFC
/// defines nothing.
pub(super) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let hash = signature_hash(certificate).ok()??;
    Some(match hash {
        Hash::Sha224 => Sha224::digest(certificate).to_vec(),
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

/// A public key: its encoded algorithm, without tag and length, and the key.
pub(super) struct PublicKey<'a> {
    pub(super) algorithm: &'a [u8],
    pub(super) key: &'a [u8],
    /// The whole SubjectPublicKeyInfo, encoded.
    pub(super) info: &'a [u8],
}

/// The public key of a certificate (RFC 5280 section 4.1). Only the fields before it are read, so
/// certificates of any version and with any extension are accepted.
pub(super) fn public_key(certificate: &[u8]) -> der::Result<PublicKey<'_>> {
    let mut to_sign = SliceReader::new(fields(certificate)?.0.value())?;
    if to_sign.peek_byte() == Some(VERSION_TAG) {
        AnyRef::decode(&mut to_sign)?;
    }
    for _serial_signature_issuer_validity_subject in 0..5 {
        AnyRef::decode(&mut to_sign)?;
    }
    let info = to_sign.tlv_bytes()?;
    let mut parts = SliceReader::new(AnyRef::from_der(info)?.value())?;
    let algorithm = AnyRef::decode(&mut parts)?.value();
    let key = BitStringRef::decode(&mut parts)?.raw_bytes();
    Ok(PublicKey { algorithm, key, info })
}

/// `[0]`, constructed: the version, which certificates of version 1 leave out.
const VERSION_TAG: u8 = 0xa0;

/// The signed part, and the algorithm of the signature.
fn fields(certificate: &[u8]) -> der::Result<(AnyRef<'_>, AnyRef<'_>)> {
    let mut fields = SliceReader::new(AnyRef::from_der(certificate)?.value())?;
    Ok((AnyRef::decode(&mut fields)?, AnyRef::decode(&mut fields)?))
}

enum Hash {
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

fn signature_hash(certificate: &[u8]) -> der::Result<Option<Hash>> {
    let (algorithm, parameters) = algorithm(fields(certificate)?.1)?;
    Ok(match (hash_of(algorithm), parameters) {
        (None, Some(parameters)) if algorithm == RSASSA_PSS => pss_hash(parameters)?,
        (hash, _) => hash,
    })
}

/// AlgorithmIdentifier: a name, and mostly parameters.
fn algorithm(encoded: AnyRef<'_>) -> der::Result<(ObjectIdentifier, Option<AnyRef<'_>>)> {
    let mut parts = SliceReader::new(encoded.value())?;
    Ok((ObjectIdentifier::decode(&mut parts)?, Option::<AnyRef<'_>>::decode(&mut parts)?))
}

/// RSASSA-PSS names its hash in its parameters (RFC 4055 section 3.1); the default is SHA-1.
fn pss_hash(parameters: AnyRef<'_>) -> der::Result<Option<Hash>> {
    let mut parts = SliceReader::new(parameters.value())?;
    let first = Option::<AnyRef<'_>>::decode(&mut parts)?;
    match first.filter(|first| first.tag() == PSS_HASH_TAG) {
        Some(hash) => Ok(hash_of(algorithm(AnyRef::from_der(hash.value())?)?.0)),
        None => Ok(Some(Hash::Sha256)),
    }
}

const PSS_HASH_TAG: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };

const RSASSA_PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");

/// The hash for an algorithm of signatures or of hashes, by the names of RFC 3279, 4055 and 5758.
fn hash_of(algorithm: ObjectIdentifier) -> Option<Hash> {
    Some(match algorithm.to_string().as_str() {
        // MD5 and SHA-1: with RSA, with ECDSA, and alone.
        "1.2.840.113549.1.1.4"
        | "1.2.840.113549.1.1.5"
        | "1.2.840.10045.4.1"
        | "1.2.840.113549.2.5"
        | "1.3.14.3.2.26" => Hash::Sha256,
        "1.2.840.113549.1.1.14" | "1.2.840.10045.4.3.1" | "2.16.840.1.101.3.4.2.4" => Hash::Sha224,
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" | "2.16.840.1.101.3.4.2.1" => Hash::Sha256,
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" | "2.16.840.1.101.3.4.2.2" => Hash::Sha384,
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" | "2.16.840.1.101.3.4.2.3" => Hash::Sha512,
        _ => return None,
    })
}
