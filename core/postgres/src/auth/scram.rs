//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS, the client's side (RFC 5802, RFC 7677, RFC 5929).
//!
//! [`ScramClient`] makes the first message. With the server's answer it becomes a [`ScramProof`],
//! which holds the second message and checks the server's last one. Both sides prove that they know
//! the password, and neither reveals it.

use std::fmt;

use base64ct::{Base64, Encoding};
use sha2::{Digest, Sha256};

use super::Password;
use super::hmac::{hi, hmac};

/// The mechanism without channel binding.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
/// The mechanism with channel binding.
pub const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// The most PBKDF2 iterations that a server may demand: 100,000, which took 15 ms on a CPU with SHA
/// instructions.
///
/// A server demands 4,096 by default (SCRAM_SHA_256_DEFAULT_ITERATIONS in
/// src/include/common/scram-common.h) and may be set to up to 2^31 (scram_iterations). A hostile
/// server that demands that many would block the host's loop for minutes, as CVE-2026-42198 of
/// pgjdbc describes.
pub const ITERATIONS_MAX: u32 = 100_000;

/// How the exchange is bound to the TLS connection that it runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// No TLS, or a host that can't tell: flag `n`.
    Unsupported,
    /// TLS, but the server did not offer the -PLUS mechanism: flag `y`. If the server did offer it
    /// and a man in the middle removed the offer, the server refuses.
    NotOffered,
    /// SCRAM-SHA-256-PLUS: the hash of the server's certificate (`tls-server-end-point`, RFC 5929
    /// section 4).
    TlsServerEndPoint(Vec<u8>),
}

impl ChannelBinding {
    /// The mechanism that uses this binding.
    pub fn mechanism(&self) -> &'static str {
        match self {
            ChannelBinding::TlsServerEndPoint(_) => SCRAM_SHA_256_PLUS,
            ChannelBinding::Unsupported | ChannelBinding::NotOffered => SCRAM_SHA_256,
        }
    }

    pub(super) fn gs2_header(&self) -> &'static str {
        match self {
            ChannelBinding::Unsupported => "n,,",
            ChannelBinding::NotOffered => "y,,",
            ChannelBinding::TlsServerEndPoint(_) => "p=tls-server-end-point,,",
        }
    }

    /// The attribute `c`: the header and the binding data in base64.
    pub(super) fn attribute(&self) -> String {
        let mut input = self.gs2_header().as_bytes().to_vec();
        if let ChannelBinding::TlsServerEndPoint(data) = self {
            input.extend_from_slice(data);
        }
        Base64::encode_string(&input)
    }
}

/// Why an exchange failed. Except for the iteration count, no variant holds anything that either
/// side sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScramError {
    /// A message does not conform to RFC 5802.
    Malformed(&'static str),
    /// The server's nonce does not begin with the client's, or adds nothing to it.
    Nonce,
    /// The server demands more iterations than the caller allows.
    Iterations {
        /// What the server demands.
        demanded: u32,
        /// What the caller allows.
        max: u32,
    },
    /// The server's last message reports an error.
    Refused,
    /// The server's signature is wrong, so it does not know the password.
    Signature,
    /// The client's proof is wrong, so it does not know the password. Only the server's side
    /// reports this.
    Proof,
}

impl fmt::Display for ScramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScramError::Malformed(what) => write!(f, "malformed SCRAM message: {what}"),
            ScramError::Nonce => {
                f.write_str("the server's SCRAM nonce does not extend the client's")
            }
            ScramError::Iterations { demanded, max } => write!(
                f,
                "the server demands {demanded} SCRAM iterations, more than the allowed {max} \
                 (option scram_iterations_max)"
            ),
            ScramError::Refused => f.write_str("the server refused the SCRAM exchange"),
            ScramError::Signature => f.write_str(
                "the server could not prove that it knows the password (SCRAM signature)",
            ),
            ScramError::Proof => {
                f.write_str("the client could not prove that it knows the password (SCRAM proof)")
            }
        }
    }
}

impl std::error::Error for ScramError {}

/// The client before it has received anything from the server.
#[derive(Debug)]
pub struct ScramClient {
    password: Password,
    binding: ChannelBinding,
    /// The nonce as it is sent, in base64.
    nonce: String,
    first_bare: String,
}

impl ScramClient {
    /// `nonce` is fresh randomness, 18 bytes as in libpq (SCRAM_RAW_NONCE_LEN); it is sent in
    /// base64. `user` is empty for PostgreSQL, which takes the name from the startup packet
    /// (read_client_first_message in auth-scram.c).
    pub fn new(user: &str, password: Password, nonce: &[u8], binding: ChannelBinding) -> Self {
        let nonce = Base64::encode_string(nonce);
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={user},r={nonce}");
        ScramClient { password, binding, nonce, first_bare }
    }

