//! What the store of an API server has done, among the server's numbers.

use metrics::{Description, Registry, Samples};
use storage::embedded::{EmbeddedStore, Stats};

const REVISIONS: Description = Description::counter("karmada_store_revisions_total", &[], "Revisions written.");
const BATCHES: Description =
    Description::counter("karmada_store_batches_total", &[], "Durable transactions of the engine.");
const SYNCS: Description = Description::counter("karmada_store_syncs_total", &[], "Times the disk was told to sync.");
const BYTES: Description = Description::counter("karmada_store_bytes_total", &[], "Bytes of keys and values written.");
pub const ALL: &[Description] = &[REVISIONS, BATCHES, SYNCS, BYTES];

/// Counts what an embedded store does since it was opened.
pub fn of_store(registry: &Registry, store: EmbeddedStore) {
    registry.collect(move |samples| {
        count(samples, &store.stats());
        true
    });
}

fn count(samples: &mut Samples, stats: &Stats) {
    for (family, value) in ALL.iter().zip([stats.revisions, stats.batches, stats.syncs, stats.bytes]) {
        samples.counter(family, &[], value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_type() {
        let registry = Registry::default();
        registry.collect(|samples| {
            count(samples, &Stats { syncs: 7, ..Stats::default() });
            true
        });
        let text = registry.text();
        assert!(text.contains("# TYPE karmada_store_syncs_total counter\nkarmada_store_syncs_total 7\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("# TYPE")).count(), 4);
    }
}
