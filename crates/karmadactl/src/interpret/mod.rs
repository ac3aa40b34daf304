//! `interpret`: try the scripts of a ResourceInterpreterCustomization on files, without a control plane; or edit those
//! of the control plane.

mod edit;
mod input;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use apimachinery::{jsonpath::Template, meta::Time, object::ObjectTree as _, yaml};
use clap::Args;
use interpreter::lua::{Budget, Engine};
use interpreter::scripted::{self, Scripts};
use interpreter::{Layer, Operation};
use serde_json::{Value, json};
use world::World;

use self::input::{Inputs, Source};
use crate::error::{Error, no_printer};
use crate::get::output;

/// As upstream lists them, in `--check` and in refusals.
const OPERATIONS: [Operation; 8] = [
    Operation::Retain,
    Operation::InterpretReplica,
    Operation::InterpretComponent,
    Operation::ReviseReplica,
    Operation::InterpretStatus,
    Operation::AggregateStatus,
    Operation::InterpretHealth,
    Operation::InterpretDependency,
];

#[derive(Args, Debug, Default)]
pub struct InterpretArgs {
    /// File, directory or URL with the customizations; - reads standard input.
    #[arg(short = 'f', long, value_delimiter = ',')]
    filename: Vec<String>,
    /// Process the directory given by -f recursively.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Validate the scripts.
    #[arg(long)]
    check: bool,
    /// Operation to run. One of: (Retain, InterpretReplica, InterpretComponent, ReviseReplica, InterpretStatus, AggregateStatus, InterpretHealth, InterpretDependency).
    #[arg(long, default_value = "")]
    operation: String,
    /// File, directory or URL with the desired object, as in the control plane.
    #[arg(long)]
    desired_file: Option<String>,
    /// File, directory or URL with the observed object, as in a member.
    #[arg(long)]
    observed_file: Option<String>,
    /// File, directory or URL with the aggregated status items, one document each.
    #[arg(long)]
    status_file: Option<String>,
    /// Replicas that ReviseReplica sets.
    #[arg(long, default_value_t = 0)]
    desired_replica: i32,
    /// Output format. One of: (yaml, json, name, jsonpath, jsonpath-file).
    #[arg(short = 'o', long, default_value = "yaml")]
    output: String,
    /// Template of -o jsonpath, or the file with the template of -o jsonpath-file.
    #[arg(long, default_value = "")]
    template: String,
    /// Ignore fields of a template that a result does not have.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true, action = clap::ArgAction::Set)]
    allow_missing_template_keys: bool,
    /// Keep metadata.managedFields in printed objects.
    #[arg(long)]
    show_managed_fields: bool,
    /// Edit the scripts of the customization in the control plane, with $KUBE_EDITOR or $EDITOR.
    #[arg(long)]
    edit: bool,
    /// Add the documentation of each script, with --edit.
    #[arg(long)]
    show_doc: bool,
}

impl InterpretArgs {
    /// The customization to edit, with --edit.
    ///
    /// # Errors
    /// For several customizations.
    fn edits(&self, inputs: &Inputs) -> Result<Option<String>, Error> {
        if !self.edit {
            return Ok(None);
        }
        match inputs.customizations()?.as_slice() {
            [one] => Ok(Some(one.metadata.name.clone())),
            several => Err(Error::message(format!("--edit takes one customization, -f has {}", several.len()))),
        }
    }
}

/// Runs the command and prints its outcome.
pub async fn execute_command(context: &crate::Context, args: &InterpretArgs, world: &World) -> Result<(), Error> {
    let inputs = inputs(args).await?;
    if let Some(name) = args.edits(&inputs)? {
        return edit::run(context, &name, args.show_doc, &engine(world)).await;
    }
    let outcome = run(args, &inputs, world)?;
    context.print(&outcome.out);
    context.log(&outcome.err);
    if outcome.failed { Err(Error::Silent) } else { Ok(()) }
}

