//! `explain-placement` and `schedule --dry-run`: the reasons of a placement, and predictions. Both use the scheduler's
//! functions on the state from the server or a file; they never write.

pub mod advice;
mod concerned;
mod explain;
pub mod explanation;
#[cfg(test)]
mod explanation_tests;
pub mod failing;
mod forecast;
pub mod live;
pub mod places;
pub mod selecting;
pub mod source;
pub mod subject;

use clap::Args;
use serde_json::Value;

use crate::Context;
use crate::error::{Error, no_printer};

pub use explain::explain;
pub use forecast::forecast;

#[derive(Args)]
pub struct ExplainArgs {
    /// The workload: TYPE NAME, TYPE/NAME, or NAME alone, which may be that of its binding
    #[arg(value_name = "TYPE NAME")]
    names: Vec<String>,
    /// Namespace of the workload; the kubeconfig's when absent.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Type of the workload, where several have the name
    #[arg(long)]
    kind: Option<String>,
    /// Read clusters and the binding from this file instead of from the server; `-` is the standard input.
    #[arg(short = 'f', long = "filename")]
    filename: Option<String>,
    /// Save the input of the explanation to this file
    #[arg(long)]
    save: Option<std::path::PathBuf>,
    #[command(flatten)]
    shared: SharedArgs,
}

#[derive(Args)]
pub struct ScheduleArgs {
    /// Templates, policies and clusters that are not on the server, or replace those on the server.
    #[arg(short = 'f', long = "filename")]
    filename: Vec<String>,
    /// Namespace of manifests without one; the kubeconfig's when absent.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Print the decision without executing it. Required, because the command has no other mode.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    shared: SharedArgs,
}

#[derive(Args)]
struct SharedArgs {
    /// Decide without this cluster; repeatable.
    #[arg(long, value_delimiter = ',')]
    without_cluster: Vec<String>,
    /// Output format: json or yaml; a table when absent.
    #[arg(short, long, default_value = "")]
    output: String,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Table,
    Json,
    Yaml,
}

impl SharedArgs {
    fn form(&self) -> Result<Form, Error> {
        match self.output.as_str() {
            "" => Ok(Form::Table),
            "json" => Ok(Form::Json),
            "yaml" => Ok(Form::Yaml),
            other => Err(Error::message(no_printer(other, "json,yaml"))),
        }
    }
}

fn print(context: &Context, form: Form, value: &Value, text: impl FnOnce() -> String) {
    let shown = match form {
        Form::Table => text(),
        Form::Json => format!("{value:#}\n"),
        Form::Yaml => apimachinery::yaml::to_string(value),
    };
    context.print(&shown);
}
