//! Metrics of no single component: the store of an API server, the build, the resources of the process.

use std::path::{Path, PathBuf};

use metrics::{Description, Registry, Samples};
use storage::embedded::{EmbeddedStore, Stats};

const REVISIONS: Description = Description::counter("karmada_store_revisions_total", &[], "Revisions written.");
const BATCHES: Description =
    Description::counter("karmada_store_batches_total", &[], "Durable transactions of the engine.");
const SYNCS: Description = Description::counter("karmada_store_syncs_total", &[], "Syncs of the database and its log.");
const MARK_SYNCS: Description = Description::counter(
    "karmada_store_mark_syncs_total",
    &[],
    "Syncs of the acknowledgement mark, at most one a second.",
);
const DAMAGED: Description = Description::gauge(
    "karmada_store_damaged",
    &[],
    "Damaged places found in the store since it was opened; 0 unless the disk or a copy of it failed.",
);
const BYTES: Description = Description::counter("karmada_store_bytes_total", &[], "Bytes of keys and values written.");
const SIZE: Description = Description::gauge("karmada_store_size_bytes", &[], "Bytes of the files of the store.");
const FREE: Description = Description::gauge(
    "karmada_store_free_bytes",
    &[],
    "Free bytes in the file system of the store, for this process.",
);
const DATABASE: Description = Description::gauge(
    "apiserver_storage_size_bytes",
    &["storage_cluster_id"],
    "Bytes of the files of the store, with kube-apiserver's name for the size of its database.",
);
pub const ALL: &[Description] = &[REVISIONS, BATCHES, SYNCS, BYTES, MARK_SYNCS, DAMAGED, SIZE, FREE, DATABASE];

/// Counters of an embedded store since it was opened, and the sizes of its files at each scrape.
pub fn of_store(registry: &Registry, store: EmbeddedStore, directory: PathBuf) {
    registry.collect(move |samples| {
        count(samples, &store.stats());
        disk_space(samples, &directory);
        true
    });
}

fn count(samples: &mut Samples, stats: &Stats) {
    let values = [stats.revisions, stats.batches, stats.syncs, stats.bytes, stats.mark_syncs];
    for (family, value) in ALL.iter().zip(values) {
        samples.counter(family, &[], value);
    }
    samples.gauge(&DAMAGED, &[], f64::from(u32::try_from(stats.damaged).unwrap_or(u32::MAX)));
}

/// The size of the files, and the free space of their disk.
fn disk_space(samples: &mut Samples, directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok()).filter(std::fs::Metadata::is_file);
    let size = sizes.map(|file| file.len() as f64).sum();
    samples.gauge(&SIZE, &[], size);
    samples.gauge(&DATABASE, &["embedded"], size);
    if let Ok(system) = rustix::fs::statvfs(directory) {
        samples.gauge(&FREE, &[], system.f_bavail as f64 * system.f_frsize as f64);
    }
}

pub const BUILD: Description = Description::gauge(
    "karmada_build_info",
    &[
        "git_version",
        "git_commit",
        "git_short_commit",
        "git_tree_state",
        "build_date",
        "go_version",
        "compiler",
        "platform",
    ],
    "1, with what was built; go_version is Rust's.",
);
pub const KUBERNETES: Description = Description::gauge(
    "kubernetes_build_info",
    &[
        "major",
        "minor",
        "git_version",
        "git_commit",
        "git_tree_state",
        "build_date",
        "go_version",
        "compiler",
        "platform",
    ],
    "1, with the version of Kubernetes whose API is served.",
);
const CPU: Description = Description::sum("process_cpu_seconds_total", &[], "CPU time in seconds, user and system.");
const RESIDENT: Description = Description::gauge("process_resident_memory_bytes", &[], "Resident memory.");
const VIRTUAL: Description = Description::gauge("process_virtual_memory_bytes", &[], "Virtual memory.");
const STARTED: Description =
    Description::gauge("process_start_time_seconds", &[], "Start time of the process, in seconds since 1970.");
