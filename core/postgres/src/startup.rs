//! From an open connection to the first ReadyForQuery: startup packet, authentication, session
//! parameters.
//!
//! Not part of it: SSLRequest and the TLS handshake, which the host does before, and everything
//! after.
//!
//! The rules:
//! - Until AuthenticationOk the peer is not trusted: it may send 64 KiB in all, and only four kinds
//!   of message.
//! - A SCRAM exchange that has begun must be verified before AuthenticationOk counts.
//! - A password is sent in clear text or as MD5 only on a secure channel, or if the caller allowed
//!   it.
//! - A method of authentication that the caller did not allow is refused before anything is sent. A
//!   server that does not ask for authentication is refused if the caller requires it.
//! - A session that does not use UTF-8 does not begin.

mod config;
mod error;

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use crate::auth::{ChannelBinding, Password, ScramClient, ScramProof, md5, scram};
use crate::message::tag::backend as tag;
use crate::message::{
    Authentication, BackendMessage, Frame, Header, Mechanisms, NegotiateProtocolVersion,
    PasswordMessage, SaslInitialResponse, SaslResponse, Secret, ServerError, TransactionStatus,
    Violation, frame, max_len, startup_message,
};

pub(crate) use config::is_utf8;
pub use config::{AuthMethods, ProtocolVersion, StartupConfig};
pub use error::{PlainMethod, StartupError};

/// All bytes that a server may send before AuthenticationOk. Real servers send a few hundred.
/// libpq's limit is 2,000 for authentication and 30,000 for an error (PQconnectPoll in
/// fe-connect.c). This limit leaves room for several notices.
pub const PRE_AUTH_LEN_MAX: usize = 64 << 10;

/// All bytes that a server may send up to ReadyForQuery. PostgreSQL 18 sends less than 1 KiB.
pub const RECEIVED_LEN_MAX: usize = 1 << 20;

/// How many settings, by name, a server may report during the login, and again how many after it.
/// PostgreSQL 18 reports 15 (GUC_REPORT in guc_tables.c). A message that reports one has at most
/// 30,000 bytes.
pub const PARAMETERS_MAX: usize = 256;

/// How many notices are kept; further ones are dropped.
pub const NOTICES_MAX: usize = 16;

/// Bytes of randomness that a startup needs: SCRAM_RAW_NONCE_LEN in
/// src/include/common/scram-common.h.
pub const NONCE_LEN: usize = 18;

/// A startup in progress, without I/O.
///
/// - Input: [`Startup::handle_bytes`], [`Startup::handle_closed`].
/// - Output: [`Startup::transmit`], to be drained after `new` and after each input.
///
/// It ends with the first [`Ready`] or error, and stays ended.
pub struct Startup {
    config: StartupConfig,
    nonce: [u8; NONCE_LEN],
    phase: Phase,
    /// Bytes to be sent.
    out: BytesMut,
    /// Bytes of all messages received so far.
    received_len: usize,
    negotiated: bool,
    is_of_another: bool,
    /// The result so far. Its status is a placeholder until the end.
    ready: Ready,
}

/// The state of the exchange, which says what the server may send next.
enum Phase {
    /// Nothing about authentication has come yet.
    Begun,
    /// A password was sent, in clear text or as MD5.
    PasswordSent,
    /// The first SCRAM message was sent.
    ScramBegun(ScramClient),
    /// The proof was sent, and the server owes its own.
    ScramProved(ScramProof),
    /// The server has proved that it knows the password.
    ScramVerified,
    /// AuthenticationOk came.
    Authenticated,
    /// Ready or failed.
    Ended,
}

/// A session that is ready for requests.
#[derive(Clone, Debug)]
pub struct Ready {
    /// For CancelRequest; 0 if the server sent none.
    pub process_id: i32,
    /// For CancelRequest. Empty if the server sent none; nothing can be cancelled then.
    pub secret_key: SecretKey,
    /// The settings that the server reported, in the order of their first report, with their last
    /// value.
    pub parameters: Vec<(String, String)>,
    /// Notices received during startup, [`NOTICES_MAX`] at most.
    pub notices: Vec<ServerError>,
    /// The protocol version in use.
    pub protocol: ProtocolVersion,
    /// The transaction status, mostly idle.
    pub status: TransactionStatus,
}

/// The key of BackendKeyData. `Debug` prints `***`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretKey(Box<[u8]>);

