//! Finds another choice of clusters over regions if the first lacks capacity. Regions are selected by the capacity of
//! their best clusters, so a choice can lack capacity in total although another one has enough.

use crate::candidate::{Candidate, rank};
use crate::problem::Bounds;

/// Beyond this many steps no repair is attempted: the table would take more than 16 MB.
const STEPS: usize = 4_000_000;

/// Chooses clusters with capacity for `need` in as few regions, and then as few clusters, as the limits allow. `None`
/// when no allowed choice has the capacity.
pub(crate) fn repair(
    regions: &[Vec<Candidate>],
    region_limits: Bounds,
    cluster_limits: Bounds,
    need: i64,
) -> Option<Vec<Candidate>> {
    let regions: Vec<Vec<Candidate>> = regions.iter().map(|members| largest_first(members)).collect();
    let most_regions = region_limits.max.min(regions.len());
    let members: usize = regions.iter().map(Vec::len).sum();
    let most_clusters = cluster_limits.max.max(most_regions).min(members);
    if members.saturating_mul(most_regions).saturating_mul(most_clusters) > STEPS {
        return None;
    }
    let table = Table::fill(&regions, most_regions, most_clusters);
    for used in region_limits.min..=most_regions {
        // Each region brings one cluster, even if the cluster constraint allows fewer.
        for clusters in used.max(cluster_limits.min)..=cluster_limits.max.max(used).min(most_clusters) {
            if table.capacity(used, clusters) >= Some(need) {
                let mut chosen = table.choice(&regions, used, clusters);
                rank(&mut chosen);
                return Some(chosen);
            }
        }
    }
    None
}

fn largest_first(members: &[Candidate]) -> Vec<Candidate> {
    let mut sorted = members.to_vec();
    sorted.sort_by_key(|it| std::cmp::Reverse(it.available()));
    sorted
}

/// The largest capacity for each number of regions and clusters.
struct Table {
    columns: usize,
    capacity: Vec<Option<i64>>,
    /// For each region, how many of its clusters the best choice up to it takes.
    taken: Vec<Vec<u32>>,
}

impl Table {
    fn fill(regions: &[Vec<Candidate>], most_regions: usize, most_clusters: usize) -> Self {
        let columns = most_clusters + 1;
        let mut capacity: Vec<Option<i64>> = vec![None; (most_regions + 1) * columns];
        capacity[0] = Some(0);
        let mut taken = Vec::with_capacity(regions.len());
        for members in regions {
            let mut takes = vec![0_u32; capacity.len()];
            // Descending, so that a region is used once.
            for used in (1..=most_regions).rev() {
                for clusters in (1..=most_clusters).rev() {
                    let cell = used * columns + clusters;
                    let mut sum = 0_i64;
                    for (count, member) in (1_u32..).zip(members.iter().take(clusters)) {
                        sum = sum.saturating_add(member.available());
                        let before = capacity[(used - 1) * columns + clusters - count as usize];
                        let with = before.map(|before| before.saturating_add(sum));
                        if with > capacity[cell] {
                            capacity[cell] = with;
                            takes[cell] = count;
                        }
                    }
                }
            }
            taken.push(takes);
        }
        Self { columns, capacity, taken }
    }

    fn capacity(&self, used: usize, clusters: usize) -> Option<i64> {
        self.capacity.get(used * self.columns + clusters).copied().flatten()
    }

    fn choice(&self, regions: &[Vec<Candidate>], mut used: usize, mut clusters: usize) -> Vec<Candidate> {
        let mut chosen = Vec::new();
        for (members, takes) in regions.iter().zip(&self.taken).rev() {
            let count = takes[used * self.columns + clusters] as usize;
            if count > 0 {
                chosen.extend(members.iter().take(count));
                used -= 1;
                clusters -= count;
            }
        }
        chosen
    }
}
