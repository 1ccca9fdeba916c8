//! A program that is served by a warm connection: it is checked here, and hears the end of a login
//! that was done before.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use onetrip_postgres::auth::ScramServer;
use onetrip_postgres::auth::scram::SCRAM_SHA_256;
use onetrip_postgres::client::early::{Early, Key};
use onetrip_postgres::message::{
    Authentication, BackendKeyData, EncodeError, FrontendMessage, ParameterStatus, ReadyForQuery,
    SaslInitialResponse, Secret, TransactionStatus, authentication, frame, frontend_max_len,
};
use onetrip_postgres::startup::{Ready, SecretKey};
use tokio::time::timeout;

use super::carry::{BEGINNING_MAX, Carrier};
use super::keys::Known;
use super::random;
use super::stream::Stream;
use super::warm::{Login, Session, Warm};

impl Carrier {
    /// A connection for a program that proves that it may log in so: one that is logged in already,
    /// or one that is logged in now. `None` if it has been told why not.
    pub(super) async fn admit(
        &self,
        program: &Stream,
        warm: &Warm,
        login: &Arc<Login>,
        early: &mut Early,
    ) -> io::Result<Option<Session>> {
        let Some(check) = warm.check(login) else { return Err(io::ErrorKind::Other.into()) };
        if !timeout(BEGINNING_MAX, self.is_known(program, check, early)).await?? {
            self.shared.counts.wrong_password.add(1);
            let user = &login.user;
            early.end("28P01", &format!("password authentication failed for user \"{user}\""));
            return Ok(None);
        }
        let (begin, counts) = (self.now(), &self.shared.counts);
        let found = async {
            if let Some(session) = warm.take(login).await {
                counts.lent.add(1);
                return Ok(session);
            }
            counts.logged_in.add(1);
            self.servers.open(login, self.now()).await
        };
        let found = tokio::select! {
            found = found => found,
            left = self.left(program, early) => return left.map(|()| None),
        };
        match found {
            Ok(session) => {
                counts.waited(self.now().since(begin));
                Ok(Some(session))
            }
            Err(unmet) => {
                self.tell(unmet, early);
                Ok(None)
            }
        }
    }

    /// Serves a program by such a connection, and resets it behind it for others.
    pub(super) async fn lend(
        self: &Arc<Carrier>,
        program: &Stream,
        warm: &Arc<Warm>,
        mut session: Session,
        early: &mut Early,
    ) -> io::Result<()> {
        let Some(secret) = random::<4>() else {
            self.shared.counts.closed.add(1);
            session.close();
            return Err(io::Error::other("the system gives no random bytes"));
        };
        let key = Key {
            process_id: session.ready.process_id,
            // Whoever had the connection before can't cancel what runs there now.
            secret: SecretKey::from(&secret[..]),
        };
        let mut known = self.shared.keys.know(&key, &self.servers, session.place, session.key());
        early.lend();
        let mut said = BytesMut::new();
        welcome(&mut said, &session.ready, &key).map_err(io::Error::other)?;
        early.from_server(session.heard, &said);
        let place = session.place;
        self.splice(program, &mut session.stream, place, &mut known, early).await?;
        let was_cancelled = known.is_none_or(Known::forget);
        let Some(in_transaction) = early.returns().filter(|_| !was_cancelled) else {
            self.shared.counts.closed.add(1);
            session.close();
            return Ok(());
        };
        warm.give_back(session, in_transaction, self.clone());
        Ok(())
    }

    /// Whether the program knows the password.
    async fn is_known(
        &self,
        program: &Stream,
        mut check: ScramServer,
        early: &mut Early,
    ) -> io::Result<bool> {
        let mut said = BytesMut::new();
        authentication::write_sasl(&mut said, &[SCRAM_SHA_256]).map_err(io::Error::other)?;
        early.from_server(self.now(), &said);
        let first = self.password(program, early).await?;
        let first = SaslInitialResponse::decode(&first).ok();
        let first = first.filter(|it| it.mechanism == SCRAM_SHA_256).and_then(|it| it.data);
        let Some(reply) = first.and_then(|it| check.handle_client_first(it.0).ok()) else {
            return Ok(false);
        };
        said.clear();
        let reply = Authentication::SaslContinue(reply.as_bytes());
        reply.encode(&mut said).map_err(io::Error::other)?;
        early.from_server(self.now(), &said);
        let last = self.password(program, early).await?;
        let Ok(reply) = check.handle_client_final(&last) else { return Ok(false) };
        said.clear();
        let reply = Authentication::SaslFinal(reply.as_bytes());
        reply.encode(&mut said).map_err(io::Error::other)?;
        early.from_server(self.now(), &said);
        Ok(true)
    }

    /// The program's next message, which must be about its password: its body.
    async fn password(&self, program: &Stream, early: &mut Early) -> io::Result<BytesMut> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        loop {
            self.write_program(program, early)?;
            let message = frame(early.to_server(), frontend_max_len).map_err(|_| wrong())?;
            if let Some(message) = message {
                let Ok(FrontendMessage::Password(body)) = FrontendMessage::decode(message) else {
                    return Err(wrong());
                };
                let (body, len) = (BytesMut::from(body.0), message.message_len());
                early.server_took(self.now(), len);
                return Ok(body);
            }
            program.ready(early.wants_program(), !early.to_program().is_empty()).await?;
            if early.wants_program() && !self.read_program(program, early)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// What a server says behind the proof of the password.
fn welcome(out: &mut BytesMut, ready: &Ready, key: &Key) -> Result<(), EncodeError> {
    Authentication::Ok.encode(out)?;
    for (name, value) in &ready.parameters {
        ParameterStatus { name, value }.encode(out)?;
    }
    let secret_key = Secret(key.secret.as_bytes());
    BackendKeyData { process_id: key.process_id, secret_key }.encode(out)?;
    ReadyForQuery { status: TransactionStatus::Idle }.encode(out);
    Ok(())
}
