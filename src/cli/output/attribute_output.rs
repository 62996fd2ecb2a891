//! Objects with all their attributes - jobs, queues, the server - in each format of `qstat -f`,
//! written incrementally.

use super::dsv;
use super::full::{self, Lines};
use super::json::{Document, Preamble};
use crate::cli::client::source;
use crate::model::time::Wall;
use crate::shown::attributes::Attributes;
use crate::wire::message::ServerFacts;

/// The output format of attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeFormat {
    /// One attribute per line.
    Text(Lines),
    /// One object per line, with this delimiter between attributes.
    Dsv(String),
    /// One JSON document.
    Json,
}

/// Writes objects, and keeps the output until [`AttributeWriter::take`] returns it.
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
    /// Starts an empty output. `section` is the JSON key of the objects: `Jobs`, `Queue`, `Server`.
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

    /// Adds an object.
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
            WriterState::Json(document) => document.add_object(self.section, id, attributes),
        }
    }

    /// Returns the output written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        match &mut self.form {
            WriterState::Json(document) => document.take(),
            WriterState::Text(_) | WriterState::Dsv(_) => {
                std::mem::take(&mut self.text).into_bytes()
            }
        }
    }

    /// Ends the output and returns what was written since the last [`AttributeWriter::take`].
    pub fn end(self) -> Vec<u8> {
        match self.form {
            WriterState::Json(document) => document.end(),
            WriterState::Text(_) | WriterState::Dsv(_) => self.text.into_bytes(),
        }
    }
}

/// The preamble of a document from this server.
pub fn preamble(server: &ServerFacts, now: Wall) -> Preamble<'_> {
    Preamble {
        timestamp: now,
        version: &server.version,
        server: &server.name,
    }
}

/// The output if no server answers: a JSON document without objects; nothing in other formats.
pub fn without_server(format: &AttributeFormat, now: Wall) -> Vec<u8> {
    let server = &source::configured_server_name();
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
