//! `interpret`: try the scripts of a ResourceInterpreterCustomization on files, without a control plane; or edit those
//! of the control plane.

mod edit;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use apimachinery::{jsonpath::Template, meta::Time, object::ObjectTree as _, yaml};
use clap::Args;
use interpreter::lua::{Budget, Engine};
use interpreter::scripted::{self, Scripts};
use interpreter::{Layer, Operation};
use karmada_api::config::v1alpha1::ResourceInterpreterCustomization;
use karmada_api::work::v1alpha2::AggregatedStatusItem;
use serde::Deserialize;
use serde_json::{Value, json};
use world::World;

use crate::error::Error;
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
    /// File or directory with the customization; - reads standard input.
    #[arg(short = 'f', long = "filename")]
    filename: Vec<PathBuf>,
    /// Process the directory given by -f recursively.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Validate the scripts.
    #[arg(long)]
    check: bool,
    /// Operation to run. One of: (Retain, InterpretReplica, InterpretComponent, ReviseReplica, InterpretStatus, AggregateStatus, InterpretHealth, InterpretDependency).
    #[arg(long, default_value = "")]
    operation: String,
    /// File with the desired object, as in the control plane.
    #[arg(long)]
    desired_file: Option<PathBuf>,
    /// File with the observed object, as in a member.
    #[arg(long)]
    observed_file: Option<PathBuf>,
    /// File with the aggregated status items, one document each.
    #[arg(long)]
    status_file: Option<PathBuf>,
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
    /// With --check, and for several customizations.
    fn edits(&self) -> Result<Option<String>, Error> {
        match (self.edit, self.check) {
            (false, _) => return Ok(None),
            (true, true) => return Err(Error::message("you can't set both --check and --edit options")),
            (true, false) => {}
        }
        match customizations(self)?.as_slice() {
            [one] => Ok(Some(one.metadata.name.clone())),
            several => Err(Error::message(format!("--edit takes one customization, -f has {}", several.len()))),
        }
    }
}

