//! SHA-256 digests. A digest is stored as 64 hexadecimal digits in JSON and as 32 bytes in binary
//! formats.

use super::{Digest, Spec};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;
use sha2::Sha256;
use std::borrow::Cow;

impl Digest {
    /// Computes the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }
}

impl Spec {
    /// Computes the digest of all options and requests of a job. The digest changes when one of
    /// them is altered.
    pub fn revision(&self) -> serde_json::Result<Digest> {
        Ok(Digest::of(&serde_json::to_vec(self)?))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return self.0.serialize(serializer);
        }
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        serializer.serialize_str(&String::from_utf8_lossy(&text))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        if !deserializer.is_human_readable() {
            return <[u8; 32]>::deserialize(deserializer).map(Digest);
        }
        let text = Cow::<str>::deserialize(deserializer)?;
        parse(text.as_bytes()).ok_or_else(|| D::Error::custom("a digest has 64 hexadecimal digits"))
    }
}

fn digit(value: u8) -> u8 {
    b"0123456789abcdef"[usize::from(value)]
}

fn parse(text: &[u8]) -> Option<Digest> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (hex_digit(pair[0])? << 4 | hex_digit(pair[1])?) as u8;
    }
    Some(Digest(bytes))
}

fn hex_digit(digit: u8) -> Option<u32> {
    char::from(digit).to_digit(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_can_be_read_back_from_json_and_binary_formats() {
        let digest = Digest(std::array::from_fn(|n| n as u8 * 7 + 3));
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(text.len(), 66);
        assert!(text.starts_with("\"030a11"), "{text}");
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        let bytes = postcard::to_stdvec(&digest).unwrap();
        assert_eq!(bytes, digest.0);
        assert_eq!(postcard::from_bytes::<Digest>(&bytes).unwrap(), digest);
        for bad in ["", "12", &"g".repeat(64), &"é".repeat(32)] {
            assert!(
                serde_json::from_str::<Digest>(&format!("\"{bad}\"")).is_err(),
                "{bad}"
            );
        }
    }
}