    /// The mechanism to name in SASLInitialResponse.
    pub fn mechanism(&self) -> &'static str {
        self.binding.mechanism()
    }

    /// client-first-message, the data of SASLInitialResponse.
    pub fn message(&self) -> String {
        format!("{}{}", self.binding.gs2_header(), self.first_bare)
    }

    /// Takes server-first-message, the data of AuthenticationSASLContinue. Its computing time grows
    /// with the server's iteration count, up to `iterations_max`.
    ///
    /// # Errors
    /// The message is malformed or has an extension that must be understood; the nonce does not
    /// extend the client's; or there are too many iterations.
    pub fn handle_server_first(
        self,
        message: &[u8],
        iterations_max: u32,
    ) -> Result<ScramProof, ScramError> {
        let message = std::str::from_utf8(message).map_err(|_| NOT_UTF8)?;
        let ServerFirst { nonce, salt, iterations } = ServerFirst::parse(message)?;
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err(ScramError::Nonce);
        }
        if iterations > iterations_max {
            return Err(ScramError::Iterations { demanded: iterations, max: iterations_max });
        }
        let keys = Keys::derive(&self.password, &salt, iterations);
        let without_proof = format!("c={},r={nonce}", self.binding.attribute());
        let auth_message = format!("{},{message},{without_proof}", self.first_bare);
        let proof = Base64::encode_string(&keys.proof(auth_message.as_bytes()));
        Ok(ScramProof {
            message: format!("{without_proof},p={proof}"),
            signature: hmac(&keys.server, auth_message.as_bytes()),
        })
    }
}

/// The client after it has computed its proof.
pub struct ScramProof {
    message: String,
    /// The keyed hash that the server's signature must match.
    signature: [u8; 32],
}

impl ScramProof {
    /// client-final-message, the data of SASLResponse.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Takes server-final-message, the data of AuthenticationSASLFinal, and compares the signature
    /// in constant time.
    ///
    /// # Errors
    /// The message is malformed or reports an error, or the signature is wrong.
    pub fn handle_server_final(self, message: &[u8]) -> Result<(), ScramError> {
        let message = std::str::from_utf8(message).map_err(|_| NOT_UTF8)?;
        if message.starts_with("e=") {
            return Err(ScramError::Refused);
        }
        let mut attributes = message.split(',');
        let signature = decode(attribute(&mut attributes, "v=")?)?;
        let is_long = signature.len() == self.signature.len();
        let differing = signature.iter().zip(self.signature).fold(0, |all, (a, b)| all | (a ^ b));
        if is_long && differing == 0 { Ok(()) } else { Err(ScramError::Signature) }
    }
}

impl fmt::Debug for ScramProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramProof").finish_non_exhaustive()
    }
}

struct ServerFirst<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> ServerFirst<'a> {
    /// `r=…,s=…,i=…`. A leading `m=` must fail the exchange (RFC 5802 section 5.1); here it fails
    /// as a missing nonce. Extensions at the end may be ignored.
    fn parse(message: &'a str) -> Result<Self, ScramError> {
        let mut attributes = message.split(',');
        let nonce = attribute(&mut attributes, "r=")?;
        let salt = decode(attribute(&mut attributes, "s=")?)?;
        let iterations = parse_iterations(attribute(&mut attributes, "i=")?)?;
        if salt.is_empty() {
            return Err(ScramError::Malformed("the salt is empty"));
        }
        Ok(ServerFirst { nonce, salt, iterations })
    }
}

/// Digits only, and not zero. A number too large for the type becomes the largest value, so that it
/// is reported as above the limit.
fn parse_iterations(text: &str) -> Result<u32, ScramError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ScramError::Malformed("the iteration count is no number"));
    }
    match text.parse().unwrap_or(u32::MAX) {
        0 => Err(ScramError::Malformed("the iteration count is zero")),
        count => Ok(count),
    }
}

/// The keys of RFC 5802 section 3.
pub(super) struct Keys {
    client: [u8; 32],
    pub(super) stored: [u8; 32],
    pub(super) server: [u8; 32],
}

impl Keys {
    pub(super) fn derive(password: &Password, salt: &[u8], iterations: u32) -> Keys {
        let salted = hi(normalize(password.expose()).as_bytes(), salt, iterations);
        let client = hmac(&salted, b"Client Key");
        let server = hmac(&salted, b"Server Key");
        Keys { client, stored: Sha256::digest(client).into(), server }
    }

    fn proof(&self, auth_message: &[u8]) -> [u8; 32] {
        let signature = hmac(&self.stored, auth_message);
        xor(self.client, signature)
    }
}

/// SASLprep. A password that it does not allow is used as it is, like in libpq and the server
/// (pg_saslprep and its callers in fe-auth-scram.c, auth-scram.c).
#[cfg(feature = "saslprep")]
fn normalize(password: &str) -> std::borrow::Cow<'_, str> {
    match stringprep::saslprep(password) {
        Ok(prepared) if !prepared.is_empty() => prepared,
        _ => password.into(),
    }
}

/// Without the feature, the host has prepared the password.
#[cfg(not(feature = "saslprep"))]
fn normalize(password: &str) -> &str {
    password
}

pub(super) fn xor(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
    std::array::from_fn(|index| a[index] ^ b[index])
}

pub(super) fn attribute<'a>(
    attributes: &mut impl Iterator<Item = &'a str>,
    name: &'static str,
) -> Result<&'a str, ScramError> {
    attributes
        .next()
        .and_then(|attribute| attribute.strip_prefix(name))
        .ok_or(ScramError::Malformed("an attribute is missing or out of order"))
}

pub(super) fn decode(text: &str) -> Result<Vec<u8>, ScramError> {
    Base64::decode_vec(text).map_err(|_| ScramError::Malformed("a value is not base64"))
}

pub(super) const NOT_UTF8: ScramError = ScramError::Malformed("it is not UTF-8");
