//! Stub.
use onetrip_redis::scan::Scanner;
/// Stub.
pub trait FromReply: Sized {
    /// Stub.
    fn from_reply(block: &bytes::Bytes) -> Result<Self, String>;
}
impl FromReply for () {
    fn from_reply(_: &bytes::Bytes) -> Result<Self, String> {
        Ok(())
    }
}
impl FromReply for bytes::Bytes {
    fn from_reply(block: &bytes::Bytes) -> Result<Self, String> {
        let at = block.iter().position(|&b| b == b'\n').unwrap_or(0) + 1;
        Ok(block.slice(at.min(block.len())..block.len().saturating_sub(2).max(at.min(block.len()))))
    }
}
impl FromReply for String {
    fn from_reply(block: &bytes::Bytes) -> Result<Self, String> {
        Ok(String::from_utf8_lossy(block).into_owned())
    }
}
impl FromReply for i64 {
    fn from_reply(block: &bytes::Bytes) -> Result<Self, String> {
        std::str::from_utf8(&block[1..block.len() - 2])
            .unwrap_or_default()
            .parse()
            .map_err(|_| "no integer".into())
    }
}
#[allow(dead_code)]
fn unused(_: Scanner) {}
