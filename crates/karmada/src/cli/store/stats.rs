//! `karmada store stats`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use storage::embedded::inspect::measure;

use super::super::print;
use super::{DataDirArgs, ensure_store, size, time};
use crate::backups::Last;
use crate::data_dir::DataDir;

#[derive(Args)]
pub(super) struct StatsArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// The format: json or yaml; a table if not given
    #[arg(long, short, value_parser = ["json", "yaml"])]
    output: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stats {
    /// A process has the store open.
    in_use: bool,
    revision: u64,
    /// Watches and reads reach back to here.
    oldest_revision: u64,
    objects: Sum,
    /// By resource, as `kubectl api-resources -o name` prints it.
    resources: BTreeMap<String, Sum>,
    /// Retained older versions and deletions of objects.
    history_rows: u64,
    leases: u64,
    files: BTreeMap<String, u64>,
    breaks: Vec<BreakShown>,
    last_backup: Option<Last>,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Sum {
    count: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

#[derive(Serialize)]
struct BreakShown {
    kind: &'static str,
    before: u64,
    after: u64,
    when: Option<String>,
}

pub(super) fn run(args: &StatsArgs) -> anyhow::Result<()> {
    let stats = gather(args)?;
    let text = match args.output.as_deref() {
        Some("json") => serde_json::to_string_pretty(&stats).context("encoding the figures")? + "\n",
        Some(_) => apimachinery::yaml::to_string(&serde_json::to_value(&stats).context("encoding the figures")?),
        None => table(&stats),
    };
    print(&text);
    Ok(())
}

fn gather(args: &StatsArgs) -> anyhow::Result<Stats> {
    let data_dir = &args.data_dir.data_dir;
    ensure_store(data_dir)?;
    let (mut objects, mut resources) = (Sum::default(), BTreeMap::<String, Sum>::new());
    let measured = measure(&DataDir::store(data_dir), &mut |key, bytes| {
        objects.add(bytes);
        let place = apiserver::cache::keys::split(key).map_or_else(|| "other".to_owned(), |(place, _)| resource(place));
        resources.entry(place).or_default().add(bytes);
    })
    .with_context(|| format!("reading the store in {}", data_dir.display()))?;
    let name = |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let shown = |it: &storage::embedded::Break| BreakShown {
        kind: it.kind.as_str(),
        before: it.before,
        after: it.after,
        when: it.when.map(time),
    };
    Ok(Stats {
        in_use: measured.in_use,
        revision: measured.revision,
        oldest_revision: measured.oldest,
        objects,
        resources,
        history_rows: measured.rows.saturating_sub(objects.count),
        leases: measured.leases,
        files: measured.files.iter().map(|(path, length)| (name(path), *length)).collect(),
        breaks: measured.breaks.iter().map(shown).collect(),
        last_backup: Last::read(data_dir),
    })
}

/// `apps/deployments` is `deployments.apps`, `core/secrets` is `secrets`.
fn resource(place: &str) -> String {
    match place.split_once('/') {
        Some(("core", plural)) => plural.to_owned(),
        Some((group, plural)) => format!("{plural}.{group}"),
        None => place.to_owned(),
    }
}

fn table(stats: &Stats) -> String {
    let width = stats.resources.keys().map(String::len).max().unwrap_or(0).max(8);
    let mut text = format!("{:width$}   {:>8}   {:>10}\n", "RESOURCE", "OBJECTS", "SIZE");
    let mut rows: Vec<_> = stats.resources.iter().collect();
    rows.sort_by_key(|(name, sum)| (std::cmp::Reverse(sum.bytes), *name));
    // Writing to a String cannot fail.
    for (name, sum) in rows {
        let _ = writeln!(text, "{name:width$}   {:>8}   {:>10}", sum.count, size(sum.bytes));
    }
    let _ = writeln!(text, "{:width$}   {:>8}   {:>10}\n", "total", stats.objects.count, size(stats.objects.bytes));
    let _ = writeln!(text, "Revision:      {}", stats.revision);
    let _ = writeln!(text, "History:       from revision {}, {} rows", stats.oldest_revision, stats.history_rows);
    let _ = writeln!(text, "Leases:        {}", stats.leases);
    for (place, (name, length)) in stats.files.iter().enumerate() {
        let title = if place == 0 { "Files:" } else { "" };
        let _ = writeln!(text, "{title:<15}{name} {}", size(*length));
    }
    for it in &stats.breaks {
        let when = it.when.as_deref().unwrap_or("unknown");
        let _ =
            writeln!(text, "Break:         {} at {when}, revision {} continues at {}", it.kind, it.before, it.after);
    }
    let _ = writeln!(text, "In use:        {}", if stats.in_use { "yes" } else { "no" });
    match &stats.last_backup {
        Some(last) => {
            let (time, file) = (last.time.strftime("%FT%TZ"), last.file.display());
            let _ = writeln!(text, "Last backup:   {time}, revision {}, {} in {file}", last.revision, size(last.bytes));
        }
        None => text.push_str("Last backup:   none is noted; take one: karmada store backup\n"),
    }
    text
}
