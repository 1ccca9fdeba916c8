//! Every message of PostgreSQL's protocol 3.0 and 3.2, in both directions, one file each.
//!
//! This module converts between bytes and borrowed structs. It does not know what a message means
//! and when it may come (the session does), nor sockets, nor values of SQL types.
//!
//! - Encoding appends a whole message to a `BytesMut`, or on an error nothing.
//! - Decoding takes a body (without type and length) and borrows from it. The counts and lengths in
//!   it are checked against its bytes once, so that the iterators need no errors. Nothing is
//!   allocated.
//! - [`frame`] cuts a stream into messages; [`max_len`] is the table of limits.
//!
//! Messages with fixed fields have `encode`. Those with lists are appended by the `write` of their
//! module.

pub mod authentication;
pub mod backend;
pub mod backend_key_data;
pub mod bind;
mod buffer;
pub mod cancel_request;
pub mod close;
pub mod command_complete;
pub mod copy_data;
pub mod copy_fail;
pub mod copy_response;
pub mod data_row;
pub mod describe;
pub mod empty;
mod error;
pub mod error_response;
pub mod execute;
mod format;
mod framing;
pub mod frontend;
pub mod function_call_response;
mod limits;
pub mod negotiate_protocol_version;
pub mod notification_response;
mod oids;
pub mod parameter_description;
pub mod parameter_status;
pub mod parse;
pub mod password;
pub mod query;
pub mod ready_for_query;
mod refusal;
pub mod row_description;
pub mod sasl;
mod secret;
mod server_error;
pub mod ssl_request;
pub mod startup_message;
pub mod tag;
mod target;
mod values;

pub use authentication::{Authentication, Mechanisms};
pub use backend::BackendMessage;
pub use backend_key_data::BackendKeyData;
pub use bind::{Bind, IsNull};
pub use cancel_request::CancelRequest;
pub use close::Close;
pub use command_complete::CommandComplete;
pub use copy_data::CopyData;
pub use copy_fail::CopyFail;
pub use copy_response::{CopyDirection, CopyResponse};
pub use data_row::DataRow;
pub use describe::Describe;
pub use empty::{FLUSH, SYNC, TERMINATE};
pub(crate) use error::Tag;
pub use error::{EncodeError, Violation};
pub use error_response::{ErrorFields, ErrorResponse, NoticeResponse};
pub use execute::Execute;
pub use format::{Format, FormatCodes, Formats};
pub use framing::{Frame, Header, frame, frame_initial};
pub use frontend::FrontendMessage;
pub use function_call_response::FunctionCallResponse;
pub use limits::{
    AUTH_TOKEN_LEN_MAX, CANCEL_KEY_LEN, LARGE_LEN_MAX, LIBPQ_SHORT_LEN_MAX, SMALL_LEN_MAX,
    STARTUP_LEN_MAX, frontend_max_len, max_len,
};
pub use negotiate_protocol_version::NegotiateProtocolVersion;
pub use notification_response::NotificationResponse;
pub use oids::Oids;
pub use parameter_description::ParameterDescription;
pub use parameter_status::ParameterStatus;
pub use parse::Parse;
pub use password::PasswordMessage;
pub use query::Query;
pub use ready_for_query::{ReadyForQuery, TransactionStatus};
pub use refusal::may_mend;
pub use row_description::{Field, RowDescription};
pub use sasl::{SaslInitialResponse, SaslResponse};
pub use secret::Secret;
pub use server_error::{ServerError, one_line};
pub use startup_message::{InitialMessage, StartupMessage};
pub use target::Target;
pub use values::Values;
