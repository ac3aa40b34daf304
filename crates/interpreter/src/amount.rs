//! Sums of quantities, exact to the nano unit.
//!
//! Only what summing the requests of a pod needs: parse, add, take the greater, and print in the canonical form of a
//! resource. Everything else about quantities is `apimachinery`'s.

/// In nano units. The range covers every quantity the API accepts (up to 2^63 whole units).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i128);

const NANO: i128 = 1_000_000_000;

impl Amount {
    /// `None` if the text is not a quantity; what is finer than nano is rounded up, as Kubernetes does.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (numerator, denominator) = scale(suffix)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        // 18 digits of fraction and 19 of whole keep every product below 2^127.
        let fraction = &fraction[..fraction.len().min(18)];
        if whole.len() > 19 {
            return None;
        }
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?.checked_mul(denominator)?;
        let scaled = digits.checked_mul(numerator)?;
        let nano =
            (scaled / divisor).checked_mul(NANO)?.checked_add(ceil((scaled % divisor).checked_mul(NANO)?, divisor))?;
        Some(Self(if negative { -nano } else { nano }))
    }

    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Thousandths, rounded up, with decimal suffixes: how cpu is written.
    pub fn to_milli_decimal(self) -> String {
        decimal(ceil(self.0, NANO / 1000), 1)
    }

    /// Whole units, rounded up, with decimal suffixes.
    pub fn to_decimal(self) -> String {
        decimal(ceil(self.0, NANO), 0)
    }

    /// Whole units, rounded up, with binary suffixes: how memory is written.
    pub fn to_binary(self) -> String {
        let mut value = ceil(self.0, NANO);
        let mut step = 0;
        if value.abs() >= 1024 {
            while value % 1024 == 0 && step < 6 {
                value /= 1024;
                step += 1;
            }
        }
        format!("{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step])
    }
}

fn ceil(value: i128, divisor: i128) -> i128 {
    value / divisor + i128::from(value % divisor > 0)
}

/// `value` in thousandths if `lowest` is 1, else in units.
fn decimal(mut value: i128, lowest: usize) -> String {
    let suffixes: &[&str] =
        if lowest == 1 { &["m", "", "k", "M", "G", "T", "P", "E"] } else { &["", "k", "M", "G", "T", "P", "E"] };
    if value == 0 {
        return "0".to_owned();
    }
    let mut step = 0;
    while value % 1000 == 0 && step + 1 < suffixes.len() {
        value /= 1000;
        step += 1;
    }
    format!("{value}{}", suffixes[step])
}

/// What a suffix multiplies by, as a fraction.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, NANO),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (NANO, 1),
        "T" => (NANO * 1000, 1),
        "P" => (NANO * 1_000_000, 1),
        "E" => (NANO * NANO, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            if exponent >= 0 { (power, 1) } else { (1, power) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_printed_canonically() {
        let sum = |texts: &[&str]| {
            texts.iter().map(|text| Amount::parse(text).unwrap()).fold(Amount::default(), Amount::plus)
        };
        assert_eq!(sum(&["100m", "1"]).to_milli_decimal(), "1100m");
        assert_eq!(sum(&["1.5", "500m"]).to_milli_decimal(), "2");
        assert_eq!(sum(&["1500"]).to_milli_decimal(), "1500");
        assert_eq!(sum(&["2000"]).to_milli_decimal(), "2k");
        assert_eq!(sum(&["1.5Gi"]).to_binary(), "1536Mi");
        assert_eq!(sum(&["512Mi", "512Mi"]).to_binary(), "1Gi");
        assert_eq!(sum(&["1G"]).to_binary(), "1000000000");
        assert_eq!(sum(&["1e3"]).to_decimal(), "1k");
        assert_eq!(sum(&["1n"]).to_milli_decimal(), "1m");
        for wrong in ["", "x", "1.2.3", "1Zi", "--1", "."] {
            assert_eq!(Amount::parse(wrong), None, "{wrong}");
        }
    }
}
