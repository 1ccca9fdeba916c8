//! The login: from the first byte to the first ReadyForQuery, or to the reason why it fails. And the
//! question which server it is, if the host asks it before it uses the connection.

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_engine::Time;
use onetrip_postgres::auth::Password;
use onetrip_postgres::client::connect::Session;
use onetrip_postgres::client::identity::{self, Identity, Lineage};
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::startup::{Ready, Startup, StartupError};

use super::Postgres;
use crate::completion::{Completions, close, event, kind};

/// A login that is not over.
#[derive(Debug)]
pub(super) struct Login {
    step: Step,
    /// The bytes to send.
    pub(super) out: BytesMut,
}

#[derive(Debug)]
enum Step {
    Startup(Box<Startup>, Asking),
    Identify(identity::Asking),
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
        let mut login = Login { step: Step::Startup(startup.into(), asking), out: BytesMut::new() };
        login.take_output();
        login
    }

    fn identify() -> Login {
        let (asking, mut out) = (identity::Asking::default(), BytesMut::new());
        // It can't fail: the text is short and has no NUL.
        let _ = asking.write(&mut out);
        Login { step: Step::Identify(asking), out }
    }

    fn take_output(&mut self) {
        let Step::Startup(startup, _) = &mut self.step else { return };
        while let Some(bytes) = startup.transmit() {
            self.out.put_slice(&bytes);
        }
    }

    /// Why it has failed, now that the peer has closed the connection.
    pub(super) fn closed(&mut self) -> String {
        match &mut self.step {
            Step::Startup(startup, _) => startup.handle_closed().to_string(),
            Step::Identify(_) => CLOSED.to_owned(),
        }
    }

    pub(super) fn written(&mut self, bytes: usize) {
        let _ = self.out.split_to(bytes.min(self.out.len()));
    }
}

const CLOSED: &str = "the server closed the connection instead of saying which server it is";

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
        let Some(Login { step: Step::Startup(startup, asking), .. }) = &mut self.login else {
            return;
        };
        if *asking == Asking::Asked {
            startup.set_password(password.map(Password::from));
            *asking = Asking::Never;
            self.receive(now, input, to);
        }
    }

    /// Continues the login. Returns whether the session has begun.
    pub(super) fn log_in(&mut self, input: &mut BytesMut, to: &mut Completions) -> bool {
        let Some(login) = &mut self.login else { return true };
        let (startup, asking) = match &mut login.step {
            Step::Startup(startup, asking) => (startup, asking),
            Step::Identify(_) => return self.take_identity(input, to),
        };
        if *asking != Asking::Never
            && let Some(method) = asked_for(input)
        {
            if *asking == Asking::Later {
                *asking = Asking::Asked;
                to.push(kind::PASSWORD, 0, (method, 0), Bytes::new());
            }
            return false;
        }
        let result = startup.handle_bytes(input);
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

    /// Asks the server which it is. Until it has answered, nothing else is sent.
    pub(crate) fn identify(&mut self) {
        if self.login.is_none() && !self.closed {
            self.login = Some(Login::identify());
        }
    }

    /// Takes the answer. Returns whether it is complete.
    fn take_identity(&mut self, input: &mut BytesMut, to: &mut Completions) -> bool {
        let Some(Login { step: Step::Identify(asking), .. }) = &mut self.login else { return true };
        let session = &mut self.session;
        match asking.handle_bytes(input, |name, value| session.note(name, value)) {
            Ok(None) => false,
            Ok(Some(answer)) => {
                (self.login, self.identity) = (None, answer.identity);
                to.push(kind::IDENTIFIED, 0, (0, 0), Bytes::new());
                true
            }
            Err(violation) => {
                self.end(close::VIOLATION, Bytes::from(violation.to_string()), to);
                false
            }
        }
    }

    /// What the server said of its session.
    pub(crate) fn session(&self) -> Session {
        self.session
    }

    /// Which server it is, if it was asked and said so.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Ends the connection if its server is a former primary, by what was seen of others.
    pub(crate) fn compare(&mut self, lineage: &Lineage, to: &mut Completions) {
        if let Some(refusal) = self.identity.and_then(|server| lineage.refuses(server)) {
            self.end(close::REFUSED, Bytes::from(refusal.text()), to);
        }
    }

    fn fail_login(&mut self, error: StartupError, to: &mut Completions) {
        let mut block = BytesMut::new();
        let ended = match &error {
            StartupError::Server(told) if told.encode_error(&mut block).is_ok() => {
                (close::SERVER, false)
            }
            StartupError::Session(told) if told.encode_error(&mut block).is_ok() => {
                (close::SERVER, true)
            }
            _ => {
                block = BytesMut::from(error.to_string().as_bytes());
                (close::LOGIN, true)
            }
        };
        self.end_as(ended, block.freeze(), to);
    }

    fn ready(&mut self, ready: Ready, to: &mut Completions) {
        (self.process_id, self.secret_key) = (ready.process_id, ready.secret_key);
        let protocol = self.engine.protocol_mut();
        protocol.identify(ready.process_id, self.unique);
        protocol.greeted(&ready.parameters);
        if self.sends_ahead {
            protocol.send_ahead();
        }
        for (name, value) in &ready.parameters {
            self.session.note(name, value);
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