/// Runs the command and prints its outcome.
pub async fn execute_command(context: &crate::Context, args: &InterpretArgs, world: &World) -> Result<(), Error> {
    if let Some(name) = args.edits()? {
        return edit::run(context, &name, args.show_doc, &engine(world)).await;
    }
    let outcome = run(args, world)?;
    context.print(&outcome.out);
    context.log(&outcome.err);
    if outcome.failed { Err(Error::Silent) } else { Ok(()) }
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

/// Runs the command; it reads files and the clock only.
pub fn run(args: &InterpretArgs, world: &World) -> Result<Outcome, Error> {
    let engine = engine(world);
    let customizations = customizations(args)?;
    let form = Form::of(args)?;
    if args.check {
        return Ok(check(&engine, &customizations));
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
    Ok(match execute(args, operation, &engine, &customizations, world) {
        Ok(results) => Outcome { out: printed(results, &form, args)?, ..Outcome::default() },
        // As upstream: the scripts' errors are results, not failures of the command.
        Err(text) => Outcome { err: format!("Execute {operation:?} error: {text}\n"), ..Outcome::default() },
    })
}

fn customizations(args: &InterpretArgs) -> Result<Vec<ResourceInterpreterCustomization>, Error> {
    if args.filename.is_empty() {
        return Err(Error::message("must specify -f"));
    }
    let mut found = Vec::new();
    for path in args.filename.iter().map(|path| files(path, args.recursive)).collect::<Result<Vec<_>, _>>()?.concat() {
        for document in documents(&path)? {
            if document["kind"] != "ResourceInterpreterCustomization" {
                let kind = document["kind"].as_str().unwrap_or_default();
                return Err(Error::message(format!("{kind} is not a ResourceInterpreterCustomization")));
            }
            let customization = ResourceInterpreterCustomization::deserialize(&document);
            found.push(customization.map_err(|error| Error::message(format!("{}: {error}", path.display())))?);
        }
    }
    Ok(found)
}

fn files(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, Error> {
    if path.as_os_str() == "-" {
        return Ok(vec![path.to_owned()]);
    }
    if !path.exists() {
        return Err(Error::message(format!("the path {:?} does not exist", path.display().to_string())));
    }
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error: std::io::Error| Error::message(format!("{}: {error}", path.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?.path();
        let fits = entry.extension().is_some_and(|it| it == "yaml" || it == "yml" || it == "json");
        // A link to a directory could lead round in circles.
        if entry.is_dir() && !entry.is_symlink() && recursive {
            found.extend(files(&entry, recursive)?);
        } else if entry.is_file() && fits {
            found.push(entry);
        }
    }
    found.sort();
    Ok(found)
}

fn documents(path: &Path) -> Result<Vec<Value>, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::message(format!("{}: {error}", path.display()));
    let read =
        if path.as_os_str() == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    let text = read.map_err(|error| failed(&error))?;
    yaml::documents(text.as_bytes()).map_err(|error| failed(&error))
}

/// One document of a file.
fn document(path: Option<&PathBuf>) -> Result<Option<Value>, String> {
    let Some(path) = path else { return Ok(None) };
    let documents = documents(path).map_err(|error| error.to_string())?;
    match <[Value; 1]>::try_from(documents) {
        Ok([one]) => Ok(Some(one)),
        Err(many) => Err(format!("get {} objects from {}", many.len(), path.display())),
    }
}

fn check(engine: &Engine, customizations: &[ResourceInterpreterCustomization]) -> Outcome {
    let mut outcome = Outcome::default();
    for customization in customizations {
        let target = &customization.spec.target;
        outcome.out += "-----------------------------------\n";
        outcome.out += &format!("SOURCE: {}\n", customization.metadata.name);
        let missing = if target.kind.is_empty() {
            Some("target.kind no set")
        } else if target.api_version.is_empty() {
            Some("target.apiVersion no set")
        } else {
            None
        };
        if let Some(missing) = missing {
            outcome.out += &format!("{missing}\n");
            outcome.failed = true;
            continue;
        }
        outcome.out += &format!("TARGET: {} {}   \nRULERS:\n", target.api_version, target.kind);
        for operation in OPERATIONS {
            let script = scripted::rules(&customization.spec.customizations).find(|(it, _)| *it == operation);
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
    engine: &Engine,
    customizations: &[ResourceInterpreterCustomization],
    world: &World,
) -> Result<Vec<(&'static str, Value)>, String> {
    let scripts = Scripts::of_customizations(engine.clone(), customizations);
    let (desired, observed) = (document(args.desired_file.as_ref())?, document(args.observed_file.as_ref())?);
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
            let items = items(args.status_file.as_deref())?;
            scripts.aggregate_status(&mut object, &items, Time::new(world.now())).map_err(failed)?;
            vec![("aggregatedStatus", object)]
        }
        Operation::InterpretHealth => vec![("healthy", json!(scripts.interpret_health(&object).map_err(failed)?))],
        Operation::InterpretDependency => {
            vec![("dependencies", json!(scripts.get_dependencies(&object).map_err(failed)?))]
        }
    })
}

fn items(path: Option<&Path>) -> Result<Vec<AggregatedStatusItem>, String> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let documents = documents(path).map_err(|error| error.to_string())?;
    let decode =
        |it: &Value| AggregatedStatusItem::deserialize(it).map_err(|error| format!("{}: {error}", path.display()));
    documents.iter().map(decode).collect()
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
                return Err(Error::message(format!(
                    "unable to match a printer suitable for the output format {:?}, allowed formats are: {allowed}",
                    args.output
                )));
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

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const CUSTOMIZATION: &str = r#"
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: example}
spec:
  target: {apiVersion: apps/v1, kind: Deployment}
  customizations:
    replicaResource:
      luaScript: |
        local kube = require("kube")
        function GetReplicas(obj) return obj.spec.replicas, kube.accuratePodRequirements(obj.spec.template) end
    retention:
      luaScript: |
        function Retain(desired, observed) desired.spec.paused = observed.spec.paused return desired end
    healthInterpretation:
      luaScript: "function InterpretHealth(obj) return"
"#;
    const DESIRED: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3, template: {spec: {nodeSelector: {foo: bar}, containers: [{resources: {requests: {cpu: 100m}}}]}}}
