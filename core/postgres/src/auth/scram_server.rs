//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS, the server's side, for model servers in tests, and for who
//! checks clients on a server's behalf.
//!
//! It is not hardened against probing: whether a user has a password here may be seen.

use std::fmt;
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use sha2::{Digest, Sha256};

use super::Password;
use super::hmac::hmac;
use super::scram::{ChannelBinding, Keys, NOT_UTF8, ScramError, attribute, decode, xor};

/// What a server keeps of a password to check who claims to know it.
pub struct Verifier {
    salt: Vec<u8>,
    iterations: u32,
    keys: Keys,
}

impl Verifier {
    /// Computes for as long as the number of iterations demands.
    #[must_use]
    pub fn new(password: &Password, salt: &[u8], iterations: u32) -> Verifier {
        let keys = Keys::derive(password, salt, iterations);
        Verifier { salt: salt.to_vec(), iterations, keys }
    }
}

impl fmt::Debug for Verifier {
    /// Leaves out what stands for the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// One exchange, seen from the server.
#[derive(Debug)]
pub struct ScramServer {
    verifier: Arc<Verifier>,
    /// The server's part of the nonce, in base64.
    nonce: String,
    binding: ChannelBinding,
    /// Both nonces, and the start of the auth message, once the client has spoken.
    begun: Option<(String, String)>,
}

impl ScramServer {
    /// `binding` is what this server expects; the client must use the same.
    pub fn new(
        password: Password,
        salt: &[u8],
        iterations: u32,
        nonce: &[u8],
        binding: ChannelBinding,
    ) -> Self {
        let verifier = Verifier::new(&password, salt, iterations);
        ScramServer::with(Arc::new(verifier), nonce, binding)
    }

    /// With what is kept of a password. `nonce` is fresh randomness.
    #[must_use]
    pub fn with(verifier: Arc<Verifier>, nonce: &[u8], binding: ChannelBinding) -> Self {
        ScramServer { verifier, nonce: Base64::encode_string(nonce), binding, begun: None }
    }

    /// Takes client-first-message and makes server-first-message.
    ///
    /// # Errors
    /// The message is malformed or announces another channel binding.
    pub fn handle_client_first(&mut self, message: &[u8]) -> Result<String, ScramError> {
        let message = std::str::from_utf8(message).map_err(|_| NOT_UTF8)?;
        let bare = message
            .strip_prefix(self.binding.gs2_header())
            .ok_or(ScramError::Malformed("another channel binding was expected"))?;
        let mut attributes = bare.split(',');
        attribute(&mut attributes, "n=")?;
        let nonce = format!("{}{}", attribute(&mut attributes, "r=")?, self.nonce);
        let salt = Base64::encode_string(&self.verifier.salt);
        let reply = format!("r={nonce},s={salt},i={}", self.verifier.iterations);
        self.begun = Some((nonce, format!("{bare},{reply}")));
        Ok(reply)
    }

    /// Takes client-final-message, checks the proof and makes server-final-message.
    ///
    /// # Errors
    /// The message is malformed or belongs to another exchange, or the proof is wrong.
    pub fn handle_client_final(&mut self, message: &[u8]) -> Result<String, ScramError> {
        let (nonce, begun) = self.begun.take().ok_or(ScramError::Malformed("it came too early"))?;
        let message = std::str::from_utf8(message).map_err(|_| NOT_UTF8)?;
        let (without_proof, proof) =
            message.rsplit_once(",p=").ok_or(ScramError::Malformed("it has no proof"))?;
        if without_proof != format!("c={},r={nonce}", self.binding.attribute()) {
            return Err(ScramError::Nonce);
        }
        let proof = decode(proof)?.try_into().map_err(|_| ScramError::Proof)?;
        let auth_message = format!("{begun},{without_proof}");
        let keys = &self.verifier.keys;
        let signature = hmac(&keys.stored, auth_message.as_bytes());
        if Sha256::digest(xor(proof, signature))[..] != keys.stored {
            return Err(ScramError::Proof);
        }
        let verifier = hmac(&keys.server, auth_message.as_bytes());
        Ok(format!("v={}", Base64::encode_string(&verifier)))
    }
}
