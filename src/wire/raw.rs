//! Serialization of byte strings as a whole, for `#[serde(with)]`. Without this module, serde reads
//! a `Vec<u8>` number by number, which is slow. The module does not change the written format.

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;
use std::fmt;

/// Writes the bytes.
pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

/// Reads the bytes.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    deserializer.deserialize_byte_buf(Bytes)
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    /// Reads numbers, which formats without byte strings use, such as JSON.
    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Whole(#[serde(with = "super")] Vec<u8>);

    #[test]
    fn bytes_are_written_in_the_format_of_a_sequence() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let packed = postcard::to_allocvec(&bytes).unwrap();
        assert_eq!(
            postcard::to_allocvec(&Whole(bytes.clone())).unwrap(),
            packed
        );
        assert_eq!(
            postcard::from_bytes::<Whole>(&packed).unwrap(),
            Whole(bytes.clone())
        );
        let text = serde_json::to_string(&bytes).unwrap();
        assert_eq!(serde_json::from_str::<Whole>(&text).unwrap(), Whole(bytes));
    }
}
