//! The seats of a request: one for most, more for lists of many objects, and for writes that many watches deliver.

use crate::Nanos;

/// Objects that a list reads on one seat.
const OBJECTS_PER_SEAT: u64 = 100;
/// Watches that are served on one seat after a write.
const WATCHES_PER_SEAT: u64 = 10;
/// The time it takes to deliver an event to the watches of one seat: seven times what was measured
/// (`docs/benchmarks.md`), for events that are larger. kube-apiserver assumes 5 ms; by that, watches which nothing
/// reads would keep the seats of other users' writes for most of the time.
const DELIVERY: Nanos = 500_000;
/// Seats of one request at most.
const MOST_SEATS: u32 = 10;
/// The part of a level's seats that one request may take, in percent.
const MOST_PERCENT: u64 = 15;

/// The seats that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// While it runs.
    pub seats: u32,
    /// For `extra` after it ended.
    pub final_seats: u32,
    /// How long its effects go on after its response.
    pub extra: Nanos,
}

impl Work {
    /// One seat, until its response.
    pub const ONE: Self = Self { seats: 1, final_seats: 0, extra: 0 };

    /// The seats it needs at any time.
    pub fn width(&self) -> u32 {
        self.seats.max(self.final_seats)
    }
}

/// The seats that one request of a level with so many may take.
pub fn most_seats(nominal: u32) -> u32 {
    let part = (u64::from(nominal) * MOST_PERCENT).div_ceil(100);
    u32::try_from(part).unwrap_or(MOST_SEATS).clamp(1, MOST_SEATS)
}

/// A list, or the initial list of a watch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listing {
    /// The number of objects of the resource; `None` if unknown.
    pub stored: Option<u64>,
    /// The page's length; 0 for all objects.
    pub limit: u64,
    pub has_selector: bool,
    /// It has the form that kube-apiserver answers from its watch cache, of which pages are no part.
    pub is_cached: bool,
}

/// The cost of a list.
pub fn of_list(listing: &Listing, most: u32) -> Work {
    let Some(stored) = listing.stored else { return Work::ONE };
    let page = if listing.limit > 0 { listing.limit.min(stored) } else { stored };
    let processed = match listing {
        Listing { is_cached: true, .. } => stored,
        // Objects that a selector leaves out are read, too.
        Listing { has_selector: true, .. } => stored + page,
        // Each object is read and encoded.
        _ => 2 * page,
    };
    let seats = u32::try_from(processed.div_ceil(OBJECTS_PER_SEAT)).unwrap_or(most);
    Work { seats: seats.clamp(1, most), ..Work::ONE }
}

/// The cost of a write whose event so many watches deliver.
pub fn of_write(watches: u64, most: u32) -> Work {
    let seats = watches.div_ceil(WATCHES_PER_SEAT);
    if seats == 0 {
        return Work::ONE;
    }
    let final_seats = u32::try_from(seats).unwrap_or(most).min(most);
    // Fewer seats than needed are occupied for longer.
    let extra = seats.saturating_mul(DELIVERY) / u64::from(final_seats.max(1));
    Work { seats: 1, final_seats, extra }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_cost_by_the_objects_they_read() {
        let list = |stored: u64, limit, has_selector, is_cached| {
            of_list(&Listing { stored: Some(stored), limit, has_selector, is_cached }, 10).seats
        };
        for (case, seats, expected) in [
            ("nothing stored", list(0, 0, false, true), 1),
            ("from the cache", list(250, 0, false, true), 3),
            ("from the cache, with a selector", list(250, 0, true, true), 3),
            ("a page", list(5000, 100, false, false), 2),
            ("a page of more than there is", list(120, 500, false, false), 3),
            ("a page with a selector", list(250, 100, true, false), 4),
            ("the most", list(1_000_000, 0, false, true), 10),
        ] {
            assert_eq!(seats, expected, "{case}");
        }
        assert_eq!(of_list(&Listing::default(), 10), Work::ONE, "an unknown resource");
        assert_eq!(of_list(&Listing { stored: Some(900), is_cached: true, ..Listing::default() }, 4).seats, 4);
    }

    #[test]
    fn writes_cost_by_the_watches_that_deliver_them() {
        let of = |watches| of_write(watches, 10);
        assert_eq!(of(0), Work::ONE);
        assert_eq!(of(1), Work { seats: 1, final_seats: 1, extra: 500_000 });
        assert_eq!(of(25), Work { seats: 1, final_seats: 3, extra: 500_000 });
        assert_eq!(of(1000), Work { seats: 1, final_seats: 10, extra: 5_000_000 });
        assert_eq!(of(1000).width(), 10);
    }

    #[test]
    fn one_request_takes_a_part_of_a_level() {
        let rows = [(0, 1), (5, 1), (20, 3), (66, 10), (245, 10), (u32::MAX, 10)];
        assert_eq!(rows.map(|(nominal, _)| most_seats(nominal)), rows.map(|(_, most)| most));
    }
}
