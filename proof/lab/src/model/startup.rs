//! From the first packet to the first ReadyForQuery: ProcessStartupPacket and what follows it.

use onetrip_postgres::auth::{ChannelBinding, ScramServer};
use onetrip_postgres::message::{
    Authentication, BackendKeyData, FrontendMessage, InitialMessage, ParameterStatus,
    SaslInitialResponse, Secret, authentication, frame, frame_initial, frontend_max_len,
};

use super::reply::code;
use super::server::Phase;
use super::{Auth, Server};

/// The step that a startup is at.
#[derive(Default)]
pub(super) enum Startup {
    /// Waits for the first packet, or for the one after a request for encryption.
    #[default]
    Packet,
    /// Waits for the first message of the SCRAM exchange.
    ScramFirst(ScramServer, u32),
    /// Waits for the client's proof that it knows the password.
    ScramFinal(ScramServer, u32),
}

/// Minor version 2 of the protocol has longer cancel keys.
const VERSION_3_2: u32 = 3 << 16 | 2;
const ITERATIONS: u32 = 4096;
/// The process id of every session.
pub(super) const PROCESS_ID: i32 = 4711;
const MECHANISM: &str = "SCRAM-SHA-256";

/// What a session reports at its start, as PostgreSQL does.
const PARAMETERS: [(&str, &str); 7] = [
    ("server_version", "18.0 (model)"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
];

impl Server {
    /// Processes a message of the startup. Returns false if none is complete.
    pub(super) fn start_up(&mut self) -> bool {
        match std::mem::replace(&mut self.phase, Phase::Startup(Startup::Packet)) {
            Phase::Startup(Startup::Packet) => self.take_packet(),
            Phase::Startup(waiting) => self.take_password(waiting),
            other => {
                self.phase = other;
                false
            }
        }
    }

    fn take_packet(&mut self) -> bool {
        let body = match frame_initial(&self.input) {
            Ok(None) => return false,
            Ok(Some(body)) => body,
            Err(violation) => {
                self.violation(violation);
                return true;
            }
        };
        let len = 4 + body.len();
        let packet = self.input.split_to(len).freeze();
        match InitialMessage::decode(&packet[4..]) {
            Ok(InitialMessage::Startup(startup)) => self.authenticate(startup.version),
            Ok(InitialMessage::SslRequest | InitialMessage::GssEncRequest) => {
                self.put_quietly(|out| out.extend_from_slice(b"N"));
                self.flush();
            }
            Ok(InitialMessage::Cancel(_)) => {
                self.log.cancel();
                self.phase = Phase::Closed;
            }
            Err(violation) => self.violation(violation),
        }
        true
    }

    fn authenticate(&mut self, version: u32) {
        match self.config.auth.clone() {
            Auth::Trust => self.welcome(version),
            Auth::Scram(password) => {
                self.put_quietly(|out| {
                    authentication::write_sasl(out, &[MECHANISM]).expect("a short name");
                });
                self.flush();
                let binding = ChannelBinding::Unsupported;
                let scram =
                    ScramServer::new(password, b"model salt", ITERATIONS, b"model nonce", binding);
                self.phase = Phase::Startup(Startup::ScramFirst(scram, version));
            }
        }
    }

    fn take_password(&mut self, waiting: Startup) -> bool {
        let len = match frame(&self.input, frontend_max_len) {
            Ok(None) => {
                self.phase = Phase::Startup(waiting);
                return false;
            }
            Ok(Some(frame)) => frame.message_len(),
            Err(violation) => {
                self.violation(violation);
                return true;
            }
        };
        let message = self.input.split_to(len).freeze();
        let decoded = frame(&message, frontend_max_len)
            .ok()
            .flatten()
            .and_then(|frame| FrontendMessage::decode(frame).ok());
        match decoded {
            Some(FrontendMessage::Password(body)) => self.take_proof(waiting, body),
            _ => self.violation("a password was expected"),
        }
        true
    }

    fn take_proof(&mut self, waiting: Startup, body: Secret<'_>) {
        match waiting {
            Startup::ScramFirst(mut scram, version) => {
                let initial = SaslInitialResponse::decode(body.0).ok();
                let data = initial
                    .filter(|initial| initial.mechanism == MECHANISM)
                    .and_then(|initial| initial.data);
                match data.and_then(|data| scram.handle_client_first(data.0).ok()) {
                    Some(reply) => {
                        self.put_auth(Authentication::SaslContinue(reply.as_bytes()));
                        self.flush();
                        self.phase = Phase::Startup(Startup::ScramFinal(scram, version));
                    }
                    None => self.violation("a malformed SCRAM message"),
                }
            }
            Startup::ScramFinal(mut scram, version) => match scram.handle_client_final(body.0) {
                Ok(reply) => {
                    self.put_auth(Authentication::SaslFinal(reply.as_bytes()));
                    self.welcome(version);
                }
                Err(_) => self.fatal(code::PASSWORD, None),
            },
            Startup::Packet => self.violation("a password that was not asked for"),
        }
    }

    fn welcome(&mut self, version: u32) {
        self.put_auth(Authentication::Ok);
        for (name, value) in PARAMETERS {
            self.put_quietly(|out| {
                ParameterStatus { name, value }.encode(out).expect("there is no NUL in it");
            });
        }
        let key: &[u8] = if version >= VERSION_3_2 { &[7; 32] } else { &[7; 4] };
        self.put_quietly(|out| {
            let key = BackendKeyData { process_id: PROCESS_ID, secret_key: Secret(key) };
            key.encode(out).expect("a key of a common length");
        });
        self.put_ready();
        self.phase = Phase::Ready;
    }

    fn put_auth(&mut self, message: Authentication<'_>) {
        self.put_quietly(|out| message.encode(out).expect("it is far below 1 GiB"));
    }
}
