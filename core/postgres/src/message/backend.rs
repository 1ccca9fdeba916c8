//! Any message of the server, decoded by its type.

use super::tag::backend as tag;
use super::{
    Authentication, BackendKeyData, CommandComplete, CopyData, CopyResponse, DataRow,
    ErrorResponse, Frame, FunctionCallResponse, NegotiateProtocolVersion, NoticeResponse,
    NotificationResponse, ParameterDescription, ParameterStatus, ReadyForQuery, RowDescription,
    Violation, empty,
};

/// A message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the variants are named as the messages, which are documented on their types"
)]
pub enum BackendMessage<'a> {
    Authentication(Authentication<'a>),
    BackendKeyData(BackendKeyData<'a>),
    BindComplete,
    CloseComplete,
    CommandComplete(CommandComplete<'a>),
    CopyBothResponse(CopyResponse<'a>),
    CopyData(CopyData<'a>),
    CopyDone,
    CopyInResponse(CopyResponse<'a>),
    CopyOutResponse(CopyResponse<'a>),
    DataRow(DataRow<'a>),
    EmptyQueryResponse,
    ErrorResponse(ErrorResponse<'a>),
    FunctionCallResponse(FunctionCallResponse<'a>),
    NegotiateProtocolVersion(NegotiateProtocolVersion<'a>),
    NoData,
    NoticeResponse(NoticeResponse<'a>),
    NotificationResponse(NotificationResponse<'a>),
    ParameterDescription(ParameterDescription<'a>),
    ParameterStatus(ParameterStatus<'a>),
    ParseComplete,
    PortalSuspended,
    ReadyForQuery(ReadyForQuery),
    RowDescription(RowDescription<'a>),
}

impl<'a> BackendMessage<'a> {
    /// Decodes a message that [`super::frame`] has cut out.
    ///
    /// # Errors
    /// The type is unknown, or the body does not conform to it.
    pub fn decode(frame: Frame<'a>) -> Result<Self, Violation> {
        use BackendMessage as M;
        let body = frame.body;
        let none = |name, message| empty::check(name, body).map(|()| message);
        match frame.tag {
            tag::AUTHENTICATION => Authentication::decode(body).map(M::Authentication),
            tag::BACKEND_KEY_DATA => BackendKeyData::decode(body).map(M::BackendKeyData),
            tag::BIND_COMPLETE => none("BindComplete", M::BindComplete),
            tag::CLOSE_COMPLETE => none("CloseComplete", M::CloseComplete),
            tag::COMMAND_COMPLETE => CommandComplete::decode(body).map(M::CommandComplete),
            tag::COPY_BOTH_RESPONSE => CopyResponse::decode(body).map(M::CopyBothResponse),
            tag::COPY_DATA => Ok(M::CopyData(CopyData::decode(body))),
            tag::COPY_DONE => none("CopyDone", M::CopyDone),
            tag::COPY_IN_RESPONSE => CopyResponse::decode(body).map(M::CopyInResponse),
            tag::COPY_OUT_RESPONSE => CopyResponse::decode(body).map(M::CopyOutResponse),
            tag::DATA_ROW => DataRow::decode(body).map(M::DataRow),
            tag::EMPTY_QUERY_RESPONSE => none("EmptyQueryResponse", M::EmptyQueryResponse),
            tag::ERROR_RESPONSE => ErrorResponse::decode(body).map(M::ErrorResponse),
            tag::FUNCTION_CALL_RESPONSE => {
                FunctionCallResponse::decode(body).map(M::FunctionCallResponse)
            }
            tag::NEGOTIATE_PROTOCOL_VERSION => {
                NegotiateProtocolVersion::decode(body).map(M::NegotiateProtocolVersion)
            }
            tag::NO_DATA => none("NoData", M::NoData),
            tag::NOTICE_RESPONSE => NoticeResponse::decode(body).map(M::NoticeResponse),
            tag::NOTIFICATION_RESPONSE => {
                NotificationResponse::decode(body).map(M::NotificationResponse)
            }
            tag::PARAMETER_DESCRIPTION => {
                ParameterDescription::decode(body).map(M::ParameterDescription)
            }
            tag::PARAMETER_STATUS => ParameterStatus::decode(body).map(M::ParameterStatus),
            tag::PARSE_COMPLETE => none("ParseComplete", M::ParseComplete),
            tag::PORTAL_SUSPENDED => none("PortalSuspended", M::PortalSuspended),
            tag::READY_FOR_QUERY => ReadyForQuery::decode(body).map(M::ReadyForQuery),
            tag::ROW_DESCRIPTION => RowDescription::decode(body).map(M::RowDescription),
            unknown => Err(Violation::UnknownTag(unknown)),
        }
    }
}
