//! The grammar of qmgr's commands: `set queue gpu,cpu enabled = True, max_run =
//! "[u:PBS_GENERIC=4]"`.

use crate::config::overrides::attributes::known;
use crate::config::overrides::command::{Edit, Op};
use crate::config::overrides::{AttributeKey, QmgrObject};
use crate::model::limit::pbs;

/// The verb of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandWord {
    Create,
    Delete,
    Set,
    Unset,
    List,
    Print,
    Active,
    Import,
    Export,
    Help,
    Quit,
    History,
}

/// The verbs. A prefix selects the first verb that begins with the prefix.
const WORDS: [(&str, CommandWord); 13] = [
    ("create", CommandWord::Create),
    ("delete", CommandWord::Delete),
    ("set", CommandWord::Set),
    ("unset", CommandWord::Unset),
    ("list", CommandWord::List),
    ("print", CommandWord::Print),
    ("active", CommandWord::Active),
    ("import", CommandWord::Import),
    ("export", CommandWord::Export),
    ("help", CommandWord::Help),
    ("quit", CommandWord::Quit),
    ("exit", CommandWord::Quit),
    ("history", CommandWord::History),
];

/// A type of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    Server,
    Queue,
    Node,
    Resource,
    Sched,
    Hook,
}

/// The kinds of objects. A prefix selects the first kind that begins with the prefix. The plural is
/// also accepted.
const OBJECTS: [(&str, ObjectKind); 7] = [
    ("server", ObjectKind::Server),
    ("queue", ObjectKind::Queue),
    ("node", ObjectKind::Node),
    ("resource", ObjectKind::Resource),
    ("sched", ObjectKind::Sched),
    ("hook", ObjectKind::Hook),
    ("pbshook", ObjectKind::Hook),
];

impl ObjectKind {
    /// The name in commands. The output of `list` shows it with a capital first letter.
    pub fn name(self) -> &'static str {
        OBJECTS
            .iter()
            .find(|(_, object)| *object == self)
            .map_or("", |(name, _)| name)
    }

    /// The object of this kind with this name.
    pub fn target(self, name: &str) -> QmgrObject {
        let name = name.to_string();
        match self {
            ObjectKind::Server => QmgrObject::Server,
            ObjectKind::Hook => QmgrObject::Hook(name),
            ObjectKind::Sched => QmgrObject::Sched,
            ObjectKind::Queue => QmgrObject::Queue(name),
            ObjectKind::Node => QmgrObject::Node(name),
            ObjectKind::Resource => QmgrObject::Resource(name),
        }
    }
}

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub word: CommandWord,
    /// The kind of object; None for `quit`, `help` and `history`.
    pub object: Option<ObjectKind>,
    /// The names of the objects; empty for the active objects.
    pub names: Vec<String>,
    /// The attributes to set, with their values. For other verbs, the attributes to display or to
    /// unset, with empty values.
    pub edits: Vec<Edit>,
    /// The topic of `help`; for `import` and `export` the text after the name.
    pub rest: String,
}

/// A syntax error of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrammarError {
    /// The character position of the error.
    Syntax(usize),
    /// An unknown verb; empty if the command is empty.
    Operation(String),
    /// The kind of object is missing.
    NoObject,
    /// An unknown kind of object.
    Object(String),
}

