//! `-F json`: one document, valid JSON for any content of names, environments and comments.
//!
//! The document has PBS's layout: a TAB per level, `"key":<TAB>value`. A value is a number only if
//! its attribute has a numeric type. The caller has replaced invalid UTF-8 by U+FFFD.

use crate::model::time::Wall;
use crate::shown::attributes::{AttributeDisplay, Attributes, ShownAttribute};
use crate::shown::timestamp;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Write};

/// The approximate size in bytes of the pieces in which a list is written.
const PIECE: usize = 1 << 16;

/// The first keys of every document.
#[derive(Clone, Debug)]
pub struct Preamble<'a> {
    /// The time of creation.
    pub timestamp: Wall,
    /// Lanai's version.
    pub version: &'a str,
    /// The server's name.
    pub server: &'a str,
}

/// A document that is being written.
#[derive(Debug)]
pub struct Document {
    out: Vec<u8>,
    /// An entry for each open brace: true if a key has been written after the brace.
    open: Vec<bool>,
}

impl Document {
    /// Begins a document.
    pub fn begin(preamble: &Preamble) -> Document {
        let mut document = Document {
            out: Vec::new(),
            open: Vec::new(),
        };
        document.open_brace();
        document.key("timestamp");
        document.number(preamble.timestamp.0);
        document.key("pbs_version");
        document.string(preamble.version);
        document.key("pbs_server");
        document.string(preamble.server);
        document
    }

    /// Adds a top-level key with its value.
    pub fn add_value(&mut self, name: &str, data: &Value) {
        self.close_to(1);
        self.key(name);
        self.data(data);
    }

