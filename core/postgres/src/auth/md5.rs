//! The hash of AuthenticationMD5Password. MD5 is weak, and deprecated since PostgreSQL 18; some
//! servers offer nothing better.

use md5::{Digest, Md5};

use super::Password;

/// `md5` followed by the hex digits of md5(hex(md5(password user)) salt) (pg_md5_encrypt in
/// src/common/md5_common.c).
pub fn response(user: &str, password: &Password, salt: [u8; 4]) -> String {
    let inner = hex(&[password.expose().as_bytes(), user.as_bytes()]);
    format!("md5{}", hex(&[inner.as_bytes(), &salt]))
}

fn hex(parts: &[&[u8]]) -> String {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    format!("{:x}", hash.finalize())
}
