//! Any message of a client, decoded by its type, for model servers.

use super::tag::frontend as tag;
use super::{
    Bind, Close, CopyData, CopyFail, Describe, Execute, Frame, Parse, Query, Secret, Violation,
    empty,
};

/// A message of a client. The first packet of a connection is an [`super::InitialMessage`] instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the variants are named as the messages, which are documented on their types"
)]
pub enum FrontendMessage<'a> {
    Bind(Bind<'a>),
    Close(Close<'a>),
    CopyData(CopyData<'a>),
    CopyDone,
    CopyFail(CopyFail<'a>),
    Describe(Describe<'a>),
    Execute(Execute<'a>),
    Flush,
    Parse(Parse<'a>),
    /// The body of a PasswordMessage, SASLInitialResponse or SASLResponse; the server knows which
    /// one it asked for.
    Password(Secret<'a>),
    Query(Query<'a>),
    Sync,
    Terminate,
}

impl<'a> FrontendMessage<'a> {
    /// Decodes a message that [`super::frame`] has cut out with [`super::frontend_max_len`].
    ///
    /// # Errors
    /// The type is unknown (FunctionCall is one such), or the body does not conform to it.
    pub fn decode(frame: Frame<'a>) -> Result<Self, Violation> {
        use FrontendMessage as M;
        let body = frame.body;
        let none = |name, message| empty::check(name, body).map(|()| message);
        match frame.tag {
            tag::BIND => Bind::decode(body).map(M::Bind),
            tag::CLOSE => Close::decode(body).map(M::Close),
            tag::COPY_DATA => Ok(M::CopyData(CopyData::decode(body))),
            tag::COPY_DONE => none("CopyDone", M::CopyDone),
            tag::COPY_FAIL => CopyFail::decode(body).map(M::CopyFail),
            tag::DESCRIBE => Describe::decode(body).map(M::Describe),
            tag::EXECUTE => Execute::decode(body).map(M::Execute),
            tag::FLUSH => none("Flush", M::Flush),
            tag::PARSE => Parse::decode(body).map(M::Parse),
            tag::PASSWORD => Ok(M::Password(Secret(body))),
            tag::QUERY => Query::decode(body).map(M::Query),
            tag::SYNC => none("Sync", M::Sync),
            tag::TERMINATE => none("Terminate", M::Terminate),
            unknown => Err(Violation::UnknownTag(unknown)),
        }
    }
}
