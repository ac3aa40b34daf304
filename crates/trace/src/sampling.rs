//! Which traces are recorded that no other program has begun.

/// Samples a share of the traces by their identity, so that servers with the same share agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    bound: u64,
}

impl Ratio {
    /// `per_million` traces of a million.
    pub fn new(per_million: u32) -> Self {
        let bound = (1_u128 << 63) * u128::from(per_million.min(1_000_000)) / 1_000_000;
        Self { bound: u64::try_from(bound).unwrap_or(u64::MAX) }
    }

    /// Whether no trace is sampled.
    pub fn is_zero(self) -> bool {
        self.bound == 0
    }

    /// By the lower half of the identity without its last bit, as in OpenTelemetry's `TraceIDRatioBased`.
    pub fn samples(self, trace: u128) -> bool {
        #[allow(clippy::cast_possible_truncation, reason = "the lower half")]
        let lower = trace as u64;
        lower >> 1 < self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_identities_is_sampled() {
        for (per_million, trace, expected) in [
            (0, 0, false),
            (0, u128::MAX, false),
            (1_000_000, u128::MAX, true),
            (1_000_000, 1, true),
            (500_000, u128::from(u64::MAX >> 1), true),
            (500_000, u128::from((u64::MAX >> 1) + 1), false),
            (1, 18_446_744_073_707, true),
            (1, 18_446_744_073_708, false),
        ] {
            assert_eq!(Ratio::new(per_million).samples(trace), expected, "{per_million} {trace}");
        }
        assert!(Ratio::new(0).is_zero() && !Ratio::new(1).is_zero());
    }
}
