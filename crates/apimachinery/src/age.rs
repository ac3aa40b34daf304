//! Ages as kubectl prints them.

/// Seconds to `5s`, `2m30s`, `3h`, `4d2h`, `400d`, `2y100d`: the fewer digits the older. Below -1 it is `<invalid>`.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |major: i64, unit: &str, minor: i64, minor_unit: &str| {
        if minor == 0 { format!("{major}{unit}") } else { format!("{major}{unit}{minor}{minor_unit}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn ages_shorten_as_they_grow() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (900, "15m"),
            (10_800 + 120, "3h2m"),
            (9 * 3600, "9h"),
            (49 * 3600, "2d1h"),
            (10 * 86_400, "10d"),
            (800 * 86_400, "2y70d"),
            (3000 * 86_400, "8y"),
        ] {
            assert_eq!(super::human_duration(seconds), text, "{seconds}");
        }
    }
}
