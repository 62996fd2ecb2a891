//! `-F json`: one valid document, whatever names, environments and comments hold.
//!
//! Layout as PBS's: a TAB per level, `"key":<TAB>value`. A value is a number only if its attribute
//! is one by type. Text that is no UTF-8 has become U+FFFD before it gets here.

use super::attributes::{Attribute, Attributes, Shown};
use super::when;
use crate::model::time::Wall;
use std::borrow::Cow;

/// What every document begins with.
#[derive(Clone, Debug)]
pub struct Preamble<'a> {
    /// When it was made.
    pub timestamp: Wall,
    /// Lanai's version.
    pub version: &'a str,
    /// The server's name.
    pub server: &'a str,
}

/// A document in the making.
#[derive(Debug)]
pub struct Document {
    out: Vec<u8>,
    /// For each level that is open, whether something stands in it.
    open: Vec<bool>,
}

impl Document {
    /// Begins a document.
    pub fn begin(preamble: &Preamble) -> Document {
        let mut document = Document { out: Vec::new(), open: Vec::new() };
        document.open_brace();
        document.key("timestamp");
        document.number(preamble.timestamp.0);
        document.key("pbs_version");
        document.string(preamble.version);
        document.key("pbs_server");
        document.string(preamble.server);
        document
    }

    /// Adds an object of things, as `Jobs`: each under its id. Nothing is added if there is none,
    /// so that PBS's clients see that nothing was found.
    pub fn section<'a>(&mut self, name: &str, things: impl Iterator<Item = (String, Attributes<'a>)>) {
        let mut things = things.peekable();
        if things.peek().is_none() {
            return;
        }
        self.key(name);
        self.open_brace();
        for (id, attributes) in things {
            self.key(&id);
            self.object(&attributes.0);
        }
        self.close_brace();
    }

    /// The document.
    pub fn end(mut self) -> Vec<u8> {
        self.close_brace();
        self.out.push(b'\n');
        self.out
    }

    /// Attributes of one name that stand together become one object of their resources.
    fn object(&mut self, attributes: &[Attribute]) {
        self.open_brace();
        for group in attributes.chunk_by(|a, b| a.name == b.name && a.resource.is_some()) {
            self.key(group[0].name);
            match group[0].resource {
                None => self.value(&group[0].shown),
                Some(_) => self.resources(group),
            }
        }
        self.close_brace();
    }

    fn resources(&mut self, group: &[Attribute]) {
        self.open_brace();
        for attribute in group {
            self.key(attribute.resource.unwrap_or_default());
            self.value(&attribute.shown);
        }
        self.close_brace();
    }

    fn value(&mut self, shown: &Shown) {
        match shown {
            Shown::Text(text) => self.string(text),
            Shown::Number(number) => self.number(*number),
            Shown::Real(number) => self.data(&serde_json::Value::from(*number)),
            Shown::Moment(wall) => self.string(&when::ctime(*wall).to_string()),
            Shown::Pairs(pairs) => self.pairs(pairs),
            Shown::List(list) => self.data(&serde_json::Value::from(list.as_slice())),
            Shown::Data(data) => self.data(data),
        }
    }

    fn pairs(&mut self, pairs: &[(Cow<str>, Cow<str>)]) {
        self.open_brace();
        for (name, value) in pairs {
            self.key(name);
            self.string(value);
        }
        self.close_brace();
    }

    fn open_brace(&mut self) {
        self.out.push(b'{');
        self.open.push(false);
    }

    fn close_brace(&mut self) {
        if self.open.pop() == Some(true) {
            self.new_line();
        }
        self.out.push(b'}');
    }

    fn key(&mut self, name: &str) {
        if let Some(filled) = self.open.last_mut() {
            if std::mem::replace(filled, true) {
                self.out.push(b',');
            }
        }
        self.new_line();
        self.string(name);
        self.out.extend(b":\t");
    }

    fn new_line(&mut self) {
        self.out.push(b'\n');
        self.out.resize(self.out.len() + self.open.len(), b'\t');
    }

    fn number(&mut self, number: i64) {
        self.out.extend(number.to_string().into_bytes());
    }

    fn string(&mut self, text: &str) {
        serde_json::to_writer(&mut self.out, text).expect("a string always has a JSON form, and memory takes it");
    }

    fn data(&mut self, data: &serde_json::Value) {
        serde_json::to_writer(&mut self.out, data).expect("a JSON value always has a JSON form, and memory takes it");
    }
}
