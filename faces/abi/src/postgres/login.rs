//! The login: from the first byte to the first ReadyForQuery, or to the reason why it fails.

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_engine::Time;
use onetrip_postgres::auth::Password;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::startup::{Ready, Startup, StartupError};

use super::Postgres;
use crate::completion::{Completions, close, event, kind};

/// A login that is not over.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) startup: Startup,
    /// The bytes to send.
    pub(super) out: BytesMut,
    asking: Asking,
}

/// Whether the host must supply the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// No: the password is known, from the settings or from the host.
    Never,
    /// Yes, once the server asks for it.
    Later,
    /// The host was asked, and has not answered.
    Asked,
}

impl Login {
    pub(super) fn new(startup: Startup, asks: bool) -> Login {
        let asking = if asks { Asking::Later } else { Asking::Never };
        let mut login = Login { startup, out: BytesMut::new(), asking };
        login.take_output();
        login
    }

    fn take_output(&mut self) {
        while let Some(bytes) = self.startup.transmit() {
            self.out.put_slice(&bytes);
        }
    }

    pub(super) fn written(&mut self, bytes: usize) {
        let _ = self.out.split_to(bytes.min(self.out.len()));
    }
}

/// How the server asks for a password, if it does: the code of its authentication request.
fn asked_for(mut input: &[u8]) -> Option<u32> {
    while let Some((&[tag, a, b, c, d], body)) = input.split_first_chunk() {
        if let (backend::AUTHENTICATION, Some(code)) = (tag, body.first_chunk()) {
            let code = u32::from_be_bytes(*code);
            if ASKS.contains(&code) {
                return Some(code);
            }
        }
        let len = u32::from_be_bytes([a, b, c, d]).checked_sub(4)? as usize;
        input = body.get(len..)?;
    }
    None
}

/// In clear text, by MD5, or by SASL.
const ASKS: [u32; 3] = [3, 5, 10];

impl Postgres {
    /// The host supplies the password, or says that there is none.
    pub(crate) fn password(
        &mut self,
        now: Time,
        password: Option<&str>,
        input: &mut BytesMut,
        to: &mut Completions,
    ) {
        if let Some(login) = self.login.as_mut().filter(|login| login.asking == Asking::Asked) {
            login.startup.set_password(password.map(Password::from));
            login.asking = Asking::Never;
            self.receive(now, input, to);
        }
    }

    /// Continues the login. Returns whether the session has begun.
    pub(super) fn log_in(&mut self, input: &mut BytesMut, to: &mut Completions) -> bool {
        let Some(login) = &mut self.login else { return true };
        if login.asking != Asking::Never
            && let Some(method) = asked_for(input)
        {
            if login.asking == Asking::Later {
                login.asking = Asking::Asked;
                to.push(kind::PASSWORD, 0, (method, 0), Bytes::new());
            }
            return false;
        }
        let result = login.startup.handle_bytes(input);
        login.take_output();
        match result {
            Ok(None) => false,
            Ok(Some(ready)) => {
                self.login = None;
                self.ready(ready, to);
                true
            }
            Err(error) => {
                self.fail_login(error, to);
                false
            }
        }
    }

    fn fail_login(&mut self, error: StartupError, to: &mut Completions) {
        let mut block = BytesMut::new();
        let reason = match &error {
            StartupError::Server(error) if error.encode_error(&mut block).is_ok() => close::SERVER,
            _ => {
                block = BytesMut::from(error.to_string().as_bytes());
                close::LOGIN
            }
        };
        self.end(reason, block.freeze(), to);
    }

    fn ready(&mut self, ready: Ready, to: &mut Completions) {
        (self.process_id, self.secret_key) = (ready.process_id, ready.secret_key);
        let protocol = self.engine.protocol_mut();
        protocol.identify(ready.process_id, self.unique);
        if self.sends_ahead {
            protocol.send_ahead();
        }
        let mut settings = BytesMut::new();
        for text in ready.parameters.iter().flat_map(|(name, value)| [name, value]) {
            settings.put_slice(text.as_bytes());
            settings.put_u8(0);
        }
        to.push(kind::READY, 0, (self.process_id.cast_unsigned(), 0), settings.freeze());
        for notice in ready.notices {
            let mut block = BytesMut::new();
            if notice.encode_notice(&mut block).is_ok() {
                to.push(kind::EVENT, 0, (event::NOTICE, 0), block.freeze());
            }
        }
    }
}