/// Parses a command.
pub fn read(text: &str) -> Result<Command, GrammarError> {
    let mut reader = CommandParser { text, at: 0 };
    let word = reader.word();
    let known = WORDS
        .iter()
        .find(|(name, _)| name.starts_with(&*word.to_ascii_lowercase()) && !word.is_empty());
    let Some(&(_, verb)) = known else {
        return Err(GrammarError::Operation(word.to_string()));
    };
    let none = Command {
        word: verb,
        object: None,
        names: Vec::new(),
        edits: Vec::new(),
        rest: String::new(),
    };
    if matches!(
        verb,
        CommandWord::Help | CommandWord::Quit | CommandWord::History
    ) {
        return Ok(Command {
            rest: reader.rest().to_string(),
            ..none
        });
    }
    let object = reader.object()?;
    let names = reader.names(verb, object)?;
    let edits = match verb {
        CommandWord::Import | CommandWord::Export => {
            let rest = reader.rest().to_string();
            return Ok(Command {
                object: Some(object),
                names,
                rest,
                ..none
            });
        }
        CommandWord::Create | CommandWord::Set => reader.settings(object)?,
        CommandWord::Delete | CommandWord::Active if !reader.rest().is_empty() => {
            return Err(reader.fault());
        }
        _ => reader.attributes(object, verb)?,
    };
    let is_empty = edits.is_empty() && matches!(verb, CommandWord::Set | CommandWord::Unset);
    if is_empty {
        return Err(GrammarError::Syntax(text.len()));
    }
    Ok(Command {
        object: Some(object),
        names,
        edits,
        ..none
    })
}

const QUOTES: [char; 2] = ['"', '\''];