impl Startup {
    /// Begins a startup. The startup packet can be transmitted at once. `nonce` is fresh randomness
    /// of good quality.
    ///
    /// # Errors
    /// The configuration contains a NUL, an empty name, or a `client_encoding` other than UTF8; or
    /// the startup packet exceeds 10,000 bytes.
    pub fn new(config: StartupConfig, nonce: [u8; NONCE_LEN]) -> Result<Self, StartupError> {
        let mut out = BytesMut::new();
        startup_message::write(&mut out, config.protocol.number(), config.wire_parameters()?)?;
        let ready = Ready {
            process_id: 0,
            secret_key: SecretKey::default(),
            parameters: Vec::new(),
            notices: Vec::new(),
            protocol: config.protocol,
            status: TransactionStatus::Idle,
        };
        let phase = Phase::Begun;
        Ok(Startup {
            config,
            nonce,
            phase,
            out,
            received_len: 0,
            negotiated: false,
            is_of_another: false,
            ready,
        })
    }

    /// The same on behalf of another client, whose packet this is. The session's encoding is that
    /// client's affair.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn with_packet(
        config: StartupConfig,
        packet: &[u8],
        nonce: [u8; NONCE_LEN],
    ) -> Result<Self, StartupError> {
        let mut startup = Startup::new(config, nonce)?;
        startup.out = BytesMut::from(packet);
        startup.is_of_another = true;
        Ok(startup)
    }

    /// Takes whole messages off the front of `input`; an incomplete one stays. Bytes behind
    /// ReadyForQuery stay, too, since they belong to the session.
    ///
    /// The call that brings the server's first SCRAM message computes for as long as its iteration
    /// count demands.
    ///
    /// # Errors
    /// See [`StartupError`]. The connection must then be closed.
    pub fn handle_bytes(&mut self, input: &mut BytesMut) -> Result<Option<Ready>, StartupError> {
        if matches!(self.phase, Phase::Ended) {
            return Err(StartupError::Ended);
        }
        let result = self.handle_messages(input);
        if !matches!(result, Ok(None)) {
            self.phase = Phase::Ended;
        }
        result
    }

    /// Sets the password, for a host that looks it up only when the server asks. To be called
    /// before the bytes by which the server asks are handed over.
    pub fn set_password(&mut self, password: Option<Password>) {
        self.config.password = password;
    }

    /// The server has closed the connection. Returns the error that this means.
    pub fn handle_closed(&mut self) -> StartupError {
        self.phase = Phase::Ended;
        StartupError::Closed
    }

    /// The bytes to send now, if any. They may contain a password.
    pub fn transmit(&mut self) -> Option<Bytes> {
        (!self.out.is_empty()).then(|| self.out.split().freeze())
    }

    fn handle_messages(&mut self, input: &mut BytesMut) -> Result<Option<Ready>, StartupError> {
        while let Some(frame) = self.next_frame(input)? {
            let len = frame.message_len();
            let ended = self.handle_message(frame)?;
            self.received_len += len;
            input.advance(len);
            if ended {
                return self.finish().map(Some);
            }
        }
        Ok(None)
    }

    fn next_frame<'b>(&self, input: &'b [u8]) -> Result<Option<Frame<'b>>, StartupError> {
        let authenticated = matches!(self.phase, Phase::Authenticated);
        let tags: &[u8] = if authenticated { &AUTHENTICATED_TAGS } else { &STRANGER_TAGS };
        let found = frame(input, |tag| max_len(tag).filter(|_| tags.contains(&tag)))
            .map_err(|violation| self.blame(violation))?;
        let max = if authenticated { RECEIVED_LEN_MAX } else { PRE_AUTH_LEN_MAX };
        match Header::peek(input)? {
            Some(header) if self.received_len + header.message_len() > max => {
                Err(StartupError::TooMuch { max })
            }
            _ => Ok(found),
        }
    }

    /// What bytes that are no message mean. At the very beginning, the peer does not speak the
    /// protocol.
    fn blame(&self, violation: Violation) -> StartupError {
        match violation {
            // A server that fails to start a process says so in the form of protocol 2: E, text,
            // NUL (report_fork_failure_to_client in postmaster.c; libpq handles it, too).
            Violation::TooLong { tag: tag::ERROR_RESPONSE } if self.received_len == 0 => {
                StartupError::RefusedEarly
            }
            _ if self.received_len == 0 => StartupError::NotPostgres,
            Violation::UnknownTag(tag) if max_len(tag).is_some() => {
                StartupError::Unexpected { tag }
            }
            other => StartupError::Violation(other),
        }
    }

    /// Handles one of the messages that `next_frame` lets pass; true at ReadyForQuery.
    fn handle_message(&mut self, frame: Frame<'_>) -> Result<bool, StartupError> {
        match BackendMessage::decode(frame)? {
            BackendMessage::Authentication(message) => self.handle_authentication(message)?,
            BackendMessage::NegotiateProtocolVersion(message) => {
                self.handle_negotiation(message)?
            }
            BackendMessage::ParameterStatus(status) => {
                self.set_parameter(status.name, status.value)?
            }
            BackendMessage::BackendKeyData(data) => {
                // In protocol 3.0 a key always has 4 bytes.
                if self.ready.protocol == ProtocolVersion::V3_0 && data.secret_key.0.len() != 4 {
                    return Err(StartupError::KeyLength);
                }
                self.ready.process_id = data.process_id;
                self.ready.secret_key = SecretKey(data.secret_key.0.into());
            }
            BackendMessage::NoticeResponse(notice) => {
                if self.ready.notices.len() < NOTICES_MAX {
                    self.ready.notices.push(notice.into());
                }
            }
            BackendMessage::ErrorResponse(error) => {
                let error = Box::new(error.into());
                return Err(match self.phase {
                    Phase::Authenticated => StartupError::Session(error),
                    _ => StartupError::Server(error),
                });
            }
            BackendMessage::ReadyForQuery(ready) => {
                self.ready.status = ready.status;
                return Ok(true);
            }
            _ => return Err(StartupError::Unexpected { tag: frame.tag }),
        }
        Ok(false)
    }

    /// The transitions of authentication. Any that is not listed is an error.
    fn handle_authentication(&mut self, message: Authentication<'_>) -> Result<(), StartupError> {
        use Authentication as A;
        self.phase = match (std::mem::replace(&mut self.phase, Phase::Ended), message) {
            (Phase::Begun, A::Ok) => {
                self.refuse_unless(self.config.methods.none, "none")?;
                self.refuse_without_binding()?;
                Phase::Authenticated
            }
            (Phase::PasswordSent | Phase::ScramVerified, A::Ok) => Phase::Authenticated,
            (Phase::ScramBegun(_) | Phase::ScramProved(_), A::Ok) => {
                return Err(StartupError::UnverifiedServer);
            }
            (Phase::Begun, A::CleartextPassword) => {
                self.refuse_unless(self.config.methods.password, "password")?;
                let password = self.plain_password(PlainMethod::Cleartext)?;
                self.send_password(password.expose())?
            }
            (Phase::Begun, A::Md5Password { salt }) => {
                self.refuse_unless(self.config.methods.md5, "md5")?;
                let password = self.plain_password(PlainMethod::Md5)?;
                self.send_password(&md5::response(&self.config.user, &password, salt))?
            }
            (Phase::Begun, A::Sasl(mechanisms)) => {
                self.refuse_unless(self.config.methods.scram, "scram-sha-256")?;
                self.begin_scram(mechanisms)?
            }
            (Phase::ScramBegun(client), A::SaslContinue(data)) => self.prove(client, data)?,
            (Phase::ScramProved(proof), A::SaslFinal(data)) => {
                proof.handle_server_final(data)?;
                Phase::ScramVerified
            }
            (_, A::Unsupported { code }) => {
                return Err(StartupError::UnsupportedAuthentication { code });
            }
            _ => return Err(StartupError::Unexpected { tag: tag::AUTHENTICATION }),
        };
        Ok(())
    }

    fn refuse_unless(&self, allowed: bool, method: &'static str) -> Result<(), StartupError> {
        if allowed { Ok(()) } else { Err(StartupError::MethodRefused { method }) }
    }

    fn refuse_without_binding(&self) -> Result<(), StartupError> {
        let required = self.config.channel_binding_required;
        if required { Err(StartupError::ChannelBindingMissing) } else { Ok(()) }
    }

    /// The password, if it may be sent in a form that an eavesdropper could use.
    fn plain_password(&self, method: PlainMethod) -> Result<Password, StartupError> {
        self.refuse_without_binding()?;
        if !self.config.secure_channel && !self.config.allow_cleartext {
            return Err(StartupError::PlainPasswordRefused { method });
        }
        self.password()
    }

    fn password(&self) -> Result<Password, StartupError> {
        self.config.password.clone().ok_or(StartupError::PasswordMissing)
    }

    fn send_password(&mut self, password: &str) -> Result<Phase, StartupError> {
        PasswordMessage { password: Secret(password.as_bytes()) }.encode(&mut self.out)?;
        Ok(Phase::PasswordSent)
    }

    fn begin_scram(&mut self, mechanisms: Mechanisms<'_>) -> Result<Phase, StartupError> {
        let binding = self.choose_binding(mechanisms)?;
        // The server takes the user from the startup packet and ignores this one, like with libpq.
        let client = ScramClient::new("", self.password()?, &self.nonce, binding);
        let first = client.message();
        let data = Some(Secret(first.as_bytes()));
        SaslInitialResponse { mechanism: client.mechanism(), data }.encode(&mut self.out)?;
        Ok(Phase::ScramBegun(client))
    }

    /// The strongest mechanism that both sides support.
    fn choose_binding(&self, mechanisms: Mechanisms<'_>) -> Result<ChannelBinding, StartupError> {
        let offers = |name| { mechanisms }.any(|offered| offered == name);
        let binding = match &self.config.channel_binding {
            Some(data) if offers(scram::SCRAM_SHA_256_PLUS) => {
                return Ok(ChannelBinding::TlsServerEndPoint(data.clone()));
            }
            Some(_) => ChannelBinding::NotOffered,
            None => ChannelBinding::Unsupported,
        };
        self.refuse_without_binding()?;
        if offers(scram::SCRAM_SHA_256) {
            Ok(binding)
        } else {
            Err(StartupError::UnsupportedMechanism)
        }
    }

    fn prove(&mut self, client: ScramClient, data: &[u8]) -> Result<Phase, StartupError> {
        let proof = client.handle_server_first(data, self.config.scram_iterations_max)?;
        SaslResponse { data: Secret(proof.message().as_bytes()) }.encode(&mut self.out)?;
        Ok(Phase::ScramProved(proof))
    }

    /// NegotiateProtocolVersion comes at most once, before anything else, and can only lower what
    /// was asked for (pqGetNegotiateProtocolVersion3 in fe-protocol3.c).
    fn handle_negotiation(
        &mut self,
        mut message: NegotiateProtocolVersion<'_>,
    ) -> Result<(), StartupError> {
        let early = matches!(self.phase, Phase::Begun) && !self.negotiated;
        let version = ProtocolVersion::from_offer(message.version)
            .filter(|version| early && *version <= self.config.protocol)
            .ok_or(StartupError::Negotiation)?;
        let asked = |name| self.config.parameters.iter().any(|(asked, _)| asked == name);
        if !message.unknown_options.all(|name| name.starts_with("_pq_.") && asked(name)) {
            return Err(StartupError::Negotiation);
        }
        self.negotiated = true;
        self.ready.protocol = version;
        Ok(())
    }

    fn set_parameter(&mut self, name: &str, value: &str) -> Result<(), StartupError> {
        let parameters = &mut self.ready.parameters;
        if let Some((_, old)) = parameters.iter_mut().find(|(known, _)| known == name) {
            value.clone_into(old);
        } else if parameters.len() < PARAMETERS_MAX {
            parameters.push((name.to_owned(), value.to_owned()));
        } else {
            return Err(StartupError::TooManyParameters);
        }
        Ok(())
    }

    /// The session may begin if it uses UTF-8. A pooler that reports no encoding is accepted, since
    /// each string is checked when it is decoded.
    fn finish(&mut self) -> Result<Ready, StartupError> {
        let mut parameters = self.ready.parameters.iter();
        let is_ours = !self.is_of_another;
        if is_ours
            && parameters.any(|(name, value)| name == "client_encoding" && !config::is_utf8(value))
        {
            return Err(StartupError::ClientEncoding);
        }
        Ok(self.ready.clone())
    }
}

impl SecretKey {
    /// The bytes for CancelRequest.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the server sent no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&[u8]> for SecretKey {
    fn from(key: &[u8]) -> Self {
        SecretKey(key.into())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Debug for Startup {
    /// Leaves out the output, which may hold a password, and the nonce.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Startup").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The messages that may come before AuthenticationOk.
const STRANGER_TAGS: [u8; 4] = [
    tag::AUTHENTICATION,
    tag::ERROR_RESPONSE,
    tag::NOTICE_RESPONSE,
    tag::NEGOTIATE_PROTOCOL_VERSION,
];

/// The messages that may come between AuthenticationOk and ReadyForQuery.
const AUTHENTICATED_TAGS: [u8; 5] = [
    tag::PARAMETER_STATUS,
    tag::BACKEND_KEY_DATA,
    tag::ERROR_RESPONSE,
    tag::NOTICE_RESPONSE,
    tag::READY_FOR_QUERY,
];
