//! `karmada store adopt`: the etcd of another control plane before this program takes it over.

use std::fmt::Write as _;
use std::path::PathBuf;

use adoption::survey::{Counted, Survey};
use adoption::{installation, reading};
use anyhow::Context as _;
use apimachinery::object::ObjectTree as _;
use clap::Args;
use serde_json::{Value, json};
use storage::KeyValue;
use world::World;

use super::super::print;
use super::etcd::{Etcd, EtcdPlace};
use super::{Progress, count, size};
use crate::backups::stamp;

#[derive(Args)]
pub(super) struct AdoptArgs {
    #[command(flatten)]
    etcd: EtcdPlace,
    /// Print what etcd holds and what must be done, and change nothing
    #[arg(long)]
    check: bool,
    /// The format of --check: json or yaml; tables if not given
    #[arg(long, short, value_parser = ["json", "yaml"], requires = "check")]
    output: Option<String>,
    /// The file for the removed objects, to create them again when going back; removed-TIME.json if not given
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    removed: Option<PathBuf>,
}

pub(super) async fn run(args: &AdoptArgs, world: &World) -> anyhow::Result<()> {
    let etcd = args.etcd.open().await?;
    let done = if args.check { check(args, &etcd).await } else { prepare(args, &etcd, world).await };
    etcd.close();
    done
}

async fn surveyed(etcd: &Etcd) -> anyhow::Result<Survey> {
    let shown = etcd.shown();
    let mut progress = Progress::new("reading");
    let survey = reading::survey(&*etcd.decrypted, &shown, &mut |done, total| progress.of(done, total)).await;
    survey.context("reading etcd")
}

async fn check(args: &AdoptArgs, etcd: &Etcd) -> anyhow::Result<()> {
    let survey = surveyed(etcd).await?;
    let encoded = || serde_json::to_value(&survey).context("encoding the survey");
    print(&match args.output.as_deref() {
        Some("json") => format!("{:#}\n", encoded()?),
        Some(_) => apimachinery::yaml::to_string(&encoded()?),
        None => tables(&survey),
    });
    anyhow::ensure!(survey.can_be_adopted(), "etcd cannot be taken over yet: {}", obstacles(&survey));
    Ok(())
}

fn obstacles(survey: &Survey) -> String {
    let steps = survey.before.iter().filter(|step| step.key.is_none());
    let text = |step: &adoption::survey::Step| match step.object.as_str() {
        "" => format!("{}: {}", step.reason, step.next),
        object => format!("{object}: {}: {}", step.reason, step.next),
    };
    steps.map(text).collect::<Vec<_>>().join("; ")
}

async fn prepare(args: &AdoptArgs, etcd: &Etcd, world: &World) -> anyhow::Result<()> {
    let survey = surveyed(etcd).await?;
    anyhow::ensure!(survey.can_be_adopted(), "etcd cannot be taken over yet: {}", obstacles(&survey));
    let items = installation::to_remove(&*etcd.store, &survey).await.context("reading etcd")?;
    let objects = count(survey.objects(), "object");
    if items.is_empty() {
        print(&format!("{objects} in etcd are understood; nothing has to be removed\n"));
        return Ok(());
    }
    let file = args.removed.clone().unwrap_or_else(|| format!("removed-{}.json", stamp(world.now())).into());
    let text = format!("{:#}\n", list(&items)?);
    // The file for the return is written first: a crash after it removes nothing.
    let mut out = std::fs::OpenOptions::new().write(true).create_new(true).open(&file);
    let written = out.as_mut().map_err(|error| std::io::Error::new(error.kind(), error.to_string()));
    written
        .and_then(|out| std::io::Write::write_all(out, text.as_bytes()).and_then(|()| out.sync_all()))
        .with_context(|| format!("writing {}", file.display()))?;
    installation::remove(&*etcd.store, &items).await.context("removing objects of the old installation")?;
    let mut text = String::new();
    // Writing to a String cannot fail.
    for step in survey.before.iter().filter(|step| step.key.is_some()) {
        let _ = writeln!(text, "{} removed: {}", step.object, step.reason);
    }
    let _ = writeln!(text, "They are kept in {}, to be created again when going back", file.display());
    let _ = writeln!(text, "{objects} in etcd are understood");
    print(&text);
    Ok(())
}

/// A list that `kubectl create -f` takes.
fn list(items: &[KeyValue]) -> anyhow::Result<Value> {
    let mut objects = Vec::new();
    for item in items {
        let mut object: Value = serde_json::from_slice(&item.value).context("decoding an object to remove")?;
        if let Some(metadata) = object.metadata_mut() {
            for field in ["uid", "creationTimestamp", "generation", "managedFields"] {
                metadata.remove(field);
            }
        }
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        objects.push(object);
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": objects}))
}

fn tables(survey: &Survey) -> String {
    let width = survey.resources.keys().map(String::len).max().unwrap_or(0).max(8);
    let mut text =
        format!("{:width$}   {:>8}   {:>10}   {:16}   STORED AS\n", "RESOURCE", "OBJECTS", "SIZE", "VERSIONS");
    // Writing to a String cannot fail.
    for (name, counted) in &survey.resources {
        let versions = counted.versions.keys().map(String::as_str).collect::<Vec<_>>().join(",");
        let (objects, bytes) = (counted.objects, size(counted.bytes));
        let _ = writeln!(text, "{name:width$}   {objects:>8}   {bytes:>10}   {versions:16}   {}", forms(counted));
    }
    let _ = writeln!(text, "\nRevision:   {}", survey.revision);
    let _ = writeln!(text, "Objects:    {}", survey.objects());
    for (name, ignored) in &survey.ignored {
        let _ = writeln!(text, "Not used:   {} {}: {}", count(ignored.keys, "key"), name, ignored.reason);
    }
    for name in &survey.without_definition {
        let _ = writeln!(text, "Not served: {name}: it has no CustomResourceDefinition");
    }
    for (what, number) in &survey.kept {
        let _ = writeln!(text, "Kept:       {number} {what}");
    }
    for (field, number) in &survey.unknown_fields {
        let objects = count(*number, "object");
        let _ =
            writeln!(text, "Unknown:    {field}: {objects} served without it, and stored without it by the next write");
    }
    for finding in &survey.findings {
        let _ = writeln!(text, "Not understood: {}: {}", finding.key, finding.reason);
    }
    if survey.before.is_empty() {
        text.push_str("\nNothing has to be done first.\n");
        return text;
    }
    text.push_str("\nBefore this program takes it over:\n");
    for (n, step) in survey.before.iter().enumerate() {
        let object = if step.object.is_empty() { String::new() } else { format!("{}: ", step.object) };
        let _ = writeln!(text, "{}. {object}{}\n   {}", n + 1, step.reason, step.next);
    }
    text
}

fn forms(counted: &Counted) -> String {
    let mut forms: Vec<_> = [(counted.protobuf, "protobuf"), (counted.json, "JSON")]
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, name)| if number == counted.objects { name.to_owned() } else { format!("{number} {name}") })
        .collect();
    forms.extend(counted.encrypted.iter().map(|(provider, number)| format!("{number} encrypted with {provider}")));
    forms.join(", ")
}
