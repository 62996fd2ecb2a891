//! Splits input into commands: continuation lines, several commands on one line, comments.

/// Converts lines to commands.
#[derive(Debug, Default)]
pub struct CommandReader {
    /// The text of a command that continues on the next line.
    begun: String,
}

impl CommandReader {
    /// Returns the commands that end on this line. A line that ends in `\` continues on the next
    /// line.
    pub fn add_line(&mut self, line: &str) -> Vec<String> {
        match line.strip_suffix('\\') {
            Some(begun) => {
                self.begun.push_str(begun);
                Vec::new()
            }
            None => commands(&format!("{}{line}", std::mem::take(&mut self.begun))),
        }
    }

    /// True if a command continues on the next line.
    pub fn continues(&self) -> bool {
        !self.begun.is_empty()
    }

    /// The commands on the last line, if this line ends in `\`.
    pub fn end(self) -> Vec<String> {
        commands(&self.begun)
    }
}

/// The commands of a line, separated by `;`. A `#` at the start of a word begins a comment. Within
/// quotes, `;` and `#` are plain characters.
pub fn commands(line: &str) -> Vec<String> {
    let (mut all, mut command, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (c, quote) {
            ('#', None) if command.ends_with(char::is_whitespace) || command.is_empty() => break,
            (';', None) => all.push(std::mem::take(&mut command)),
            _ => {
                command.push(c);
                quote = match quote {
                    None if c == '"' || c == '\'' => Some(c),
                    Some(open) if open == c => None,
                    same => same,
                };
            }
        }
    }
    all.push(command);
    let trimmed = all.iter().map(|command| command.trim());
    trimmed
        .filter(|command| !command.is_empty())
        .map(str::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_contains_commands_and_comments() {
        let found = commands("list server; print queue q # ; x");
        assert_eq!(found, ["list server", "print queue q"]);
        assert_eq!(
            commands("set queue q comment = \"a;b # c\""),
            ["set queue q comment = \"a;b # c\""]
        );
        assert_eq!(commands("  # only this"), [""; 0]);
        assert_eq!(
            commands("set queue q comment=a#b"),
            ["set queue q comment=a#b"]
        );
    }

    #[test]
    fn a_backslash_continues_a_line() {
        let mut input = CommandReader::default();
        assert_eq!(input.add_line("list queue \\"), [""; 0]);
        assert!(input.continues());
        assert_eq!(
            input.add_line("workq; list server"),
            ["list queue workq", "list server"]
        );
        assert_eq!(input.add_line("quit \\"), [""; 0]);
        assert_eq!(input.end(), ["quit"]);
    }
}
