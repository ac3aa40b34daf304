//! Indexes of the pods of a job, as `0,2-4`: single ones and ranges, in order.

/// The ranges, first and last.
///
/// # Errors
/// The error in the text, for a job of so many `completions`.
pub(super) fn parse(text: &str, completions: i64) -> Result<Vec<(i64, i64)>, String> {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = range(part, completions)?;
        if let Some((_, before)) = ranges.last().filter(|(_, before)| *before >= first) {
            return Err(format!("non-increasing order, previous: {before}, current: {first}"));
        }
        ranges.push((first, last));
    }
    Ok(ranges)
}

fn range(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut parts = text.split('-');
    let (first, last, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    if more.is_some() {
        return Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let first = index(first, completions)?;
    let Some(last) = last else { return Ok((first, first)) };
    let last = index(last, completions)?;
    if first >= last {
        return Err(format!("non-increasing order, previous: {first}, current: {last}"));
    }
    Ok((first, last))
}

fn index(text: &str, completions: i64) -> Result<i64, String> {
    let number: i64 = text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
    if number >= completions {
        return Err(format!("too large index: {text:?}"));
    }
    Ok(number)
}

/// The first index in both.
pub(super) fn shared(ranges: &[(i64, i64)], others: &[(i64, i64)]) -> Option<i64> {
    let both = |(first, last): &(i64, i64)| {
        let overlap = others.iter().find(|(other_first, other_last)| first <= other_last && other_first <= last);
        overlap.map(|(other_first, _)| *first.max(other_first))
    };
    ranges.iter().filter_map(both).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_read() {
        for (text, expected) in [
            ("", "Ok([])"),
            ("0,2-4", "Ok([(0, 0), (2, 4)])"),
            ("1-x", r#"Err("cannot convert string to integer for index: \"x\"")"#),
            ("5", r#"Err("too large index: \"5\"")"#),
            ("3,1", r#"Err("non-increasing order, previous: 3, current: 1")"#),
            ("3-1", r#"Err("non-increasing order, previous: 3, current: 1")"#),
            (
                "0-1-2",
                r#"Err("the fragment \"0-1-2\" violates the requirement that an index interval can have at most two parts separated by '-'")"#,
            ),
        ] {
            assert_eq!(format!("{:?}", parse(text, 5)), expected, "{text}");
        }
        assert_eq!(shared(&[(0, 1), (4, 6)], &[(2, 2), (5, 9)]), Some(5));
        assert_eq!(shared(&[(0, 1)], &[(2, 2)]), None);
    }
}
