//! Shuffle sharding: each flow has a hand of a few queues, and two flows rarely have the same hand.

use smallvec::SmallVec;

/// Hands have this many cards at most without an allocation.
pub(crate) type Hand = SmallVec<[u32; 8]>;

/// Deals `hand` different cards of a deck, all hands equally likely as far as the bits of the hash suffice.
pub(crate) fn deal(hash: u64, deck: u32, hand: u32) -> Hand {
    let mut left = hash;
    let mut dealt = Hand::new();
    // Ascending, to find the nth remaining card.
    let mut sorted = Hand::new();
    for count in 0..hand.min(deck) {
        let rest = u64::from(deck - count);
        let Ok(mut card) = u32::try_from(left % rest) else { break };
        left /= rest;
        let mut place = 0;
        for taken in &sorted {
            if card < *taken {
                break;
            }
            card += 1;
            place += 1;
        }
        sorted.insert(place, card);
        dealt.push(card);
    }
    dealt
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn every_hand_is_dealt_as_often_as_any_other() {
        for (deck, hand) in [(5, 1), (5, 2), (6, 3), (4, 4), (1, 1)] {
            let hands: u32 = (deck - hand + 1..=deck).product();
            let mut counts = BTreeMap::<Vec<u32>, u32>::new();
            for hash in 0..u64::from(hands) {
                let dealt = deal(hash, deck, hand);
                let different: BTreeSet<_> = dealt.iter().collect();
                assert_eq!(different.len(), dealt.len());
                assert!(dealt.len() == hand as usize && dealt.iter().all(|card| *card < deck), "{dealt:?}");
                *counts.entry(dealt.to_vec()).or_default() += 1;
            }
            assert_eq!(counts.len() as u32, hands, "{deck} {hand}");
            assert!(counts.values().all(|count| *count == 1));
        }
        assert_eq!(deal(7, 2, 5).len(), 2, "a hand is no larger than the deck");
        assert!(deal(7, 0, 5).is_empty());
    }
}
