//! HMAC-SHA-256 (RFC 2104), and Hi() of RFC 5802, which is PBKDF2 (RFC 8018) with it and one block of
//! output.
//!
//! A login runs thousands of rounds of Hi(). Each is the HMAC of 32 bytes under the same key, so both
//! of its hashes begin in a state that is known from the first round on, and end with one block more.
//! The crate `hmac` does no more. But it is generic, so it is compiled with this crate, and in tests,
//! which optimise sha2 and not this crate, it took more than a third of the time of the client's.
//! Here the blocks go straight to a function of sha2. With HMAC of the crate `hmac` beside that, a
//! small module would be a kilobyte larger.

use sha2::digest::generic_array::GenericArray;
use sha2::{Digest, Sha256, compress256};

/// The state in which a hash begins (FIPS 180-4, section 5.3.3).
const BEGIN: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

const BLOCK_LEN: usize = 64;
const INNER: u8 = 0x36;
const OUTER: u8 = 0x5c;

/// The keyed hash of a message.
pub(super) fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let key = padded(key);
    let with = |pad: u8| Sha256::new().chain_update(key.map(|byte| byte ^ pad));
    let inner = with(INNER).chain_update(message).finalize();
    with(OUTER).chain_update(inner).finalize().into()
}

/// The salted password of these iterations, which are at least one.
pub(super) fn hi(password: &[u8], salt: &[u8], iterations: u32) -> [u8; 32] {
    let first = hmac(password, &[salt, &[0, 0, 0, 1]].concat());
    let mut round: [u32; 8] = std::array::from_fn(|at| {
        u32::from_be_bytes(std::array::from_fn(|byte| first[4 * at + byte]))
    });
    let (keyed, mut result) = (Keyed::new(password), round);
    for _ in 1..iterations {
        round = keyed.hmac(round);
        for at in 0..8 {
            result[at] ^= round[at];
        }
    }
    let mut bytes = [0; 32];
    write(&result, &mut bytes);
    bytes
}

/// A key as the block that both hashes begin with, before it is mixed with a pad.
fn padded(key: &[u8]) -> [u8; BLOCK_LEN] {
    let mut block = [0; BLOCK_LEN];
    if key.len() > BLOCK_LEN {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    block
}

/// The states behind the key's block.
struct Keyed {
    inner: [u32; 8],
    outer: [u32; 8],
}

impl Keyed {
    fn new(key: &[u8]) -> Keyed {
        let key = padded(key);
        let behind = |pad: u8| hashed(BEGIN, key.map(|byte| byte ^ pad));
        Keyed { inner: behind(INNER), outer: behind(OUTER) }
    }

    fn hmac(&self, message: [u32; 8]) -> [u32; 8] {
        let inner = hashed(self.inner, last_block(&message));
        hashed(self.outer, last_block(&inner))
    }
}

/// The second and last block of a hash: 32 bytes, the end mark, and the length in bits of both
/// blocks (FIPS 180-4, section 5.1.1).
fn last_block(message: &[u32; 8]) -> [u8; BLOCK_LEN] {
    const BITS: u16 = 8 * (BLOCK_LEN as u16 + 32);
    let mut block = [0; BLOCK_LEN];
    write(message, &mut block);
    block[32] = 0x80;
    block[BLOCK_LEN - 2..].copy_from_slice(&BITS.to_be_bytes());
    block
}

fn hashed(mut state: [u32; 8], block: [u8; BLOCK_LEN]) -> [u32; 8] {
    compress256(&mut state, &[GenericArray::from(block)]);
    state
}

/// Writes the words to the beginning of `bytes`.
fn write(words: &[u32; 8], bytes: &mut [u8]) {
    for at in 0..8 {
        bytes[4 * at..4 * at + 4].copy_from_slice(&words[at].to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, Mac};

    use super::*;

    fn by_the_crate(key: &[u8], message: &[u8]) -> [u8; 32] {
        let mac = Hmac::<Sha256>::new_from_slice(key).expect("keys have any length");
        mac.chain_update(message).finalize().into_bytes().into()
    }

    /// As RFC 5802 writes it.
    fn by_definition(password: &[u8], salt: &[u8], iterations: u32) -> [u8; 32] {
        let mut round = by_the_crate(password, &[salt, &[0, 0, 0, 1]].concat());
        let mut result = round;
        for _ in 1..iterations {
            round = by_the_crate(password, &round);
            result = std::array::from_fn(|at| result[at] ^ round[at]);
        }
        result
    }

    #[test]
    fn a_key_and_a_message_of_any_length_give_what_others_find() {
        let bytes: Vec<u8> = (0..200).map(|n: u8| n.wrapping_mul(151)).collect();
        for len in 0..bytes.len() {
            let (key, message) = bytes.split_at(len);
            assert_eq!(super::hmac(key, message), by_the_crate(key, message), "{len} bytes");
            let iterations = 1 + len as u32 % 5;
            let found = hi(key, message, iterations);
            assert_eq!(found, by_definition(key, message, iterations), "{len} bytes");
        }
    }
}
