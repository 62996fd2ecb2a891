//! A hash that is the same in every process and on every machine.

use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;

/// The first 64 bits of the SHA-256 of a key.
pub fn stable_hash(key: &impl Serialize) -> u64 {
    // Serializing plain data into a vector cannot fail.
    let bytes = postcard::to_stdvec(key).unwrap_or_default();
    let digest = Sha256::digest(&bytes);
    digest
        .iter()
        .take(8)
        .fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}
