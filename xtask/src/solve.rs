//! `cargo xtask solve`: the scheduler's decision and its reasons, from files instead of a control plane.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use karmada_api::Scope;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::Binding;
use scheduling::report::Report;
use scheduling::{Gates, Snapshot};
use serde_json::Value;

use crate::problems::SchedulingProblem;

/// Print a document of cases with every `expect` filled in, or the decision for a binding with its reasons, cluster by
/// cluster.
#[derive(Args)]
pub struct Solve {
    /// A JSON document of cases, as `gen-problems` writes them. Or YAML documents: Clusters, and one ResourceBinding or
    /// ClusterResourceBinding. `-` is the standard input.
    file: PathBuf,
    /// Include clusters without replicas.
    #[arg(long)]
    enable_empty_workload_propagation: bool,
    /// Place components of a workload together.
    #[arg(long)]
    multiple_pod_templates: bool,
    /// Decide by this project's rules instead of upstream's: try other regions if the selected ones lack capacity,
    /// spread over providers, zones and labels, treat a missing `maxGroups` as no limit.
    #[arg(long)]
    ours: bool,
}

impl Solve {
    pub fn run(&self) -> anyhow::Result<()> {
        let text = self.read()?;
        let base = if self.ours { Gates::default() } else { Gates::upstream() };
        let gates = Gates {
            empty_workload: self.enable_empty_workload_propagation,
            multiple_pod_templates: self.multiple_pod_templates,
            ..base
        };
        if let Ok(mut document) = serde_json::from_slice::<Value>(&text)
            && document.get("kind").is_none()
        {
            scheduling::cases::solve(&mut document, &gates)?;
            println!("{}", serde_json::to_string_pretty(&document)?);
            return Ok(());
        }
        let problem = parse(&text)?;
        print!("{}", report(&problem, &gates)?);
        Ok(())
    }

    fn read(&self) -> anyhow::Result<Vec<u8>> {
        let mut text = Vec::new();
        if self.file.as_os_str() == "-" {
            std::io::stdin().read_to_end(&mut text).context("reading the standard input")?;
        } else {
            text = std::fs::read(&self.file).with_context(|| format!("reading {}", self.file.display()))?;
        }
        Ok(text)
    }
}

/// Reads a stream of documents.
pub fn parse(stream: &[u8]) -> anyhow::Result<SchedulingProblem> {
    let mut clusters = Vec::new();
    let mut binding = None;
    for document in apimachinery::yaml::documents(stream).context("reading YAML")? {
        let scope = match document["kind"].as_str().unwrap_or_default() {
            "Cluster" => {
                let cluster: Cluster = serde_json::from_value(document).context("reading a Cluster")?;
                clusters.push(Arc::new(cluster));
                continue;
            }
            // `karmadactl explain-placement --save` writes them; they do not affect decisions.
            "Work" => continue,
            "ResourceBinding" => Scope::Namespaced,
            "ClusterResourceBinding" => Scope::Cluster,
            other => {
                bail!("a document of kind {other:?}: Cluster, ResourceBinding or ClusterResourceBinding is wanted")
            }
        };
        if binding.replace(read_binding(scope, &document)?).is_some() {
            bail!("there is more than one binding");
        }
    }
    Ok(SchedulingProblem { clusters, binding: binding.context("there is no binding")? })
}

fn read_binding(scope: Scope, document: &Value) -> anyhow::Result<Binding> {
    let binding = Binding::from_value(scope, document).context("reading a binding")?;
    if binding.spec.placement.is_none() {
        bail!("the binding has no spec.placement");
    }
    Ok(binding)
}

/// The decision in one line.
pub fn summary(problem: &SchedulingProblem) -> String {
    report_of(problem, &Gates::default()).map_or_else(|| "no placement".to_owned(), |report| report.result())
}

/// The decision and the result for each cluster.
pub fn report(problem: &SchedulingProblem, gates: &Gates) -> anyhow::Result<String> {
    Ok(report_of(problem, gates).context("the binding has no placement")?.to_text())
}

fn report_of(problem: &SchedulingProblem, gates: &Gates) -> Option<Report> {
    Report::of(&problem.binding, &Snapshot::of_clusters(problem.clusters.iter().cloned()), gates)
}