/// A position in a command.
struct CommandParser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> CommandParser<'t> {
    /// A syntax error at the current position.
    fn fault(&self) -> GrammarError {
        GrammarError::Syntax(self.text[..self.at].chars().count())
    }

    /// Skips blanks, and returns the text that has not been parsed.
    fn rest(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }

    /// Parses the text up to a character for which `ends` is true.
    fn until(&mut self, ends: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(ends).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn word(&mut self) -> &'t str {
        self.until(char::is_whitespace)
    }

    /// Skips `what`. False if the text does not continue with `what`.
    fn skip(&mut self, what: &str) -> bool {
        let is_there = self.rest().starts_with(what);
        self.at += if is_there { what.len() } else { 0 };
        is_there
    }

    fn object(&mut self) -> Result<ObjectKind, GrammarError> {
        let word = self.until(|c| c.is_whitespace() || c == '@');
        let name = word.to_ascii_lowercase();
        let known = OBJECTS
            .iter()
            .find(|(known, _)| known.starts_with(&*name) || name == format!("{known}s"));
        match known {
            _ if word.is_empty() => Err(GrammarError::NoObject),
            Some((_, object)) => Ok(*object),
            None => Err(GrammarError::Object(word.to_string())),
        }
    }

    /// Parses the names of objects. Returns no names if an operator follows the next word (in `set`
    /// and `create`), or if the object is the server or the scheduler and the next word is one of
    /// its attributes.
    fn names(
        &mut self,
        verb: CommandWord,
        object: ObjectKind,
    ) -> Result<Vec<String>, GrammarError> {
        let start = self.at;
        let word = self.until(|c| c.is_whitespace() || "=+".contains(c));
        let takes_values = matches!(verb, CommandWord::Set | CommandWord::Create);
        let is_value = takes_values
            && ["=", "+=", "-="]
                .iter()
                .any(|op| self.rest().starts_with(op));
        let attribute = word.split([',', '.']).next().unwrap_or_default();
        let is_attribute = match object {
            ObjectKind::Server | ObjectKind::Sched => {
                known(&object.target(""), attribute).is_some() || is_value
            }
            _ => is_value,
        };
        if word.is_empty() || is_attribute {
            self.at = start;
            return Ok(Vec::new());
        }
        let mut all = word.to_string();
        while all.ends_with(',') || self.rest().starts_with(',') {
            self.skip(",");
            let more = self.word();
            if more.is_empty() {
                return Err(self.fault());
            }
            all = format!("{},{more}", all.trim_end_matches(','));
        }
        Ok(all
            .split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_string)
            .collect())
    }

    /// Parses `attribute[.resource] op value` entries, separated by commas.
    fn settings(&mut self, object: ObjectKind) -> Result<Vec<Edit>, GrammarError> {
        let mut edits = Vec::new();
        while !self.rest().is_empty() {
            let key = self.key()?;
            let op = self.op()?;
            let at = {
                self.rest();
                self.at
            };
            let value = self.value(&key, object)?;
            check(object, &key, &value, &self.text[at..])
                .map_err(|offset| self.fault_at(at + offset))?;
            edits.push(Edit { key, op, value });
            if !self.skip(",") && !self.rest().is_empty() {
                return Err(self.fault());
            }
        }
        Ok(edits)
    }

    /// A syntax error at this byte position.
    fn fault_at(&self, at: usize) -> GrammarError {
        GrammarError::Syntax(self.text.get(..at).unwrap_or(self.text).chars().count())
    }

    /// Parses names of attributes, separated by commas.
    fn attributes(
        &mut self,
        object: ObjectKind,
        verb: CommandWord,
    ) -> Result<Vec<Edit>, GrammarError> {
        let mut edits = Vec::new();
        while !self.rest().is_empty() {
            let at = self.at;
            let key = self.key()?;
            let is_known = known(&object.target(""), &key.attribute).is_some();
            if verb == CommandWord::Unset && object == ObjectKind::Server && !is_known {
                return Err(self.fault_at(at));
            }
            edits.push(Edit {
                key,
                op: Op::Set,
                value: String::new(),
            });
            if !self.skip(",") && !self.rest().is_empty() {
                return Err(self.fault());
            }
        }
        Ok(edits)
    }

    fn key(&mut self) -> Result<AttributeKey, GrammarError> {
        let word = self.until(|c| c.is_whitespace() || ",=".contains(c));
        let name = word.trim_end_matches(['+', '-']);
        self.at -= word.len() - name.len();
        if name.is_empty() {
            return Err(self.fault());
        }
        let (attribute, resource) = match name.split_once('.') {
            Some((attribute, resource)) => (attribute, Some(resource.to_string())),
            None => (name, None),
        };
        Ok(AttributeKey {
            attribute: attribute.to_string(),
            resource,
        })
    }

    fn op(&mut self) -> Result<Op, GrammarError> {
        let ops = [("+=", Op::Add), ("-=", Op::Remove), ("=", Op::Set)];
        let known = ops
            .into_iter()
            .find(|(sign, _)| self.skip(sign))
            .map(|(_, op)| op);
        known.ok_or_else(|| self.fault())
    }

    /// Parses adjacent quoted pieces as one value.
    fn quoted(&mut self) -> Result<String, GrammarError> {
        let mut value = String::new();
        while let Some(quote) = self.text[self.at..]
            .chars()
            .next()
            .filter(|c| QUOTES.contains(c))
        {
            let rest = &self.text[self.at + 1..];
            let Some(length) = rest.find(quote) else {
                self.at = self.text.len();
                return Err(self.fault());
            };
            value.push_str(&rest[..length]);
            self.at += length + 2;
        }
        Ok(value)
    }

    /// Parses a value: in quotes, or up to a comma or blank. Entries of a limit continue after
    /// commas.
    fn value(&mut self, key: &AttributeKey, object: ObjectKind) -> Result<String, GrammarError> {
        if self.rest().starts_with(QUOTES) {
            return self.quoted();
        }
        if known(&object.target(""), &key.attribute).is_some_and(|known| known.is_limit) {
            return Ok(self.entries());
        }
        let value = self.until(|c| c.is_whitespace() || c == ',').to_string();
        if value.is_empty() {
            Err(self.fault())
        } else {
            Ok(value)
        }
    }

    /// Parses the entries of a limit, up to a comma or blank that is not followed by an entry.
    fn entries(&mut self) -> String {
        let rest = self.rest();
        let mut length = 0;
        for (place, c) in rest.char_indices() {
            let continues = c != ',' || rest[place + 1..].trim_start().starts_with('[');
            if !continues || (c.is_whitespace() && !rest[place..].trim_start().starts_with('[')) {
                break;
            }
            length = place + c.len_utf8();
        }
        self.at += length;
        rest[..length].to_string()
    }
}

