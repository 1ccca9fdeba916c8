//! Statements that a connection prepares, uses and closes.

use bytes::BytesMut;
use onetrip_engine::{Request, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::{SYNC, bind};

use super::Core;
use crate::Error;
use crate::params::unencodable;
use crate::statements::{Bound, Learned, Scope, Use, Way, describe_statement, parse_of};

impl Core {
    /// Assembles the use of a prepared statement: Bind and Execute, with the Parse in front if this
    /// connection does not have the statement. Returns the expected reply, and the statement used.
    pub(crate) fn assemble(
        &mut self,
        expect: Expect,
        bound: &Bound,
        values: &[u8],
        scope: Scope,
        out: &mut BytesMut,
    ) -> Result<(Expect, Option<Use>), Error> {
        let metadata = &bound.metadata;
        let Core { statements, engine, types, clock, .. } = self;
        let protocol = engine.protocol_mut();
        let parameters = metadata.exactness(values, protocol.is_utc());
        let (parse, data) = (parse_of(metadata), || Learned::new(metadata, types));
        let way = statements.way(protocol, &bound.wanted(&parse, &data, parameters, *clock), scope);
        let way = way.map_err(unencodable)?;
        if scope != Scope::Heals {
            self.sent(&expect);
        }
        if let Way::Named(used) = &way {
            bound.hold(used);
            self.used_prepared(used.parses());
        }
        let bind = |out: &mut _, name: &str| bind::write_named(out, "", name, values);
        way.write(out, parse, bind).map_err(unencodable)?;
        Ok((way.expect(expect), way.used()))
    }

    /// Prepares a statement by itself, for many uses that follow: writes Parse and Describe, unless
    /// this connection has it. They have to be submitted under the same lock.
    pub(crate) fn prepare_ahead(
        &mut self,
        bound: &Bound,
        scope: Scope,
        shared: bool,
        out: &mut BytesMut,
    ) -> Result<Way, Error> {
        let Core { statements, engine, types, clock, .. } = self;
        let (parse, data) = (parse_of(&bound.metadata), || Learned::new(&bound.metadata, types));
        let wanted = bound.wanted(&parse, &data, bound.metadata.exactness(&[], false), *clock);
        let way = statements.own_way(engine.protocol_mut(), &wanted, scope, shared);
        let way = way.map_err(unencodable)?;
        if let Way::Named(used) = &way
            && shared
        {
            bound.hold(used);
        }
        if let Some(name) = way.parsed_as() {
            parse(out, name).map_err(unencodable)?;
            describe_statement(out, name).map_err(unencodable)?;
        }
        Ok(way)
    }

    /// A statement is sent on a session that one caller has to himself. Names in texts behind it may
    /// mean other things.
    pub(crate) fn sent(&mut self, expect: &Expect) {
        let protocol = self.engine.protocol();
        if expect.renames() && !protocol.is_shared() {
            self.statements.renamed(protocol);
        }
    }

    /// Whether the time zone of its session is UTC.
    pub(crate) fn is_utc(&self) -> bool {
        self.engine.protocol().is_utc()
    }

    /// Checks whether the session lost its statements. One that was prepared again since, within
    /// the same read, is prepared once more, which does no harm.
    pub(crate) fn note_lost_statements(&mut self) {
        if self.engine.protocol_mut().take_statements_lost() {
            self.statements.lost();
        }
    }

    /// Whether statements are to be closed.
    pub(crate) fn any_to_close(&self) -> bool {
        self.statements.any_to_close()
    }

    /// Submits the Closes of statements that nobody uses any more.
    pub(crate) fn close_dropped(&mut self, now: Time) {
        // If there is no room for some now, they leave later.
        for _ in 0..CLOSES_AT_ONCE {
            let protocol = self.engine.protocol_mut();
            let Some(closing) = self.statements.take_close(protocol) else { break };
            if !self.engine.has_room(1, closing.len() + 64) {
                return self.statements.give_back(closing);
            }
            let mut bytes = BytesMut::new();
            // Our names contain no NUL.
            if closing.write(&mut bytes).is_ok() {
                bytes.extend_from_slice(&SYNC);
                let expect = Expect::sync().close();
                let request = Request { resend: true, ..Request::isolated(Token::DISCARD, expect) };
                self.submit_along(now, request, &bytes);
            }
        }
    }
}

/// How many statements are closed with one request.
const CLOSES_AT_ONCE: usize = 8;
