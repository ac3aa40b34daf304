//! Quantities by long-hand arithmetic: every amount is written in digits, and only the documented rules round.

use proptest::prelude::*;

use super::*;

/// Digits before and after the point. Enough for twelve digits times 10^±12 or 2^60.
const WHOLE: usize = 40;
const FRACTION: usize = 40;

/// An amount without its sign; the most significant digit is first.
type Digits = Vec<u8>;

fn written_out(whole: &str, fraction: &str) -> Digits {
    let text = format!("{whole:0>WHOLE$}{fraction:0<FRACTION$}");
    text.bytes().map(|digit| digit - b'0').collect()
}

fn plus(a: &[u8], b: &[u8]) -> Digits {
    let mut carry = 0;
    let mut sum: Digits = a
        .iter()
        .zip(b)
        .rev()
        .map(|(a, b)| {
            let digit = a + b + carry;
            carry = digit / 10;
            digit % 10
        })
        .collect();
    sum.reverse();
    sum
}

/// The greater less the smaller.
fn minus(a: &[u8], b: &[u8]) -> Digits {
    let mut borrow = 0;
    let mut rest: Digits = a
        .iter()
        .zip(b)
        .rev()
        .map(|(a, b)| {
            let taken = b + borrow;
            borrow = u8::from(*a < taken);
            a + 10 * borrow - taken
        })
        .collect();
    rest.reverse();
    rest
}

fn times_ten(digits: &[u8]) -> Digits {
    [&digits[1..], &[0]].concat()
}

fn tenth(digits: &[u8]) -> Digits {
    [&[0], &digits[..digits.len() - 1]].concat()
}

/// Non-zero digits from the given one on.
fn has_rest(digits: &[u8], from: usize) -> bool {
    digits[from..].iter().any(|digit| *digit != 0)
}

fn is_zero(digits: &[u8]) -> bool {
    !has_rest(digits, 0)
}

/// Cut after so many decimal places, away from zero.
fn rounded_up(digits: &[u8], places: usize) -> Digits {
    let keep = WHOLE + places;
    let mut kept = digits.to_vec();
    kept[keep..].fill(0);
    let mut one = vec![0; WHOLE + FRACTION];
    one[keep - 1] = 1;
    if has_rest(digits, keep) { plus(&kept, &one) } else { kept }
}

fn shown(digits: &[u8]) -> String {
    let text: String = digits[..WHOLE].iter().map(|digit| char::from(digit + b'0')).collect();
    match text.trim_start_matches('0') {
        "" => "0".to_owned(),
        number => number.to_owned(),
    }
}

#[derive(Clone, Debug)]
struct Amount {
    negative: bool,
    digits: Digits,
    /// `k`, `Ki` or `e`.
    notation: &'static str,
}

fn read(negative: bool, whole: &str, fraction: &str, unit: &str) -> Amount {
    let mut digits = written_out(whole, fraction);
    let tens = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].iter().position(|name| *name == unit);
    let twos = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|name| *name == unit && !unit.is_empty());
    let shift = |mut digits: Digits, power: i64| {
        for _ in 0..power.abs() {
            digits = if power > 0 { times_ten(&digits) } else { tenth(&digits) };
        }
        digits
    };
    let notation = if let Some(place) = tens {
        digits = shift(digits, place as i64 * 3 - 9);
        "k"
    } else if let Some(place) = twos {
        for _ in 0..place * 10 {
            digits = plus(&digits, &digits);
        }
        "Ki"
    } else {
        digits = shift(digits, unit[1..].parse().expect("an exponent"));
        "e"
    };
    let mut digits = rounded_up(&digits, 9);
    let most = written_out(&i64::MAX.to_string(), "");
    if notation == "Ki" && digits > most {
        digits = most;
    }
    let is_fraction = is_zero(&digits[..WHOLE]) && !is_zero(&digits);
    let notation = if notation == "Ki" && is_fraction && !negative { "k" } else { notation };
    Amount { negative: negative && !is_zero(&digits), digits, notation }
}

