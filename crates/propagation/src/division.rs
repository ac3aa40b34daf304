//! Dividing seats by votes after Webster (Sainte-Laguë).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use apimachinery::hash::fnv1a32;

/// The final tie-breaker, so that leftovers do not always fall to the same cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// The first name.
    Ascending,
    /// The last name.
    Descending,
}

impl Ties {
    /// Descending when the hash of the workload's uid is odd.
    pub fn of_uid(uid: &str) -> Self {
        if !uid.is_empty() && fnv1a32(uid.as_bytes()) % 2 == 1 { Self::Descending } else { Self::Ascending }
    }
}

/// Assigns `seats`, one at a time, to the party with the greatest quotient `votes / (2 * seats + 1)`; on a tie to the
/// one with fewer seats, then by name. Parties are sorted by name, and so are the shares. Without votes no seats are
/// assigned.
///
/// Quotients form one order over all (party, seat) pairs, and the assigned seats are its first. Every pair at or above
/// the quotient `total / (2 * seats)` is assigned at once, and the surplus or deficit, at most one for each party, is
/// corrected one by one.
///
/// ```
/// use propagation::division::{Ties, shares};
///
/// // Five replicas over three clusters with the weights 3, 2 and 1.
/// assert_eq!(shares(5, &[3, 2, 1], Ties::Ascending), [2, 2, 1]);
/// ```
pub fn shares(seats: i64, votes: &[i64], ties: Ties) -> Vec<i64> {
    let votes: Vec<u64> = votes.iter().map(|votes| u64::try_from(*votes).unwrap_or(0)).collect();
    let target = u64::try_from(seats).unwrap_or(0);
    let total: u128 = votes.iter().map(|votes| u128::from(*votes)).sum();
    if total == 0 || target == 0 {
        return vec![0; votes.len()];
    }
    let mut assigned: Vec<u64> = votes.iter().map(|votes| about(*votes, target, total)).collect();
    let assigned_sum: u128 = assigned.iter().map(|assigned| u128::from(*assigned)).sum();
    let pair = |party: usize, seat: u64| Pair {
        votes: votes[party],
        seat,
        rank: if ties == Ties::Ascending { party } else { votes.len() - party },
        party,
    };
    if assigned_sum < u128::from(target) {
        let mut next: BinaryHeap<Pair> = (0..votes.len()).map(|party| pair(party, assigned[party])).collect();
        for _ in assigned_sum..u128::from(target) {
            let Some(first) = next.pop() else { break };
            assigned[first.party] += 1;
            next.push(pair(first.party, assigned[first.party]));
        }
    } else if assigned_sum > u128::from(target) {
        let taken = (0..votes.len()).filter(|party| assigned[*party] > 0);
        let mut last: BinaryHeap<std::cmp::Reverse<Pair>> =
            taken.map(|party| std::cmp::Reverse(pair(party, assigned[party] - 1))).collect();
        for _ in u128::from(target)..assigned_sum {
            let Some(std::cmp::Reverse(worst)) = last.pop() else { break };
            assigned[worst.party] -= 1;
            if assigned[worst.party] > 0 {
                last.push(std::cmp::Reverse(pair(worst.party, assigned[worst.party] - 1)));
            }
        }
    }
    assigned.into_iter().map(|assigned| i64::try_from(assigned).unwrap_or(i64::MAX)).collect()
}

/// `votes * seats / total` rounded half up: how many quotients of the party reach `total / (2 * seats)`.
fn about(votes: u64, seats: u64, total: u128) -> u64 {
    // Almost always everything fits 64 bits, where division is many times cheaper.
    let small = || {
        let total = u64::try_from(total).ok()?;
        let twice = votes.checked_mul(seats)?.checked_mul(2)?.checked_add(total)?;
        Some(twice / total.checked_mul(2)?)
    };
    small().unwrap_or_else(|| {
        let share = u128::from(votes) * u128::from(seats);
        let (whole, rest) = (share / total, share % total);
        u64::try_from(whole + u128::from(rest * 2 >= total)).unwrap_or(u64::MAX)
    })
}

/// A potential seat of a party; the greatest is assigned first.
#[derive(Clone, Copy, Debug)]
struct Pair {
    votes: u64,
    /// How many seats the party holds before this one.
    seat: u64,
    rank: usize,
    party: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        let quotient = |a: &Self, b: &Self| u128::from(a.votes) * (2 * u128::from(b.seat) + 1);
        quotient(self, other)
            .cmp(&quotient(other, self))
            .then(other.seat.cmp(&self.seat))
            .then(other.rank.cmp(&self.rank))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pair {}

/// [`shares`] by name, for parties in any order. Empty without votes.
pub fn webster(seats: i64, votes: &[(&str, i64)], uid: &str) -> BTreeMap<String, i64> {
    let mut parties = votes.to_vec();
    parties.sort_by_key(|(name, _)| *name);
    let votes: Vec<i64> = parties.iter().map(|(_, votes)| *votes).collect();
    if votes.iter().all(|votes| *votes <= 0) {
        return BTreeMap::new();
    }
    let shares = shares(seats, &votes, Ties::of_uid(uid));
    parties.into_iter().zip(shares).map(|((name, _), share)| (name.to_owned(), share)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, one seat at a time.
    fn slowly(seats: i64, votes: &[(&str, i64)]) -> Vec<i64> {
        let mut assigned = vec![0_i64; votes.len()];
        for _ in 0..seats {
            let quotient = |i: usize| (votes[i].1 as f64) / (2.0 * assigned[i] as f64 + 1.0);
            let best = (0..votes.len())
                .max_by(|a, b| {
                    quotient(*a).total_cmp(&quotient(*b)).then(assigned[*b].cmp(&assigned[*a])).then(b.cmp(a))
                })
                .unwrap();
            assigned[best] += 1;
        }
        assigned
    }

    #[test]
    fn vectors() {
        let even = [("m1", 1), ("m2", 1), ("m3", 1)];
        for (uid, expected) in
            [("", [2, 2, 1]), ("a", [2, 2, 1]), ("b", [1, 2, 2]), ("93162d3c-ee8e-4995-9034-05f4d5d2c2b9", [2, 2, 1])]
        {
            assert_eq!(webster(5, &even, uid).into_values().collect::<Vec<_>>(), expected, "{uid}");
        }
        assert_eq!(webster(6, &[("m1", 1), ("m2", 2)], "").into_values().collect::<Vec<_>>(), [2, 4]);
        assert!(webster(6, &[("m1", 0)], "").is_empty());
        assert_eq!(webster(1_000_000_000, &[("a", 1), ("b", 3)], "")["b"], 750_000_000);
    }

    #[test]
    fn whole_rounds_equal_single_seats() {
        for seats in 0..60 {
            for votes in
                [[("a", 1), ("b", 2), ("c", 7)], [("a", 5), ("b", 5), ("c", 1)], [("a", 0), ("b", 3), ("c", 100)]]
            {
                let fast: Vec<i64> = webster(seats, &votes, "").into_values().collect();
                assert_eq!(fast, slowly(seats, &votes), "{seats} over {votes:?}");
            }
            // Many small parties round up at the cost of the big one.
            let votes = [("a", 600), ("b", 600), ("c", 600), ("d", 600), ("e", 600), ("f", 5000)];
            let fast: Vec<i64> = webster(seats, &votes, "").into_values().collect();
            assert_eq!(fast, slowly(seats, &votes), "{seats} over {votes:?}");
        }
    }
}
