//! From the first byte to the first ReadyForQuery, or to the reason why there is none.

use bytes::{BufMut, BytesMut};
use onetrip_postgres::startup::{Ready, Startup, StartupError};

use super::Postgres;
use crate::completion::{Completions, close, event, kind};

/// A login that is not over.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) startup: Startup,
    /// What is to be sent of it.
    pub(super) out: BytesMut,
}

impl Login {
    pub(super) fn new(startup: Startup) -> Login {
        let mut login = Login { startup, out: BytesMut::new() };
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

impl Postgres {
    /// Goes on with the login. Returns whether the session has begun.
    pub(super) fn log_in(&mut self, input: &mut BytesMut, to: &mut Completions) -> bool {
        let Some(login) = &mut self.login else { return true };
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
