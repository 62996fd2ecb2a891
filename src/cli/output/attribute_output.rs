//! Things with all their attributes - jobs, queues, the server - in each format of `qstat -f`,
//! written as they come.

use super::dsv;
use super::full::{self, Lines};
use super::json::{Document, Preamble};
use crate::cli::client::source;
use crate::model::time::Wall;
use crate::shown::attributes::Attributes;
use crate::wire::message::ServerFacts;

/// How attributes are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeFormat {
    /// One attribute a line.
    Text(Lines),
    /// One thing a line, its attributes set apart by this.
    Dsv(String),
    /// One document.
    Json,
}

/// What has been written and not yet taken, and where it stands.
#[derive(Debug)]
pub struct AttributeWriter {
    section: &'static str,
    text: String,
    form: WriterState,
}

#[derive(Debug)]
enum WriterState {
    Text(Lines),
    Dsv(String),
    Json(Document),
}

impl AttributeWriter {
    /// Begins with nothing on it. `section` is what JSON calls such things: `Jobs`, `Queue`,
    /// `Server`.
    pub fn begin(
        section: &'static str,
        format: &AttributeFormat,
        preamble: &Preamble,
    ) -> AttributeWriter {
        let form = match format {
            AttributeFormat::Text(lines) => WriterState::Text(*lines),
            AttributeFormat::Dsv(delimiter) => WriterState::Dsv(delimiter.clone()),
            AttributeFormat::Json => WriterState::Json(Document::begin(preamble)),
        };
        AttributeWriter {
            section,
            text: String::new(),
            form,
        }
    }

    /// Adds a thing.
    pub fn add(&mut self, id: &str, attributes: &Attributes) {
        let heading = if self.section == "Jobs" {
            "Job Id"
        } else {
            self.section
        };
        match &mut self.form {
            WriterState::Text(lines) => {
                full::write(&mut self.text, heading, id, attributes, *lines)
            }
            WriterState::Dsv(delimiter) => dsv::write(
                &mut self.text,
                &format!("{heading}: "),
                id,
                attributes,
                delimiter,
            ),
            WriterState::Json(document) => document.thing(self.section, id, attributes),
        }
    }

    /// Takes what has been written so far.
    pub fn take(&mut self) -> Vec<u8> {
        match &mut self.form {
            WriterState::Json(document) => document.take(),
            WriterState::Text(_) | WriterState::Dsv(_) => {
                std::mem::take(&mut self.text).into_bytes()
            }
        }
    }

    /// Ends it: what has not been taken yet.
    pub fn end(self) -> Vec<u8> {
        match self.form {
            WriterState::Json(document) => document.end(),
            WriterState::Text(_) | WriterState::Dsv(_) => self.text.into_bytes(),
        }
    }
}

/// What a document begins with that this server answers.
pub fn preamble(server: &ServerFacts, now: Wall) -> Preamble<'_> {
    Preamble {
        timestamp: now,
        version: &server.version,
        server: &server.name,
    }
}

/// What is shown where no server answers: in JSON a document all the same.
pub fn without_server(format: &AttributeFormat, now: Wall) -> Vec<u8> {
    let server = &source::name_of_silent();
    match format {
        AttributeFormat::Json => Document::begin(&Preamble {
            timestamp: now,
            version: env!("CARGO_PKG_VERSION"),
            server,
        })
        .end(),
        AttributeFormat::Text(_) | AttributeFormat::Dsv(_) => Vec::new(),
    }
}
