//! The output of commands that write, for each object: `deployment.apps/web created`, its name, or the object itself.

use serde_json::Value;

use crate::Context;
use crate::error::Error;
use crate::get::hide_managed_fields;
use crate::get::output::{Objects, Output};
use crate::objects::flags::{DryRun, Printing};

/// Prints the outcome of each object of a command.
#[derive(Debug)]
pub struct Printer {
    form: Form,
    show_managed_fields: bool,
    dry_run: DryRun,
    has_printed: bool,
}

#[derive(Debug)]
enum Form {
    /// Name and operation.
    Message,
    Name,
    Objects(Output),
}

impl Printer {
    /// # Errors
    /// When the format is unknown or its template is malformed.
    pub fn new(flags: &Printing, dry_run: DryRun) -> Result<Self, Error> {
        let form = match flags.output.as_str() {
            "" if flags.template.is_empty() => Form::Message,
            "name" => Form::Name,
            format if !is_known(format) => return Err(Error::message(unmatched(format))),
            format => Form::Objects(Output::parse_with(format, &flags.template, flags.allow_missing_template_keys)?),
        };
        Ok(Self { form, show_managed_fields: flags.show_managed_fields, dry_run, has_printed: false })
    }

    /// Whether the object itself is printed instead of the verb.
    pub fn prints_objects(&self) -> bool {
        matches!(self.form, Form::Objects(_))
    }

    /// Prints one object after `operation`, such as `created`; `shown` is `deployment.apps/web`.
    ///
    /// # Errors
    /// When the object cannot be encoded.
    pub fn done(&mut self, context: &Context, shown: &str, operation: &str, object: &Value) -> Result<(), Error> {
        let suffix = self.dry_run.suffix();
        match &self.form {
            Form::Message => context.print(&format!("{shown} {operation}{suffix}\n")),
            Form::Name => context.print(&format!("{shown}\n")),
            Form::Objects(output) => {
                let mut object = object.clone();
                if output.hides_managed_fields() && !self.show_managed_fields {
                    hide_managed_fields(&mut object);
                }
                context.print(if self.has_printed { output.separator() } else { "" });
                context.print(&output.render(Objects::One(object))?);
            }
        }
        self.has_printed = true;
        Ok(())
    }

    /// Prints several objects as one document, as `apply` does.
    ///
    /// # Errors
    /// When the objects cannot be encoded.
    pub fn all(&self, context: &Context, mut objects: Vec<Value>) -> Result<(), Error> {
        let Form::Objects(output) = &self.form else { return Ok(()) };
        if output.hides_managed_fields() && !self.show_managed_fields {
            objects.iter_mut().for_each(hide_managed_fields);
        }
        let objects = match objects.pop() {
            Some(only) if objects.is_empty() => Objects::One(only),
            last => {
                objects.extend(last);
                Objects::Many(objects)
            }
        };
        context.print(&output.render(objects)?);
        Ok(())
    }
}

/// The formats of commands that write, which have no columns.
const ALLOWED: &str =
    "go-template,go-template-file,json,jsonpath,jsonpath-as-json,jsonpath-file,kyaml,name,template,templatefile,yaml";

fn is_known(format: &str) -> bool {
    let name = format.split('=').next().unwrap_or_default();
    name.is_empty() || ALLOWED.split(',').any(|known| known == name)
}

fn unmatched(format: &str) -> String {
    crate::error::no_printer(format, ALLOWED)
}
