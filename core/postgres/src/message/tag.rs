//! The first byte of every message, as in the server's src/include/libpq/protocol.h.
//!
//! The two directions use the same letters for different messages, hence two modules.

/// What the server sends.
pub mod backend {
    /// NotificationResponse
    pub const NOTIFICATION_RESPONSE: u8 = b'A';
    /// CommandComplete
    pub const COMMAND_COMPLETE: u8 = b'C';
    /// DataRow
    pub const DATA_ROW: u8 = b'D';
    /// ErrorResponse
    pub const ERROR_RESPONSE: u8 = b'E';
    /// CopyInResponse
    pub const COPY_IN_RESPONSE: u8 = b'G';
    /// CopyOutResponse
    pub const COPY_OUT_RESPONSE: u8 = b'H';
    /// EmptyQueryResponse
    pub const EMPTY_QUERY_RESPONSE: u8 = b'I';
    /// BackendKeyData
    pub const BACKEND_KEY_DATA: u8 = b'K';
    /// NoticeResponse
    pub const NOTICE_RESPONSE: u8 = b'N';
    /// Every message of the Authentication family
    pub const AUTHENTICATION: u8 = b'R';
    /// ParameterStatus
    pub const PARAMETER_STATUS: u8 = b'S';
    /// RowDescription
    pub const ROW_DESCRIPTION: u8 = b'T';
    /// FunctionCallResponse
    pub const FUNCTION_CALL_RESPONSE: u8 = b'V';
    /// CopyBothResponse
    pub const COPY_BOTH_RESPONSE: u8 = b'W';
    /// ReadyForQuery
    pub const READY_FOR_QUERY: u8 = b'Z';
    /// ParseComplete
    pub const PARSE_COMPLETE: u8 = b'1';
    /// BindComplete
    pub const BIND_COMPLETE: u8 = b'2';
    /// CloseComplete
    pub const CLOSE_COMPLETE: u8 = b'3';
    /// CopyDone
    pub const COPY_DONE: u8 = b'c';
    /// CopyData
    pub const COPY_DATA: u8 = b'd';
    /// NoData
    pub const NO_DATA: u8 = b'n';
    /// PortalSuspended
    pub const PORTAL_SUSPENDED: u8 = b's';
    /// ParameterDescription
    pub const PARAMETER_DESCRIPTION: u8 = b't';
    /// NegotiateProtocolVersion
    pub const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';
}

/// What the client sends.
pub mod frontend {
    /// Bind
    pub const BIND: u8 = b'B';
    /// Close
    pub const CLOSE: u8 = b'C';
    /// Describe
    pub const DESCRIBE: u8 = b'D';
    /// Execute
    pub const EXECUTE: u8 = b'E';
    /// FunctionCall, which this crate never sends
    pub const FUNCTION_CALL: u8 = b'F';
    /// Flush
    pub const FLUSH: u8 = b'H';
    /// Parse
    pub const PARSE: u8 = b'P';
    /// Query
    pub const QUERY: u8 = b'Q';
    /// Sync
    pub const SYNC: u8 = b'S';
    /// Terminate
    pub const TERMINATE: u8 = b'X';
    /// CopyDone
    pub const COPY_DONE: u8 = b'c';
    /// CopyData
    pub const COPY_DATA: u8 = b'd';
    /// CopyFail
    pub const COPY_FAIL: u8 = b'f';
    /// PasswordMessage, SASLInitialResponse and SASLResponse; the server knows which one it asked
    /// for
    pub const PASSWORD: u8 = b'p';
}
