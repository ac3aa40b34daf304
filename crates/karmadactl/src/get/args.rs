//! The flags of `get`, with upstream's names; `--field-selector` and `--chunk-size` are kubectl's.

use apimachinery::jsonpath::JsonPath;
use clap::Args;

use super::{Options, Output, Watch};
use crate::Context;
use crate::error::Error;

#[derive(Args)]
pub struct GetArgs {
    /// TYPE[,TYPE] [NAME...], or TYPE/NAME ...
    pub args: Vec<String>,
    /// Operate on the control plane (karmada), on member clusters (members), or on both (all).
    #[arg(short = 's', long, env = "KARMADACTL_OPERATION_SCOPE", default_value = "karmada")]
    pub operation_scope: String,
    /// Member clusters to include, with the scopes members and all; all of them when empty.
    #[arg(short = 'C', long, value_delimiter = ',')]
    pub clusters: Vec<String>,
    /// Namespace of the objects; that of the kubeconfig's context when empty.
    #[arg(short = 'n', long)]
    pub namespace: Option<String>,
    /// List objects of all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Filter by labels, with '=', '==', '!=', 'in' and 'notin' (e.g. -l key1=value1,key2=value2).
    #[arg(short = 'l', long, visible_alias = "selector")]
    pub labels: Option<String>,
    /// Filter by fields, with '=', '==' and '!=' (e.g. --field-selector metadata.name=nginx).
    #[arg(long)]
    pub field_selector: Option<String>,
    /// Output format. One of: (wide, json, yaml, kyaml, name, jsonpath, jsonpath-as-json, jsonpath-file,
    /// go-template, go-template-file, template, templatefile, custom-columns, custom-columns-file).
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
    /// Template string or path to a template file, with -o=go-template and -o=go-template-file.
    #[arg(long, default_value = "")]
    pub template: String,
    /// If true, ignore errors in templates when a field or map key is missing.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allow_missing_template_keys: bool,
    /// Read large lists in chunks of this many objects. Pass 0 to read them at once.
    #[arg(long, default_value_t = 500)]
    pub chunk_size: usize,
    /// Treat an object that does not exist as success.
    #[arg(long)]
    pub ignore_not_found: bool,
    /// Don't print headers.
    #[arg(long)]
    pub no_headers: bool,
    /// Print the resource type before each name.
    #[arg(long)]
    pub show_kind: bool,
    /// Print all labels as the last column.
    #[arg(long)]
    pub show_labels: bool,
    /// Keep metadata.managedFields in JSON and YAML.
    #[arg(long)]
    pub show_managed_fields: bool,
    /// Print each of these labels as a column.
    #[arg(short = 'L', long, value_delimiter = ',')]
    pub label_columns: Vec<String>,
    /// Sort by the field at this JSONPath expression (e.g. .metadata.name).
    #[arg(long)]
    pub sort_by: Option<String>,
    /// After listing, watch for changes.
    #[arg(short = 'w', long)]
    pub watch: bool,
    /// Watch for changes without listing first.
    #[arg(long)]
    pub watch_only: bool,
    /// Print the type of each event before its row, with --watch or --watch-only.
    #[arg(long)]
    pub output_watch_events: bool,
}

impl GetArgs {
    /// The arguments and the options for them.
    pub fn options(self, context: &Context) -> Result<(Vec<String>, Options), Error> {
        let watching = self.watch || self.watch_only;
        if self.output_watch_events && !watching {
            let rule = "--output-watch-events option can only be used with --watch or --watch-only";
            return Err(Error::message(rule));
        }
        let mut output = Output::parse_with(&self.output, &self.template, self.allow_missing_template_keys)?;
        if self.no_headers {
            output.without_headings();
        }
        if self.show_labels && !output.is_table() {
            let name = self.output.split('=').next().unwrap_or_default();
            return Err(Error::message(format!("--show-labels option cannot be used with {name} printer")));
        }
        let sort_text = self.sort_by.clone().unwrap_or_default();
        let watch = Watch { only_changes: self.watch_only, events: self.output_watch_events };
        let options = Options {
            scope: crate::scope::parse(&self.operation_scope)?,
            clusters: self.clusters,
            namespace: self.namespace.unwrap_or_else(|| context.namespace()),
            all_namespaces: self.all_namespaces,
            labels: self.labels,
            field_selector: self.field_selector,
            output,
            chunk_size: self.chunk_size,
            ignore_not_found: self.ignore_not_found,
            no_headers: self.no_headers,
            show_kind: self.show_kind,
            show_labels: self.show_labels,
            show_managed_fields: self.show_managed_fields,
            label_columns: self.label_columns,
            sort_field: format!("{{.{}}}", sort_text.trim_matches(['{', '}']).trim_start_matches('.')),
            sort_by: self
                .sort_by
                .as_deref()
                .filter(|text| !text.is_empty())
                .map(JsonPath::parse_relaxed)
                .transpose()
                .map_err(|e| Error::message(e.to_string()))?,
            watch: watching.then_some(watch),
        };
        Ok((self.args, options))
    }
}
