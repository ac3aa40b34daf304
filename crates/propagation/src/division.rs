//! Dividing seats by votes after Webster (Sainte-Laguë).

use std::collections::BTreeMap;

use apimachinery::hash::fnv1a32;

/// Gives `seats` out, one at a time, to the party with the greatest quotient `votes / (2 * seats + 1)`; on a tie to the
/// one with fewer seats, then by name: upwards, or downwards if the hash of `uid` is odd, so that leftovers do not
/// always fall to the same cluster. Nothing is given out when nobody has votes.
pub fn webster(seats: i64, votes: &[(&str, i64)], uid: &str) -> BTreeMap<String, i64> {
    let downwards = !uid.is_empty() && fnv1a32(uid.as_bytes()) % 2 == 1;
    let mut parties: Vec<(&str, i128, i64)> =
        votes.iter().map(|(name, votes)| (*name, i128::from((*votes).max(0)), 0)).collect();
    if parties.iter().all(|(_, votes, _)| *votes == 0) {
        return BTreeMap::new();
    }
    // With n parties and V votes, the divisor V / (seats - n/2) gives out at most `seats` seats, and the final divisor
    // is no greater: what it gives is sure, and at most n + 1 seats are left to give out one by one.
    let total: i128 = parties.iter().map(|(_, votes, _)| votes).sum();
    let mut left = seats.max(0);
    let twice = (2 * i128::from(left) - parties.len() as i128).max(0);
    for (_, votes, held) in &mut parties {
        let sure = if twice == 0 { 0 } else { (votes.saturating_mul(twice).saturating_add(total)) / (2 * total) };
        *held = i64::try_from(sure).unwrap_or_default();
        left -= *held;
    }
    for _ in 0..left {
        let next = parties.iter_mut().max_by(|(left, left_votes, left_held), (right, right_votes, right_held)| {
            let (left_divisor, right_divisor) = (i128::from(2 * *left_held + 1), i128::from(2 * *right_held + 1));
            let by_name = if downwards { left.cmp(right) } else { right.cmp(left) };
            (*left_votes * right_divisor)
                .cmp(&(*right_votes * left_divisor))
                .then(right_held.cmp(left_held))
                .then(by_name)
        });
        if let Some((_, _, held)) = next {
            *held += 1;
        }
    }
    parties.into_iter().map(|(name, _, held)| (name.to_owned(), held)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, one seat at a time.
    fn slowly(seats: i64, votes: &[(&str, i64)]) -> Vec<i64> {
        let mut held = vec![0_i64; votes.len()];
        for _ in 0..seats {
            let quotient = |i: usize| (votes[i].1 as f64) / (2.0 * held[i] as f64 + 1.0);
            let best = (0..votes.len())
                .max_by(|a, b| quotient(*a).total_cmp(&quotient(*b)).then(held[*b].cmp(&held[*a])).then(b.cmp(a)))
                .unwrap();
            held[best] += 1;
        }
        held
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
    fn whole_rounds_change_nothing() {
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