async fn inputs(args: &InterpretArgs) -> Result<Inputs, Error> {
    if args.check && args.edit {
        return Err(Error::message("you can't set both --check and --edit options"));
    }
    Inputs::read(args).await
}

/// The engine of scripts, with its limits.
pub fn engine(world: &World) -> Engine {
    let clock = world.clone();
    Engine::new(Arc::new(move || clock.now()), Budget::default())
}

/// The texts for stdout and stderr, and whether the command failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub out: String,
    pub err: String,
    pub failed: bool,
}

/// Runs the command; it reads template files and the clock only.
fn run(args: &InterpretArgs, inputs: &Inputs, world: &World) -> Result<Outcome, Error> {
    let engine = engine(world);
    let form = Form::of(args)?;
    if args.check {
        return Ok(check(&engine, &inputs.sources));
    }
    if args.operation.is_empty() {
        return Err(Error::message("operation is not set for executing"));
    }
    let named = |it: &&Operation| format!("{it:?}").eq_ignore_ascii_case(&args.operation);
    let Some(operation) = OPERATIONS.iter().find(named).copied() else {
        let known: Vec<_> = OPERATIONS.iter().map(|it| format!("{it:?}")).collect();
        let text = format!("operation {} is not supported. Use one of: {}", args.operation, known.join(", "));
        return Err(Error::message(text));
    };
    let scripts = Scripts::of_customizations(engine, inputs.customizations()?);
    Ok(match execute(args, operation, &scripts, inputs, world) {
        Ok(results) => Outcome { out: printed(results, &form, args)?, ..Outcome::default() },
        // As upstream: the scripts' errors are results, not failures of the command.
        Err(text) => Outcome { err: format!("Execute {operation:?} error: {text}\n"), ..Outcome::default() },
    })
}

/// A wrong document does not end the check of the others.
fn check(engine: &Engine, sources: &[Source]) -> Outcome {
    let mut outcome = Outcome::default();
    for source in sources {
        outcome.out += "-----------------------------------\n";
        outcome.out += &format!("SOURCE: {}\n", source.name);
        let checked = source.customization.as_ref().map_err(String::as_str).and_then(|customization| {
            let target = &customization.spec.target;
            match (target.kind.as_str(), target.api_version.as_str()) {
                ("", _) => Err("target.kind no set"),
                (_, "") => Err("target.apiVersion no set"),
                _ => Ok((target, &customization.spec.customizations)),
            }
        });
        let (target, rules) = match checked {
            Ok(checked) => checked,
            Err(why) => {
                outcome.out += &format!("{why}\n");
                outcome.failed = true;
                continue;
            }
        };
        outcome.out += &format!("TARGET: {} {}   \nRULERS:\n", target.api_version, target.kind);
        for operation in OPERATIONS {
            let script = scripted::rules(rules).find(|(it, _)| *it == operation);
            let verdict = match script.map(|(_, source)| engine.compile(source)) {
                None => "UNSET".to_owned(),
                Some(Ok(_)) => "PASS".to_owned(),
                Some(Err(error)) => {
                    outcome.failed = true;
                    format!("ERROR: {error}")
                }
            };
            outcome.out += &format!("    {:<24} {verdict}\n", format!("{operation:?}:"));
        }
    }
    outcome
}

