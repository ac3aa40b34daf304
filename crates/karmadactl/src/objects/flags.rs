//! Flags that several commands share, with kubectl's names, defaults and refusals.

use clap::Args;

use crate::Context;
use crate::error::Error;
use crate::requests::WriteOptions;

/// The sources of manifests.
#[derive(Args, Clone, Debug, Default)]
pub struct Files {
    /// File, directory or URL that holds the resources; "-" is the standard input.
    #[arg(short = 'f', long, value_delimiter = ',')]
    pub filename: Vec<String>,
    /// Directory of a kustomization, whose objects are built and processed.
    #[arg(short = 'k', long, default_value = "")]
    pub kustomize: String,
    /// Process the directories of -f recursively.
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

impl Files {
    pub fn is_empty(&self) -> bool {
        self.filename.is_empty() && self.kustomize.is_empty()
    }

    /// kubectl's check for commands that need files.
    ///
    /// # Errors
    /// Without -f and -k.
    pub fn required(&self) -> Result<(), Error> {
        if self.is_empty() { Err(Error::message("must specify one of -f and -k")) } else { Ok(()) }
    }
}

/// How objects are printed after a write.
#[derive(Args, Clone, Debug, Default)]
pub struct Printing {
    /// Output format. One of: (json, yaml, kyaml, name, go-template, go-template-file, template, templatefile, jsonpath,
    /// jsonpath-as-json, jsonpath-file).
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
    /// Template string or path to a template file, with -o=go-template and -o=go-template-file.
    #[arg(long, default_value = "")]
    pub template: String,
    /// If true, ignore errors in templates when a field or map key is missing.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_missing_template_keys: bool,
    /// Keep metadata.managedFields in JSON and YAML.
    #[arg(long)]
    pub show_managed_fields: bool,
}

/// How objects are created.
#[derive(Args, Clone, Debug)]
pub struct Creation {
    #[command(flatten)]
    pub printing: Printing,
    /// Must be "none", "server", or "client". With client no request is sent, with server no object is stored.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    dry_run: String,
    /// Name of the manager that owns the fields.
    #[arg(long, default_value = "kubectl-create")]
    field_manager: String,
    /// Namespace of the objects; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    pub namespace: Option<String>,
    /// Record the manifest in the object's annotation, for a later apply.
    #[arg(long)]
    pub save_config: bool,
    /// Validate fields. One of: (strict, warn, ignore).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    validate: String,
}

impl Creation {
    /// # Errors
    /// As [`DryRun::parse`].
    pub fn dry_run(&self, context: &Context) -> Result<DryRun, Error> {
        DryRun::parse(context, &self.dry_run)
    }

    /// # Errors
    /// As [`validation`].
    pub fn options(&self, dry_run: DryRun) -> Result<WriteOptions, Error> {
        Ok(WriteOptions {
            field_manager: self.field_manager.clone(),
            dry_run: dry_run == DryRun::Server,
            validation: validation(&self.validate)?,
        })
    }
}

/// `--dry-run`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    #[default]
    None,
    Client,
    Server,
}

/// `--dry-run` without a value.
pub const NO_VALUE: &str = "unchanged";

impl DryRun {
    /// Booleans and an absent value, which kubectl had before, are reported as deprecated.
    ///
    /// # Errors
    /// As kubectl refuses other values.
    pub fn parse(context: &Context, text: &str) -> Result<Self, Error> {
        let deprecated = |written: &str, means: &str| {
            context.warn(&format!("--dry-run{written} is deprecated and can be replaced with --dry-run={means}."));
        };
        match text {
            "none" => Ok(Self::None),
            "client" => Ok(Self::Client),
            "server" => Ok(Self::Server),
            NO_VALUE => {
                deprecated("", "client");
                Ok(Self::Client)
            }
            "1" | "t" | "T" | "true" | "TRUE" | "True" => {
                deprecated(&format!("={text}"), "client");
                Ok(Self::Client)
            }
            "0" | "f" | "F" | "false" | "FALSE" | "False" => {
                deprecated(&format!("={text}"), "none");
                Ok(Self::None)
            }
            other => Err(Error::message(format!(
                "Invalid dry-run value ({other}). Must be \"none\", \"server\", or \"client\"."
            ))),
        }
    }

    /// The suffix after the verb of a message.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// `--validate` as the server's `fieldValidation`.
///
/// # Errors
/// As kubectl refuses other values.
pub fn validation(text: &str) -> Result<Option<&'static str>, Error> {
    match text {
        "strict" | "true" => Ok(Some("Strict")),
        "warn" => Ok(Some("Warn")),
        "ignore" | "false" => Ok(Some("Ignore")),
        other => Err(Error::message(format!(
            "invalid - validate option \"{other}\"; must be one of: strict (or true), warn, ignore (or false)"
        ))),
    }
}

/// `--cascade` as a propagation policy. Booleans, which kubectl had before, are reported as deprecated.
///
/// # Errors
/// As kubectl refuses other values.
pub fn cascade(context: &Context, text: &str) -> Result<&'static str, Error> {
    let deprecated = |name: &str, policy| {
        context.log(&format!(
            "warning: --cascade={text} is deprecated (boolean value) and can be replaced with --cascade={name}.\n"
        ));
        Ok(policy)
    };
    match text {
        "background" => Ok("Background"),
        "foreground" => Ok("Foreground"),
        "orphan" => Ok("Orphan"),
        "1" | "t" | "T" | "true" | "TRUE" | "True" => deprecated("background", "Background"),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => deprecated("orphan", "Orphan"),
        other => Err(Error::message(format!(
            "invalid cascade value ({other}). Must be \"background\", \"foreground\", or \"orphan\""
        ))),
    }
}

/// A Go duration of a flag, which must not be negative.
///
/// # Errors
/// Naming the flag.
pub fn duration(flag: &str, text: &str) -> Result<std::time::Duration, Error> {
    let parsed: apimachinery::duration::Duration =
        text.parse().map_err(|e| Error::Flag(format!("invalid argument {text:?} for \"{flag}\" flag: {e}")))?;
    Ok(parsed.to_std().unwrap_or_default())
}
