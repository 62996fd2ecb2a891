//! Frames of the protocol: any bytes decode to a message or give an error. A message is
//! unchanged after encoding and decoding.

#![no_main]

use lanai::wire::frame::{self, FrameError};
use lanai::wire::message::{ClientRequest, Reply, VERSION};
use lanai::wire::order::{NodeReport, ScheddOrder};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads the bytes as the payload of a frame.
fn received<T: DeserializeOwned + Serialize>(payload: &[u8]) {
    let header = [
        &b"LN"[..],
        &VERSION.to_le_bytes(),
        &(payload.len() as u32).to_le_bytes(),
    ]
    .concat();
    let message: Result<T, FrameError> = frame::read(&mut [&header, payload].concat().as_slice());
    if let Ok(message) = message {
        let sent = frame::encode(&message).expect("encode a decoded message");
        let again: T = frame::read(&mut sent.as_slice()).expect("decode an encoded message");
        assert_eq!(
            frame::encode(&again).expect("encode the message again"),
            sent
        );
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _: Result<ClientRequest, FrameError> = frame::read(&mut &data[..]);
    let Some((kind, payload)) = data.split_first() else {
        return;
    };
    match kind % 4 {
        0 => received::<ClientRequest>(payload),
        1 => received::<Reply>(payload),
        2 => received::<ScheddOrder>(payload),
        _ => received::<NodeReport>(payload),
    }
});
