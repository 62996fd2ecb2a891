//! Keys of a terminal in raw mode, decoded from the bytes that it sends.

/// A pressed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable character.
    Char(char),
    /// A letter with the control key.
    Control(char),
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Enter.
    Enter,
    /// Tab.
    Tab,
    /// Tab with the shift key.
    BackTab,
    /// Backspace.
    Backspace,
    /// Escape.
    Escape,
}

/// Maximum length of a sequence of bytes for one key. Longer sequences are invalid.
const LONGEST: usize = 16;

/// Decodes keys. Bytes of an incomplete key are kept until the rest arrives.
#[derive(Debug, Default)]
pub struct KeyDecoder {
    pending: Vec<u8>,
}

/// The beginning of the pending bytes.
enum Beginning {
    /// Too few bytes for a key.
    Incomplete,
    /// A key of this length; None for an unknown key.
    Complete(usize, Option<Key>),
}

impl KeyDecoder {
    /// The keys in these bytes, together with the bytes kept from earlier calls.
    pub fn decode(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend(bytes);
        let mut keys = Vec::new();
        while let Beginning::Complete(length, key) = first(&self.pending) {
            self.pending.drain(..length);
            keys.extend(key);
        }
        keys
    }

    /// Tests whether bytes of an incomplete key are kept.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Ends an incomplete key, because no more bytes follow: a single escape byte is the key
    /// Escape, other bytes are dropped.
    pub fn end(&mut self) -> Option<Key> {
        let is_escape = self.pending == [ESCAPE];
        self.pending.clear();
        is_escape.then_some(Key::Escape)
    }
}

const ESCAPE: u8 = 0x1b;

fn first(bytes: &[u8]) -> Beginning {
    match bytes {
        [] | [ESCAPE] | [ESCAPE, b'O'] => Beginning::Incomplete,
        [ESCAPE, b'[', rest @ ..] => control_sequence(rest),
        [ESCAPE, b'O', last, ..] => Beginning::Complete(3, cursor_key(*last)),
        [ESCAPE, ..] => Beginning::Complete(1, Some(Key::Escape)),
        [b'\r' | b'\n', ..] => Beginning::Complete(1, Some(Key::Enter)),
        [b'\t', ..] => Beginning::Complete(1, Some(Key::Tab)),
        [0x7f | 0x08, ..] => Beginning::Complete(1, Some(Key::Backspace)),
        [byte @ 1..=0x1a, ..] => {
            Beginning::Complete(1, Some(Key::Control(char::from(byte - 1 + b'a'))))
        }
        [byte, ..] if *byte < b' ' => Beginning::Complete(1, None),
        _ => character(bytes),
    }
}

/// A key that is sent as `ESC [`, parameters and a final byte.
fn control_sequence(rest: &[u8]) -> Beginning {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return if rest.len() < LONGEST {
            Beginning::Incomplete
        } else {
            Beginning::Complete(2 + rest.len(), None)
        };
    };
    let number = rest[..end].split(|byte| *byte == b';').next();
    let key = match (rest[end], number) {
        (b'~', Some(b"1" | b"7")) => Some(Key::Home),
        (b'~', Some(b"4" | b"8")) => Some(Key::End),
        (b'~', Some(b"5")) => Some(Key::PageUp),
        (b'~', Some(b"6")) => Some(Key::PageDown),
        (last, _) => cursor_key(last),
    };
    Beginning::Complete(2 + end + 1, key)
}

fn cursor_key(last: u8) -> Option<Key> {
    Some(match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'M' => Key::Enter,
        b'Z' => Key::BackTab,
        _ => return None,
    })
}

/// A character in UTF-8. An invalid byte is dropped.
fn character(bytes: &[u8]) -> Beginning {
    let length = match bytes[0] {
        0..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Beginning::Complete(1, None),
    };
    let Some(encoded) = bytes.get(..length) else {
        return Beginning::Incomplete;
    };
    match std::str::from_utf8(encoded) {
        Ok(text) => Beginning::Complete(length, text.chars().next().map(Key::Char)),
        Err(_) => Beginning::Complete(1, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_usual_terminals_are_decoded() {
        for (bytes, expected) in [
            (&b"j"[..], Key::Char('j')),
            ("ä".as_bytes(), Key::Char('ä')),
            (b"\x03", Key::Control('c')),
            (b"\x1a", Key::Control('z')),
            (b"\r", Key::Enter),
            (b"\x7f", Key::Backspace),
            (b"\x1b[A", Key::Up),
            (b"\x1bOB", Key::Down),
            (b"\x1b[1;5B", Key::Down),
            (b"\x1b[5~", Key::PageUp),
            (b"\x1b[6~", Key::PageDown),
            (b"\x1b[1~", Key::Home),
            (b"\x1bOF", Key::End),
            (b"\x1b[Z", Key::BackTab),
        ] {
            assert_eq!(KeyDecoder::default().decode(bytes), [expected], "{bytes:?}");
        }
    }

    #[test]
    fn a_key_may_arrive_in_several_parts() {
        let mut decoder = KeyDecoder::default();
        assert_eq!(decoder.decode(b"\x1b"), []);
        assert!(decoder.is_pending());
        assert_eq!(decoder.decode(b"[5"), []);
        assert_eq!(decoder.decode(b"~q"), [Key::PageUp, Key::Char('q')]);
        assert_eq!(decoder.decode(b"\x1b"), []);
        assert_eq!(decoder.end(), Some(Key::Escape));
        assert!(!decoder.is_pending());
    }

    #[test]
    fn unknown_sequences_and_invalid_bytes_are_dropped() {
        let mut decoder = KeyDecoder::default();
        assert_eq!(decoder.decode(b"\x1b[200~\xffx\x1c"), [Key::Char('x')]);
        assert_eq!(decoder.decode(b"\x1b[11111111111111111111"), []);
        assert!(!decoder.is_pending());
    }
}
