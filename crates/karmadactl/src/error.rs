//! Errors of commands, and their output on stderr in kubectl's forms.

use apimachinery::Status;

/// Why a file cannot be read, in Go's words.
pub fn of_file(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Printed as `error: MESSAGE`.
    #[error("{0}")]
    Message(String),
    /// Too few or too many arguments: the usage line follows.
    #[error("{0}")]
    Arguments(String),
    /// Arguments that a command cannot use; the output points to its help and its examples.
    #[error("{0}")]
    Usage(String),
    /// A flag has an invalid value; the output points to the help.
    #[error("{0}")]
    Flag(String),
    /// The server refused the request.
    #[error("{0}")]
    Server(Box<Status>),
    /// The control plane does not serve a type; it may be another API server than the user means.
    #[error("{0}")]
    UnknownType(String),
    /// The errors of several servers, each naming its own.
    #[error("{}", .0.join("\n"))]
    Several(Vec<String>),
    /// Several objects of one command failed. Among other errors, such a list is printed as one, in brackets.
    #[error("{}", .0.iter().map(Error::listed).collect::<Vec<_>>().join("\n"))]
    All(Vec<Error>),
    /// A command in a container ended with this code, which becomes the exit code.
    #[error("command terminated with exit code {0}")]
    Exit(u8),
    /// The reason is printed already.
    #[error("")]
    Silent,
    /// An error with a specific exit code.
    #[error("{error}")]
    Coded { code: u8, error: Box<Error> },
    /// The server could not be reached, or answered nonsense.
    #[error("{attempt}: {source}")]
    Client { attempt: String, source: client::Error },
}

impl Error {
    pub fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }

    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    pub fn arguments(text: impl Into<String>) -> Self {
        Self::Arguments(text.into())
    }

    /// Keeps a Status with the server's message; otherwise names the attempt.
    pub fn client(attempt: impl Into<String>) -> impl FnOnce(client::Error) -> Self {
        let attempt = attempt.into();
        move |source| match source {
            client::Error::Status(status) => Self::Server(status),
            client::Error::Unnamed => Self::Message(source.to_string()),
            source => Self::Client { attempt, source },
        }
    }

    /// Returns `Ok`, the only error, or a combination of several.
    ///
    /// # Errors
    /// Unless the list is empty.
    pub fn of_all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::All(errors)),
        }
    }

    /// The error itself, without its exit code.
    pub fn uncoded(&self) -> &Self {
        match self {
            Self::Coded { error, .. } => error.uncoded(),
            other => other,
        }
    }

    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            Self::Exit(code) | Self::Coded { code, .. } => *code,
            _ => 1,
        }
    }

    /// The line of one error among several.
    fn listed(&self) -> String {
        match self {
            Self::Server(status) => refusal(status),
            Self::All(errors) => {
                format!("[{}]", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            }
            other => other.to_string(),
        }
    }

    /// The text for stderr; ends with a newline.
    pub fn render(&self) -> String {
        match self {
            Self::Server(status) => render_status(status),
            Self::Coded { error, .. } => error.render(),
            Self::Silent => String::new(),
            Self::All(_) | Self::Exit(_) => format!("{self}\n"),
            // As upstream, several messages are printed without prefix.
            Self::Several(messages) if messages.len() > 1 => format!("{self}\n"),
            other => format!("error: {other}\n"),
        }
    }
}

/// kubectl's wording: Invalid names the object and lists causes, other reasons are `Error from server (Reason)`.
fn render_status(status: &Status) -> String {
    if status.is(apimachinery::StatusReason::Invalid)
        && let Some(details) = &status.details
        && !details.causes.is_empty()
    {
        let mut causes: Vec<String> = Vec::new();
        for cause in details.causes.iter().map(|it| format!("{}: {}", it.field, it.message)) {
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
        let subject = match details.kind.is_empty() && details.name.is_empty() {
            true => "The request".to_owned(),
            false => format!("The {} \"{}\"", details.kind, details.name),
        };
        return match causes.as_slice() {
            [one] => format!("{subject} is invalid: {one}\n"),
            many => {
                let lines: Vec<String> = many.iter().map(|cause| format!("* {cause}")).collect();
                format!("{subject} is invalid: \n{}\n", lines.join("\n"))
            }
        };
    }
    format!("{}\n", refusal(status))
}

fn refusal(status: &Status) -> String {
    let names_object = status.details.as_ref().is_some_and(|it| !(it.kind.is_empty() && it.name.is_empty()));
    if status.is(apimachinery::StatusReason::Invalid) && !names_object {
        return format!("The request is invalid: {}", status.message);
    }
    match status.reason.as_str() {
        "" => format!("Error from server: {}", status.message),
        reason => format!("Error from server ({reason}): {}", status.message),
    }
}

/// kubectl's error about an unknown output format.
pub(crate) fn no_printer(format: &str, allowed: &str) -> String {
    format!("unable to match a printer suitable for the output format {format:?}, allowed formats are: {allowed}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn server_errors_read_like_kubectls() {
        let status = Status::not_found("cluster.karmada.io", "clusters", "nosuch");
        assert_eq!(
            Error::Server(Box::new(status)).render(),
            "Error from server (NotFound): clusters.cluster.karmada.io \"nosuch\" not found\n"
        );
        assert_eq!(Error::message("cluster name is required").render(), "error: cluster name is required\n");
    }

    #[test]
    fn lists_of_errors_within_others_are_one_line() {
        let both = || Error::All(vec![Error::message("a"), Error::message("b")]);
        assert_eq!(both().render(), "a\nb\n");
        assert_eq!(Error::of_all(vec![both()]).map_err(|error| error.render()), Err("a\nb\n".to_owned()));
        assert_eq!(Error::All(vec![Error::message("c"), both()]).render(), "c\n[a, b]\n");
    }

    #[test]
    fn invalid_requests_read_like_kubectls() {
        let cause = |message: &str| json!({"field": "metadata.labels", "message": message});
        let invalid = |details: serde_json::Value| {
            let tree = json!({"reason": "Invalid", "code": 422, "message": "why", "details": details});
            Error::Server(Box::new(serde_json::from_value(tree).expect("a Status"))).render()
        };
        assert_eq!(invalid(json!({})), "The request is invalid: why\n");
        let named = |causes: &[&str]| {
            let causes: Vec<serde_json::Value> = causes.iter().map(|it| cause(it)).collect();
            invalid(json!({"kind": "ConfigMap", "name": "a", "causes": causes}))
        };
        assert_eq!(named(&["x", "x"]), "The ConfigMap \"a\" is invalid: metadata.labels: x\n");
        let both = "The ConfigMap \"a\" is invalid: \n* metadata.labels: x\n* metadata.labels: y\n";
        assert_eq!(named(&["x", "y", "x"]), both);
    }
}