fn execute(
    args: &InterpretArgs,
    operation: Operation,
    scripts: &Scripts,
    inputs: &Inputs,
    world: &World,
) -> Result<Vec<(&'static str, Value)>, String> {
    let (desired, observed) = (inputs.desired.clone(), inputs.observed.clone());
    let mut object = if operation == Operation::Retain {
        desired.ok_or("desired, desired-file options are not set")?
    } else {
        match (desired, observed.clone()) {
            (Some(_), Some(_)) => return Err("you can not specify both desired-file and observed-file options".into()),
            (None, None) => return Err("desired-file, observed-file options are not set".into()),
            (Some(object), None) | (None, Some(object)) => object,
        }
    };
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    if !scripts.enabled(&text("apiVersion"), &text("kind"), operation) {
        return Err("rule is not enabled".into());
    }
    let failed = |error: interpreter::Error| error.to_string();
    Ok(match operation {
        Operation::Retain => {
            let observed = observed.ok_or("observed, observed-file options are not set")?;
            scripts.retain(&mut object, &observed).map_err(failed)?;
            vec![("retained", object)]
        }
        Operation::InterpretReplica => {
            let (replicas, requirements) = scripts.get_replicas(&object).map_err(failed)?;
            vec![("replica", json!(replicas)), ("requires", json!(requirements))]
        }
        Operation::InterpretComponent => {
            vec![("components", json!(scripts.get_components(&object).map_err(failed)?))]
        }
        Operation::ReviseReplica => {
            scripts.revise_replica(&mut object, args.desired_replica).map_err(failed)?;
            vec![("revised", object)]
        }
        Operation::InterpretStatus => vec![("status", json!(scripts.reflect_status(&object).map_err(failed)?))],
        Operation::AggregateStatus => {
            scripts.aggregate_status(&mut object, &inputs.items, Time::new(world.now())).map_err(failed)?;
            vec![("aggregatedStatus", object)]
        }
        Operation::InterpretHealth => vec![("healthy", json!(scripts.interpret_health(&object).map_err(failed)?))],
        Operation::InterpretDependency => {
            vec![("dependencies", json!(scripts.get_dependencies(&object).map_err(failed)?))]
        }
    })
}

/// How a result is shown.
enum Form {
    Yaml,
    Json,
    Name,
    /// With its text.
    JsonPath(Template),
}

impl Form {
    fn of(args: &InterpretArgs) -> Result<Self, Error> {
        let (kind, inline) = args.output.split_once('=').unwrap_or((&args.output, &args.template));
        let text = match kind {
            "yaml" => return Ok(Self::Yaml),
            "json" => return Ok(Self::Json),
            "name" => return Ok(Self::Name),
            "jsonpath" => inline.to_owned(),
            "jsonpath-file" => std::fs::read_to_string(inline)
                .map_err(|error| Error::message(format!("error reading --template {inline}, {error}")))?,
            _ => {
                let allowed = "json,jsonpath,jsonpath-file,name,yaml";
                return Err(Error::message(no_printer(&args.output, allowed)));
            }
        };
        if text.is_empty() {
            return Err(Error::message("template format specified but no template given"));
        }
        match Template::parse(&text) {
            Ok(template) => Ok(Self::JsonPath(template)),
            Err(why) => Err(Error::message(format!("error parsing jsonpath {text}, {why}"))),
        }
    }

    fn render(&self, value: &Value, allow_missing: bool) -> Result<String, String> {
        match self {
            Self::Json => serde_json::to_string_pretty(value).map_err(|error| error.to_string()),
            Self::Yaml => Ok(yaml::to_string(value)),
            // A value that is not an object is shown unchanged.
            Self::Name if value["kind"].is_string() => Ok(output::name(value)),
            Self::Name => Ok(value.to_string()),
            Self::JsonPath(template) => {
                let mut template = template.clone();
                template.strict(!allow_missing);
                template.render_checked(value).map_err(|error| error.to_string())
            }
        }
    }
}

fn printed(results: Vec<(&'static str, Value)>, form: &Form, args: &InterpretArgs) -> Result<String, Error> {
    let (mut out, count) = (String::new(), results.len());
    for (index, (name, mut value)) in results.into_iter().enumerate() {
        if !args.show_managed_fields
            && let Some(metadata) = value.metadata_mut()
        {
            metadata.remove("managedFields");
        }
        let text = form.render(&value, args.allow_missing_template_keys).map_err(Error::message)?;
        out += &format!("---\n# [{}/{count}] {name}:\n{}\n", index + 1, text.trim_end());
    }
    Ok(out)
}