const OPEN_FILES: Description = Description::gauge("process_open_fds", &[], "Open file descriptors.");
const MAX_FILES: Description = Description::gauge("process_max_fds", &[], "Maximum number of open file descriptors.");
pub const PROCESS: &[Description] = &[BUILD, KUBERNETES, CPU, RESIDENT, VIRTUAL, STARTED, OPEN_FILES, MAX_FILES];

/// The clock of `/proc`: 100 ticks a second on every architecture Linux offers to programs today.
const TICKS: f64 = 100.0;

/// The build and the resources of this process; only the build where there is no `/proc`.
pub fn of_process(registry: &Registry) {
    registry.gauges(&BUILD).set(&karmadactl::version::Build::this().fields(), 1.0);
    let served = crate::access::version();
    let fields = [
        &*served.major,
        &served.minor,
        &served.git_version,
        &served.git_commit,
        &served.git_tree_state,
        &served.build_date,
        &served.go_version,
        &served.compiler,
        &served.platform,
    ];
    registry.gauges(&KUBERNETES).set(&fields, 1.0);
    registry.collect(|samples| {
        let texts = ["self/stat", "stat", "self/status", "self/limits"]
            .map(|path| std::fs::read_to_string(format!("/proc/{path}")).unwrap_or_default());
        let Some(usage) = usage(&texts) else { return true };
        samples.sum(&CPU, &[], usage.cpu);
        samples.gauge(&RESIDENT, &[], usage.resident);
        samples.gauge(&VIRTUAL, &[], usage.virtual_memory);
        samples.gauge(&STARTED, &[], usage.started);
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            samples.gauge(&OPEN_FILES, &[], f64::from(u32::try_from(open.count()).unwrap_or(u32::MAX)));
        }
        if let Some(most) = usage.max_files {
            samples.gauge(&MAX_FILES, &[], most);
        }
        true
    });
}

#[derive(Debug, PartialEq)]
struct Usage {
    cpu: f64,
    resident: f64,
    virtual_memory: f64,
    started: f64,
    max_files: Option<f64>,
}

/// Parses `/proc/self/stat`, `/proc/stat`, `/proc/self/status` and `/proc/self/limits`; see proc(5).
fn usage([stat, system, status, limits]: &[String; 4]) -> Option<Usage> {
    // The name of the program, in parentheses, may hold blanks.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // The field that proc(5) numbers 3 is the first after the name.
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let after = |text: &str, name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    };
    Some(Usage {
        cpu: (field(14)? + field(15)?) / TICKS,
        resident: after(status, "VmRSS:")? * 1024.0,
        virtual_memory: after(status, "VmSize:")? * 1024.0,
        started: after(system, "btime ")? + field(22)? / TICKS,
        max_files: after(limits, "Max open files"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_a_process_is_read() {
        let texts = [
            "77 (a (b) c) S 1 1 1 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 9 0 1200 4096000 100 18446744073709551615 1",
            "cpu 1 2\nbtime 1000\n",
            "Name: a\nVmSize:\t    4000 kB\nVmRSS:\t     400 kB\n",
            "Limit Soft Limit Hard Limit Units\nMax open files            1024                 4096    files\n",
        ];
        let expected = Usage {
            cpu: 3.0,
            resident: 409_600.0,
            virtual_memory: 4_096_000.0,
            started: 1012.0,
            max_files: Some(1024.0),
        };
        assert_eq!(usage(&texts.map(str::to_owned)), Some(expected));
        assert_eq!(usage(&Default::default()), None);
    }

    #[test]
    fn every_counter_has_its_type() {
        let registry = Registry::default();
        registry.collect(|samples| {
            count(samples, &Stats { syncs: 7, ..Stats::default() });
            true
        });
        let text = registry.text();
        assert!(text.contains("# TYPE karmada_store_syncs_total counter\nkarmada_store_syncs_total 7\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE")).count(), 6);
    }
}