fn printed(amount: &Amount) -> String {
    let sign = if amount.negative { "-" } else { "" };
    let digits = &amount.digits;
    if is_zero(digits) {
        return "0".to_owned();
    }
    if amount.notation == "Ki" && !has_rest(digits, WHOLE) && *digits >= written_out("1024", "") {
        // As often as it can be halved ten times without a fraction.
        let (mut number, mut power) = (digits.clone(), 0);
        while power < 6 {
            let mut next = number.clone();
            for _ in 0..10 {
                // Half of it is five tenths.
                let five = (0..5).fold(vec![0; digits.len()], |sum, _| plus(&sum, &next));
                next = tenth(&five);
            }
            if has_rest(&next, WHOLE) {
                break;
            }
            (number, power) = (next, power + 1);
        }
        return format!("{sign}{}{}", shown(&number), ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
    }
    // From the smallest unit, of which all amounts are multiples, as far up as there is no fraction.
    let mut number = (0..9).fold(digits.clone(), |number, _| times_ten(&number));
    let mut power = -9;
    while amount.notation == "e" || power < 18 {
        let next = tenth(&tenth(&tenth(&number)));
        if has_rest(&next, WHOLE) {
            break;
        }
        (number, power) = (next, power + 3);
    }
    let unit = match (amount.notation, power) {
        (_, 0) => String::new(),
        ("e", power) => format!("e{power}"),
        (_, power) => ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][(power + 9) as usize / 3].to_owned(),
    };
    format!("{sign}{}{unit}", shown(&number))
}

fn compared(a: &Amount, b: &Amount) -> Ordering {
    match (a.negative, b.negative) {
        (false, false) => a.digits.cmp(&b.digits),
        (true, true) => b.digits.cmp(&a.digits),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

fn added(a: &Amount, b: &Amount) -> Amount {
    let notation = if is_zero(&a.digits) { b.notation } else { a.notation };
    let (digits, negative) = match (a.negative == b.negative, a.digits.cmp(&b.digits)) {
        (true, _) => (plus(&a.digits, &b.digits), a.negative),
        (false, Ordering::Less) => (minus(&b.digits, &a.digits), b.negative),
        (false, _) => (minus(&a.digits, &b.digits), a.negative),
    };
    Amount { negative: negative && !is_zero(&digits), digits, notation }
}

prop_compose! {
    fn any_amount()(
        negative in any::<bool>(),
        whole in "(0|[1-9][0-9]{0,3}|[0-9]{1,10}|10{3,9}|1024|2048)",
        fraction in "([0-9]{0,12}|50{0,5}|0{0,4})",
        unit in "(n|u|m||k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]|E[0-9])",
    ) -> (String, Amount) {
        let point = if fraction.is_empty() { "" } else { "." };
        let text = format!("{}{whole}{point}{fraction}{unit}", if negative { "-" } else { "" });
        (text, read(negative, &whole, &fraction, &unit))
    }
}

proptest! {
    #[test]
    fn quantities_equal_the_model((text, a) in any_amount(), (other, b) in any_amount()) {
        let quantity = |text: &str| text.parse::<Quantity>().expect("an amount");
        let (x, y) = (quantity(&text), quantity(&other));
        prop_assert_eq!(x.to_string(), printed(&a), "{}", text);
        prop_assert_eq!(x.cmp(&y), compared(&a, &b), "{} and {}", text, other);
        prop_assert_eq!((x + y).to_string(), printed(&added(&a, &b)), "{} + {}", text, other);
        let opposite = Amount { negative: !b.negative && !is_zero(&b.digits), ..b.clone() };
        prop_assert_eq!((x - y).to_string(), printed(&added(&a, &opposite)), "{} - {}", text, other);
        let again = quantity(&printed(&a));
        prop_assert_eq!(again, x, "{} printed and read", text);
    }
}
