//! What ssh computes over names and keys: HMAC-SHA1 hides names in `known_hosts`, SHA-256
//! and base64 make fingerprints.

use sha2::{Digest, Sha256};

/// SHA-1. Good for nothing but the salted names that ssh keeps; collisions do not matter
/// there.
pub fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut text: Vec<u8> = parts.concat();
    let bits = (text.len() as u64) * 8;
    text.push(0x80);
    while text.len() % 64 != 56 {
        text.push(0);
    }
    text.extend_from_slice(&bits.to_be_bytes());
    let mut state: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    for block in text.chunks_exact(64) {
        let mut words: Vec<u32> = block
            .chunks_exact(4)
            .map(|four| four.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
            .collect();
        for at in 16..80 {
            let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
            words.push(mixed.rotate_left(1));
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (round, word) in words.iter().enumerate() {
            let (mixed, constant) = match round / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let sum = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, sum);
        }
        for (own, more) in state.iter_mut().zip([a, b, c, d, e]) {
            *own = own.wrapping_add(more);
        }
    }
    let mut digest = [0; 20];
    for (out, byte) in digest
        .iter_mut()
        .zip(state.iter().flat_map(|word| word.to_be_bytes()))
    {
        *out = byte;
    }
    digest
}

/// HMAC-SHA1 with a key of at most one block.
pub fn hmac_sha1(key: &[u8], text: &[u8]) -> Option<[u8; 20]> {
    if key.len() > 64 {
        return None;
    }
    let pad = |with: u8| {
        let mut block = [with; 64];
        for (own, byte) in block.iter_mut().zip(key) {
            *own ^= byte;
        }
        block
    };
    Some(sha1(&[&pad(0x5c), &sha1(&[&pad(0x36), text])]))
}

/// A key's fingerprint, as `ssh-add -l` shows it.
pub fn fingerprint(blob: &[u8]) -> String {
    format!("SHA256:{}", base64(&Sha256::digest(blob)))
}

/// Base64 without padding.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let sum = (0..3).fold(0_u32, |sum, at| {
            sum << 8 | u32::from(three.get(at).copied().unwrap_or(0))
        });
        for at in 0..=three.len() {
            let index = (sum >> (18 - 6 * at)) as usize & 63;
            text.extend(LETTERS.get(index).map(|letter| char::from(*letter)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn known_answers() {
        for (text, digest) in [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            ),
        ] {
            assert_eq!(hex(&sha1(&[text.as_bytes()])), digest, "{text}");
        }
        // RFC 2202, 1 and 2.
        assert_eq!(
            hex(&hmac_sha1(&[0x0b; 20], b"Hi There").unwrap()),
            "b617318655057264e28bc0b6fb378c8ef146be00"
        );
        assert_eq!(
            hex(&hmac_sha1(b"Jefe", b"what do ya want for nothing?").unwrap()),
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"
        );
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
