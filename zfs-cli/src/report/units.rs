//! Numbers as people read them.

use jiff::Timestamp;
use std::time::Duration;

/// A size in binary units with three digits: `512 B`, `64 KiB`, `1.10 MiB`, `907 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let bytes = u128::from(bytes);
    for (unit, shift) in UNITS.iter().zip((10..).step_by(10)) {
        let one = 1_u128 << shift;
        let hundredths = (bytes * 100 + one / 2) / one;
        if hundredths >= 102_350 && *unit != "EiB" {
            continue;
        }
        let (whole, fraction) = (hundredths / 100, hundredths % 100);
        return match whole {
            _ if bytes % one == 0 => format!("{whole} {unit}"),
            0..10 => format!("{whole}.{fraction:02} {unit}"),
            10..100 => format!("{:.1} {unit}", hundredths as f64 / 100.0),
            _ => format!("{} {unit}", (bytes + one / 2) / one),
        };
    }
    format!("{bytes} B")
}

/// A number with separators of thousands: `5,439,488`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count for a narrow column: exact up to five digits, then `123K`, `4.5M`, as `zpool status` does.
pub(crate) fn short_count(number: u64) -> String {
    let mut unit = 1000;
    for suffix in ["K", "M", "G", "T", "P", "E"] {
        match number / unit {
            _ if number < 100_000 => return thousands(number),
            whole @ 0..10 => return format!("{whole}.{}{suffix}", number % unit * 10 / unit),
            whole @ 10..1000 => return format!("{whole}{suffix}"),
            _ => unit = unit.saturating_mul(1000),
        }
    }
    thousands(number)
}

/// A count with its noun: `1 block`, `1,204 blocks`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(number))
}

/// A duration with the precision that matters: `0.4 s`, `36 min`, `3 h 5 min`, `2 d 4 h`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Seconds since 1970 as a date in UTC; the bare number if it is no date.
pub(crate) fn timestamp(seconds: u64) -> String {
    match i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok()) {
        Some(timestamp) => timestamp.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        None => format!("second {seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (65_536, "64 KiB"),
            (1_153_434, "1.10 MiB"),
            (928_768, "907 KiB"),
            (15 << 19, "7.50 MiB"),
            ((15 << 20) + 1, "15.0 MiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (1023 << 10, "1023 KiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(5_439_488), "5,439,488");
        let short = [0, 99_999, 100_000, 4_560_000, u64::MAX].map(short_count);
        assert_eq!(short, ["0", "99,999", "100K", "4.5M", "18E"]);
        assert_eq!(count(1, "block"), "1 block");
        assert_eq!(count(1204, "block"), "1,204 blocks");
    }

    #[test]
    fn durations_and_dates_are_short() {
        assert_eq!(duration(Duration::from_millis(440)), "0.4 s");
        assert_eq!(duration(Duration::from_secs(59)), "59 s");
        assert_eq!(duration(Duration::from_secs(2200)), "36 min");
        assert_eq!(duration(Duration::from_secs(11_100)), "3 h 5 min");
        assert_eq!(timestamp(1_700_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(timestamp(u64::MAX), format!("second {}", u64::MAX));
    }
}
