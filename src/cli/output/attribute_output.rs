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
pub enum Format {
    /// One attribute a line.
    Text(Lines),
    /// One thing a line, its attributes set apart by this.
    Dsv(String),
    /// One document.
    Json,
}

/// What has been written and not yet taken, and where it stands.
#[derive(Debug)]
pub struct Sheet {
    section: &'static str,
    text: String,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Text(Lines),
    Dsv(String),
    Json(Document),
}

impl Sheet {
    /// Begins with nothing on it. `section` is what JSON calls such things: `Jobs`, `Queue`,
    /// `Server`.
    pub fn begin(section: &'static str, format: &Format, preamble: &Preamble) -> Sheet {
        let form = match format {
            Format::Text(lines) => Form::Text(*lines),
            Format::Dsv(delimiter) => Form::Dsv(delimiter.clone()),
            Format::Json => Form::Json(Document::begin(preamble)),
        };
        Sheet {
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
            Form::Text(lines) => full::write(&mut self.text, heading, id, attributes, *lines),
            Form::Dsv(delimiter) => dsv::write(
                &mut self.text,
                &format!("{heading}: "),
                id,
                attributes,
                delimiter,
            ),
            Form::Json(document) => document.thing(self.section, id, attributes),
        }
    }

    /// Takes what has been written so far.
    pub fn take(&mut self) -> Vec<u8> {
        match &mut self.form {
            Form::Json(document) => document.take(),
            Form::Text(_) | Form::Dsv(_) => std::mem::take(&mut self.text).into_bytes(),
        }
    }

    /// Ends it: what has not been taken yet.
    pub fn end(self) -> Vec<u8> {
        match self.form {
            Form::Json(document) => document.end(),
            Form::Text(_) | Form::Dsv(_) => self.text.into_bytes(),
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
pub fn without_server(format: &Format, now: Wall) -> Vec<u8> {
    let server = &source::name_of_silent();
    match format {
        Format::Json => Document::begin(&Preamble {
            timestamp: now,
            version: env!("CARGO_PKG_VERSION"),
            server,
        })
        .end(),
        Format::Text(_) | Format::Dsv(_) => Vec::new(),
    }
}