"#;

    /// Runs the command in a directory with the files; `FILE` in an argument is a name in there.
    fn check(args: &[&str], expected: &Expect) {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: InterpretArgs,
        }
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("ric", CUSTOMIZATION),
            ("desired", DESIRED),
            ("observed", &DESIRED.replace("replicas: 3", "paused: true")),
        ] {
            std::fs::write(directory.path().join(format!("{name}.yaml")), text).unwrap();
        }
        let place = |arg: &&str| match arg.strip_suffix(".yaml") {
            Some(_) => directory.path().join(arg).display().to_string(),
            None => (*arg).to_owned(),
        };
        let line = ["interpret".to_owned()].into_iter().chain(args.iter().map(place));
        let args = <Line as clap::Parser>::parse_from(line).args;
        let world = World::simulated("2026-11-21T00:00:00Z".parse().unwrap(), 1);
        let text = match args.edits().and_then(|_| run(&args, &world)) {
            Ok(outcome) => format!("{}{}{}", outcome.out, outcome.err, if outcome.failed { "(failed)\n" } else { "" }),
            Err(error) => error.render(),
        };
        expected.assert_eq(&text.replace(&directory.path().display().to_string(), "DIR"));
    }

    #[test]
    fn checks() {
        check(
            &["-f", "ric.yaml", "--check"],
            &expect![[r#"
                -----------------------------------
                SOURCE: example
                TARGET: apps/v1 Deployment   
                RULERS:
                    Retain:                  PASS
                    InterpretReplica:        PASS
                    InterpretComponent:      UNSET
                    ReviseReplica:           UNSET
                    InterpretStatus:         UNSET
                    AggregateStatus:         UNSET
                    InterpretHealth:         ERROR: script:1: 'end' expected near '<eof>'
                    InterpretDependency:     UNSET
                (failed)
            "#]],
        );
        check(
            &["-f", "nofile.yaml", "--check"],
            &expect![[r#"
            error: the path "DIR/nofile.yaml" does not exist
        "#]],
        );
    }

    #[test]
    fn executions() {
        check(
            &["-f", "ric.yaml", "--operation", "interpretreplica", "--desired-file", "desired.yaml"],
            &expect![[r#"
            ---
            # [1/2] replica:
            3
            ---
            # [2/2] requires:
            nodeClaim:
              nodeSelector:
                foo: bar
            resourceRequest:
              cpu: 100m
        "#]],
        );
        check(
            &["-f", "ric.yaml", "--operation", "Retain", "--desired-file", "desired.yaml"],
            &expect![[r#"
            Execute Retain error: observed, observed-file options are not set
        "#]],
        );
        check(
            &["-f", "ric.yaml", "--operation", "AggregateStatus", "--desired-file", "desired.yaml"],
            &expect![[r#"
            Execute AggregateStatus error: rule is not enabled
        "#]],
        );
        check(
            &["-f", "ric.yaml", "--operation", "InterpretReplica", "--desired-file", "desired.yaml", "-o", "json"],
            &expect![[r#"
            ---
            # [1/2] replica:
            3
            ---
            # [2/2] requires:
            {
              "nodeClaim": {
                "nodeSelector": {
                  "foo": "bar"
                }
              },
              "resourceRequest": {
                "cpu": "100m"
              }
            }
        "#]],
        );
        check(
            &[
                "-f",
                "ric.yaml",
                "--operation",
                "InterpretReplica",
                "--desired-file",
                "desired.yaml",
                "-o",
                "jsonpath={.nodeClaim}",
            ],
            &expect![[r#"
            ---
            # [1/2] replica:

            ---
            # [2/2] requires:
            {"nodeSelector":{"foo":"bar"}}
        "#]],
        );
        check(
            &[
                "-f",
                "ric.yaml",
                "--operation",
                "Retain",
                "--desired-file",
                "desired.yaml",
                "--observed-file",
                "observed.yaml",
                "-o",
                "jsonpath",
                "--template",
                "{.metadata.name} {.none}",
                "--allow-missing-template-keys=false",
            ],
            &expect![[r#"
            error: error executing jsonpath "{.metadata.name} {.none}": Error executing template: none is not found
        "#]],
        );
        check(
            &["-f", "ric.yaml", "--operation", "Retain", "--desired-file", "desired.yaml", "-o", "jsonpath"],
            &expect![[r#"
            error: template format specified but no template given
        "#]],
        );
        check(
            &["-f", "ric.yaml", "--check", "--edit"],
            &expect![[r#"
            error: you can't set both --check and --edit options
        "#]],
        );
        check(
            &["-f", "ric.yaml"],
            &expect![[r#"
            error: operation is not set for executing
        "#]],
        );
        check(
            &["-f", "ric.yaml", "--operation", "Bogus"],
            &expect![[r#"
            error: operation Bogus is not supported. Use one of: Retain, InterpretReplica, InterpretComponent, ReviseReplica, InterpretStatus, AggregateStatus, InterpretHealth, InterpretDependency
        "#]],
        );
    }
}