    /// Adds a top-level list. Full pieces are written to `to`, so that memory use stays small; the
    /// next [`Document::take`] or [`Document::end`] returns the rest.
    pub fn list(
        &mut self,
        name: &str,
        items: impl Iterator<Item = Value>,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        self.close_to(1);
        self.key(name);
        self.out.push(b'[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.data(&item);
            if self.out.len() >= PIECE {
                to.write_all(&self.take())?;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    /// Adds an object with the key `id` to a section such as `Jobs`. Consecutive calls must name
    /// the same section. A section without objects is omitted, because PBS's clients expect this
    /// for an empty result.
    pub fn add_object(&mut self, section: &str, id: &str, attributes: &Attributes) {
        if self.open.len() == 1 {
            self.key(section);
            self.open_brace();
        }
        self.key(id);
        self.object(&attributes.0);
    }

    /// Returns the output written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Ends the document and returns the output written since the last [`Document::take`].
    pub fn end(mut self) -> Vec<u8> {
        self.close_to(0);
        self.out.push(b'\n');
        self.out
    }

    fn close_to(&mut self, level: usize) {
        while self.open.len() > level {
            self.close_brace();
        }
    }

    /// Writes attributes. Adjacent attributes with the same name and a resource become one object
    /// with the resources as keys.
    fn object(&mut self, attributes: &[ShownAttribute]) {
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

    fn resources(&mut self, group: &[ShownAttribute]) {
        self.open_brace();
        for attribute in group {
            self.key(attribute.resource.unwrap_or_default());
            self.value(&attribute.shown);
        }
        self.close_brace();
    }

    fn value(&mut self, shown: &AttributeDisplay) {
        match shown {
            AttributeDisplay::Text(text) => self.string(text),
            AttributeDisplay::Number(number) => self.number(*number),
            AttributeDisplay::Real(number) => self.data(&Value::from(*number)),
            AttributeDisplay::Moment(wall) => self.string(&timestamp::ctime(*wall).to_string()),
            AttributeDisplay::Pairs(pairs) => self.pairs(pairs),
            AttributeDisplay::List(list) => self.data(&Value::from(list.as_slice())),
            AttributeDisplay::Data(data) => self.data(data),
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
        let follows = self
            .open
            .last_mut()
            .is_some_and(|filled| std::mem::replace(filled, true));
        if follows {
            self.out.push(b',');
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
        serde_json::to_writer(&mut self.out, text)
            .expect("a string can always be written to memory as JSON");
    }

    fn data(&mut self, data: &Value) {
        serde_json::to_writer(&mut self.out, data)
            .expect("a JSON value can always be written to memory as JSON");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::example::{self, NOW};
    use crate::shown::{attributes, job_json};
    use proptest::prelude::*;
    use serde_json::Value as Json;

    const PREAMBLE: Preamble = Preamble {
        timestamp: NOW,
        version: "23.06.06",
        server: "head",
    };

    fn document<'a>(things: Vec<(String, Attributes<'a>)>) -> String {
        let mut document = Document::begin(&PREAMBLE);
        for (id, attributes) in &things {
            document.add_object("Jobs", id, attributes);
        }
        String::from_utf8(document.end()).unwrap()
    }

    #[test]
    fn a_document_has_the_layout_of_pbs() {
        let mut attributes = Attributes::default();
        attributes.text("Job_Name", "123");
        attributes.resource(
            "Resource_List",
            "mem",
            &crate::model::resource::ResourceValue::String("8gb".into()),
        );
        attributes.resource(
            "Resource_List",
            "ncpus",
            &crate::model::resource::ResourceValue::Long(4),
        );
        attributes.number("Priority", -3);
        attributes.add(
            "Variable_List",
            AttributeDisplay::Pairs(vec![("N".into(), "4".into()), ("E".into(), "".into())]),
        );
        let expected = "{\n\t\"timestamp\":\t1700000300,\n\t\"pbs_version\":\t\"23.06.06\",\n\t\"pbs_server\":\t\"head\",\n\
            \t\"Jobs\":\t{\n\t\t\"1.head\":\t{\n\t\t\t\"Job_Name\":\t\"123\",\n\
            \t\t\t\"Resource_List\":\t{\n\t\t\t\t\"mem\":\t\"8gb\",\n\t\t\t\t\"ncpus\":\t4\n\t\t\t},\n\
            \t\t\t\"Priority\":\t-3,\n\
            \t\t\t\"Variable_List\":\t{\n\t\t\t\t\"N\":\t\"4\",\n\t\t\t\t\"E\":\t\"\"\n\t\t\t}\n\t\t}\n\t}\n}\n";
        assert_eq!(document(vec![("1.head".into(), attributes)]), expected);
    }

    #[test]
    fn a_document_in_pieces_is_the_same_document() {
        let attributes = |number: i64| {
            let mut attributes = Attributes::default();
            attributes.number("Priority", number);
            attributes
        };
        let mut pieces = Document::begin(&PREAMBLE);
        let mut text = pieces.take();
        for number in [1, 2] {
            pieces.add_object("Jobs", &format!("{number}.head"), &attributes(number));
            text.extend(pieces.take());
        }
        text.extend(pieces.end());
        let whole = document(vec![
            ("1.head".into(), attributes(1)),
            ("2.head".into(), attributes(2)),
        ]);
        assert_eq!(String::from_utf8(text).unwrap(), whole);
    }

    #[test]
    fn a_list_in_pieces_is_the_same_list() {
        let items: Vec<Json> = (0..20_000).map(Json::from).collect();
        let mut whole = Document::begin(&PREAMBLE);
        whole.add_value("Numbers", &items.clone().into());
        let (mut pieces, mut text) = (Document::begin(&PREAMBLE), Vec::new());
        pieces
            .list("Numbers", items.into_iter(), &mut text)
            .unwrap();
        assert!(text.len() > PIECE, "a part is already written");
        text.extend(pieces.end());
        assert_eq!(text, whole.end());
    }

    #[test]
    fn an_empty_section_is_omitted() {
        let expected = "{\n\t\"timestamp\":\t1700000300,\n\t\"pbs_version\":\t\"23.06.06\",\n\t\"pbs_server\":\t\"head\"\n}\n";
        assert_eq!(document(vec![]), expected);
    }

    /// Names and values of variables: any bytes that the kernel accepts.
    fn entry() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let byte = prop::num::u8::ANY;
        let name = prop::collection::vec(
            byte.prop_filter("no name byte", |b| *b != 0 && *b != b'='),
            1..8,
        );
        (
            name,
            prop::collection::vec(byte.prop_filter("ends the value", |b| *b != 0), 0..40),
        )
    }

    proptest! {
        #[test]
        fn any_name_environment_and_comment_reads_back_unchanged(
            name in "\\PC*", comment in any::<String>(), arguments in prop::collection::vec(any::<u8>(), 0..40),
            entries in prop::collection::vec(entry(), 0..6),
        ) {
            let mut record = example::with(example::queued(1, &name, "ncpus=1"), |spec| {
                spec.arguments = arguments.clone().into();
            });
            record.job.life.comment = Some(comment.clone());
            let environ = entries.iter().flat_map(|(name, value)| [&name[..], b"=", value, b"\0"].concat());
            record.environ = Some(environ.collect());
            let server = example::server();
            let text = document(vec![("1.head".into(), attributes::of_job(&record, &server))]);
            let read: Json = serde_json::from_str(&text).unwrap();
            let job = &read["Jobs"]["1.head"];
            prop_assert_eq!(job["Job_Name"].as_str(), Some(name.as_str()));
            prop_assert_eq!(job["comment"].as_str(), Some(comment.as_str()));
            prop_assert_eq!(job["Submit_arguments"].as_str(), Some(&*String::from_utf8_lossy(&arguments)));
            let last: std::collections::BTreeMap<_, _> = entries
                .iter()
                .map(|(name, value)| (String::from_utf8_lossy(name), String::from_utf8_lossy(value)))
                .collect();
            for (name, value) in last {
                prop_assert_eq!(job["Variable_List"][&*name].as_str(), Some(&*value));
            }
        }
    }

    #[test]
    fn hooks_receive_a_job_as_qstat_shows_it() {
        let server = example::server();
        let mut record = example::queued(1, "a", "select=2:ncpus=4 walltime=60");
        record.environ = Some(b"A=1\0B=x,y\0".to_vec());
        let attributes = attributes::of_job(&record, &server);
        let mut document = Document::begin(&PREAMBLE);
        document.add_object("Jobs", "1.head", &attributes);
        let document: Json = serde_json::from_slice(&document.end()).unwrap();
        let job = Json::Object(job_json::of(&attributes));
        assert_eq!(job, document["Jobs"]["1.head"]);
        assert_eq!(job["Variable_List"]["B"], "x,y");
    }
}
