//! The text of a file in the editor: the objects, comments with what was wrong before, and what the user has made of it.

use apimachinery::yaml;
use serde_json::{Value, json};

use crate::error::{Error, no_printer};
use crate::get::output::{Objects, Output};

const HEADER: &str = "# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
";

/// The format of the file, which `-o` chooses.
#[derive(Clone, Debug)]
pub struct Form {
    output: Output,
    windows: bool,
}

impl Form {
    /// # Errors
    /// For formats that cannot be read again.
    pub fn new(output: &str, windows: bool) -> Result<Self, Error> {
        let output = match output {
            "" | "yaml" => Output::Yaml,
            "json" => Output::Json,
            "kyaml" => Output::Kyaml,
            other => {
                return Err(Error::message(no_printer(other, "json,kyaml,yaml")));
            }
        };
        Ok(Self { output, windows })
    }

    pub fn extension(&self) -> &'static str {
        if self.output == Output::Json { "json" } else { "yaml" }
    }

    /// The first text: an object, or a List of several.
    ///
    /// # Errors
    /// When the objects cannot be encoded.
    pub fn first(&self, objects: &[Value]) -> Result<String, Error> {
        let document = match objects {
            [only] => only.clone(),
            several => json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": several}),
        };
        let text = format!("{}{}", self.header(&[]), self.output.render(Objects::One(document))?);
        Ok(if self.windows { text.replace('\n', "\r\n") } else { text })
    }

    /// The user's text with the reasons why it was refused.
    pub fn again(&self, edited: &str, reasons: &[Reason]) -> String {
        let header = self.header(reasons);
        let header = if self.windows { header.replace('\n', "\r\n") } else { header };
        format!("{header}{}", without_comments(edited))
    }

    /// JSON has no comments.
    fn header(&self, reasons: &[Reason]) -> String {
        match self.output {
            Output::Json => String::new(),
            _ => HEADER.to_owned() + &reasons.iter().map(Reason::comment).collect::<String>(),
        }
    }
}

/// Why a file is opened again.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    pub head: String,
    /// The parts, if there are several or a field is named.
    pub causes: Vec<String>,
}

impl Reason {
    fn comment(&self) -> String {
        let colon = if self.causes.is_empty() { "" } else { ":" };
        let causes: String = self.causes.iter().map(|cause| format!("# * {}\n", commented(cause))).collect();
        format!("# {}{colon}\n{causes}#\n", commented(&self.head))
    }
}

/// The lines after the first one as comments.
fn commented(text: &str) -> String {
    let mut lines = text.split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(
        first,
        |text, line| if line.starts_with('#') { format!("{text}\n{line}") } else { format!("{text}\n# {line}") },
    )
}

/// A text without lines of comments.
fn without_comments(text: &str) -> String {
    let is_comment = |line: &&str| line.trim().starts_with('#') && !line.trim().starts_with("#!");
    text.split('\n').filter(|line| !is_comment(line)).collect::<Vec<_>>().join("\n")
}

/// A text without what the user does not mean: its document, or what stands there instead.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Document(Value),
    Malformed(String),
}

impl Content {
    pub fn of(text: &str) -> Self {
        yaml::to_json_value(text.as_bytes()).map_or_else(|_| Self::Malformed(without_comments(text)), Self::Document)
    }

    /// The document.
    ///
    /// # Errors
    /// Naming the line of the text without comments.
    pub fn document(&self) -> Result<&Value, String> {
        match self {
            Self::Document(document) => Ok(document),
            Self::Malformed(text) => match yaml::to_json_value(text.as_bytes()) {
                Ok(_) => Err("the text without its comments is another one".to_owned()),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

/// Whether a text consists of comments and blank lines.
pub fn is_empty(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_back() {
        let objects = [json!({"kind": "A", "n": 1}), json!({"kind": "B"})];
        for (output, windows) in [("", false), ("yaml", true), ("json", true), ("kyaml", false)] {
            let form = Form::new(output, windows).expect("a format");
            let text = form.first(&objects[..1]).expect("encoded");
            assert_eq!(Content::of(&text), Content::Document(objects[0].clone()), "{text}");
            assert_eq!(text.contains("\r\n"), windows, "{text}");
            let text = form.first(&objects).expect("encoded");
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": objects});
            assert_eq!(Content::of(&text), Content::Document(list), "{text}");
        }
        assert!(Form::new("name", false).is_err());
        assert!(is_empty("# a\n \n") && !is_empty("# a\nb"));
        // The comments at the head differ from one attempt to the next.
        assert_eq!(Content::of("# c\na: ["), Content::of("# d\n# e\na: ["));
        assert!(Content::of("# c\na: [").document().is_err_and(|why| why.contains("line 1:")));
    }

    #[test]
    fn reasons_are_comments() {
        let form = |output| Form::new(output, false).expect("a format");
        let reasons = [
            Reason { head: "one\ntwo".into(), causes: Vec::new() },
            Reason { head: "x was not valid".into(), causes: vec!["a: b".into()] },
        ];
        let text = form("").again("# old\na: 1\n", &reasons);
        assert_eq!(text, format!("{HEADER}# one\n# two\n#\n# x was not valid:\n# * a: b\n#\na: 1\n"));
        assert_eq!(form("json").again("{}\n", &reasons), "{}\n");
    }
}
