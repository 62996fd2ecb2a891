//! `import hook` copies a file; the copy becomes the program of a hook. `export hook` prints the
//! program or writes it to a file.

use super::grammar::{Command, CommandWord};
use super::{Session, exit};
use crate::cli::client::exit::Failure;
use crate::cli::client::job_batch::Server;
use crate::model::refusal::Refusal;
use crate::sys::user;
use crate::wire::message::{ClientRequest, Reply, ServerFacts};
use std::fs;
use std::io;
use std::path::Path;

/// The content type of a hook's program.
const KIND: &str = "application/x-executable";
/// The encoding of a hook's program.
const ENCODING: &str = "default";

/// The error message for PBS's Python hooks.
const NO_PYTHON: &str = "hooks of Lanai are programs, in any language, that read and write JSON: \
                         see [[hook]] in lanai.toml(5), and import them as application/x-executable";

/// The exit status for errors that qmgr itself detects.
const WRONG: u8 = 1;

impl Session<'_> {
    /// Imports or exports the program of a hook.
    pub(super) fn transfer(&mut self, command: &Command) -> Result<u8, Failure> {
        let words: Vec<&str> = command.rest.split_whitespace().collect();
        let ([name], [kind, encoding, file @ ..]) = (&command.names[..], &words[..]) else {
            return Ok(self.wrong("qmgr: use NAME application/x-executable default FILE\n"));
        };
        let file = if !file.is_empty() {
            command
                .rest
                .rsplit_once(encoding)
                .map(|(_, rest)| rest.trim())
        } else {
            None
        };
        let file = file.map(|file| file.trim_matches(['"', '\'']));
        match command.word {
            CommandWord::Import => self.import(name, (kind, encoding), file.unwrap_or_default()),
            _ => self.export(name, (kind, encoding), file),
        }
    }

    fn import(&mut self, name: &str, form: (&str, &str), file: &str) -> Result<u8, Failure> {
        let content = match fs::read(file) {
            Ok(content) => content,
            Err(error) => return Ok(self.wrong(&format!("{file} - {}\n", error_text(&error)))),
        };
        if let Err(wrong) = check(form) {
            return Ok(self.wrong(&wrong));
        }
        match self.schedd.call(&ClientRequest::ImportHook {
            name: name.to_string(),
            content,
        })? {
            Reply::Done => Ok(0),
            Reply::Noted(notes) => {
                exit::print_notes("qmgr", &notes);
                Ok(0)
            }
            Reply::Refused(refusal) => {
                self.report_refusal(name, &refusal);
                Ok(refusal.exit_code())
            }
            _ => Err(exit::protocol_error()),
        }
    }

    fn export(
        &mut self,
        name: &str,
        form: (&str, &str),
        file: Option<&str>,
    ) -> Result<u8, Failure> {
        if let Err(wrong) = check(form) {
            return Ok(self.wrong(&wrong));
        }
        let view = self.view()?;
        let Some(program) = view.program(name) else {
            let refusal = Refusal::no_hook(name);
            self.report_refusal(name, &refusal);
            return Ok(refusal.exit_code());
        };
        let content = match fs::read(&program) {
            Ok(content) => content,
            Err(error) => return Ok(self.wrong(&format!("{program} - {}\n", error_text(&error)))),
        };
        match file {
            None => exit::print(content)?,
            Some(file) => {
                if let Err(error) = fs::write(Path::new(file), content) {
                    return Ok(self.wrong(&format!("{file} - {}\n", error_text(&error))));
                }
            }
        }
        Ok(0)
    }

    /// Prints PBS's message for users without the right to access hooks. Returns the exit status.
    pub(super) fn not_for_hooks(&self, server: &ServerFacts) -> u8 {
        let who = format!("{}@{}", user::own().name, server.host);
        self.complain(&format!("{}\n", Refusal::not_for_hooks(&who, &server.name)));
        0
    }

    /// Prints an error message. Returns the exit status.
    fn wrong(&self, message: &str) -> u8 {
        self.complain(message);
        WRONG
    }
}

/// Checks the content type and the encoding.
fn check((kind, encoding): (&str, &str)) -> Result<(), String> {
    match (kind, encoding) {
        (KIND, ENCODING) => Ok(()),
        ("application/x-python", _) => Err(format!("qmgr: {NO_PYTHON}\n")),
        (KIND, _) => Err(format!(
            "qmgr: unknown encoding {encoding}: use {ENCODING}, which leaves the file unchanged\n"
        )),
        _ => Err(format!("qmgr: unknown content type {kind}: use {KIND}\n")),
    }
}

/// The C library's text for an error.
fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}