/// Detects errors that PBS's `qmgr` reports before it sends a request: unknown attributes of the
/// server, and malformed limits. The error is an offset in `text`. `text` begins with the value and
/// extends to the end of the command.
fn check(object: ObjectKind, key: &AttributeKey, value: &str, text: &str) -> Result<(), usize> {
    let known = known(&object.target(""), &key.attribute);
    let is_unknown = object == ObjectKind::Server && known.is_none();
    let is_limit = known.is_some_and(|known| known.is_limit);
    if !is_unknown && (!is_limit || pbs::parse(value).is_some()) {
        return Ok(());
    }
    // PBS reports offset 5 instead of 0 if the value begins with an overall entry (`[o:`).
    let is_owner = text.trim_start_matches(['"', '\'']).starts_with("[o:");
    Err(if is_owner { 5 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        let command = read(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        let edit = |edit: &Edit| format!("{} {:?} {}", edit.key, edit.op, edit.value);
        let edits: Vec<String> = command.edits.iter().map(edit).collect();
        format!(
            "{:?} {:?} {} | {}",
            command.word,
            command.object,
            command.names.join("+"),
            edits.join("; ")
        )
    }

    #[test]
    fn words_of_commands_may_be_abbreviated() {
        assert_eq!(parsed("s q q9 e=t"), "Set Some(Queue) q9 | e Set t");
        assert_eq!(parsed("c n n1"), "Create Some(Node) n1 | ");
        assert_eq!(parsed("l sc"), "List Some(Sched)  | ");
        assert_eq!(parsed("p s"), "Print Some(Server)  | ");
        assert_eq!(parsed("exit"), "Quit None  | ");
    }

    #[test]
    fn values_are_quoted_or_end_at_a_comma() {
        let text = "set queue a,b comment = \"x, y\",enabled=t , Priority -= 5";
        assert_eq!(
            parsed(text),
            "Set Some(Queue) a+b | comment Set x, y; enabled Set t; Priority Remove 5"
        );
        let limit = "set server max_run_res.ncpus += [u:a=1], [g:b=2], scheduling = True";
        assert_eq!(
            parsed(limit),
            "Set Some(Server)  | max_run_res.ncpus Add [u:a=1], [g:b=2]; scheduling Set True"
        );
        assert_eq!(
            parsed("unset server max_run,comment"),
            "Unset Some(Server)  | max_run Set ; comment Set "
        );
        assert_eq!(
            parsed("list queue @default enabled"),
            "List Some(Queue) @default | enabled Set "
        );
        assert_eq!(
            parsed("set server managers += bob@*"),
            "Set Some(Server)  | managers Add bob@*"
        );
    }

    #[test]
    fn syntax_errors_have_the_positions_of_pbs() {
        let fault = |text: &str| read(text).unwrap_err();
        for (text, at) in [
            ("set queue", 9),
            ("set queue workq enabled", 23),
            ("set server foo=1", 15),
            ("set queue q9 max_run=4", 21),
            ("set queue q9 max_run=\"[o:alice=3]\"", 26),
            ("list queue workq \\n started", 20),
            ("set queue q comment = \"open", 27),
        ] {
            assert_eq!(fault(text), GrammarError::Syntax(at), "{text}");
        }
        assert_eq!(fault("foo"), GrammarError::Operation("foo".into()));
        assert_eq!(fault(""), GrammarError::Operation(String::new()));
        assert_eq!(
            (fault("set"), fault("list job")),
            (GrammarError::NoObject, GrammarError::Object("job".into()))
        );
        assert_eq!(
            parsed("set queue q9 max_run=\"[u:PBS_GENERIC=x]\"")
                .matches("=x")
                .count(),
            1
        );
    }
}
