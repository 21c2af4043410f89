//! Milliseconds since 1970 as people read and write them, in UTC.
//!
//! D1: `parse(render(t)) == t` for every time whose year has four digits.

const DAY_MILLIS: i64 = 86_400_000;

/// `2026-11-15 22:14:16.123`; the fraction only if there is one. Times outside the years 0 to 9999
/// stay numbers.
pub fn render(millis: i64) -> String {
    let (day, time) = (millis.div_euclid(DAY_MILLIS), millis.rem_euclid(DAY_MILLIS));
    let (year, month, date) = civil(day);
    if !(0..=9999).contains(&year) {
        return millis.to_string();
    }
    let (seconds, fraction) = (time / 1000, time % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let text = format!("{year:04}-{month:02}-{date:02} {hour:02}:{minute:02}:{second:02}");
    if fraction == 0 { text } else { format!("{text}.{fraction:03}") }
}

/// Reads milliseconds, `2026-11-15`, or `2026-11-15 22:14[:16[.123]]` with `T` and `Z` if wanted.
pub fn parse(text: &str) -> Option<i64> {
    if let Ok(millis) = text.parse() {
        return Some(millis);
    }
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut parts = date.split('-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, parts.next()?);
    let days = days(year, month, digits(day, 2)?)?;
    if parts.next().is_some() {
        return None;
    }
    Some(days * DAY_MILLIS + parse_time(time.strip_suffix('Z').unwrap_or(time))?)
}

fn parse_time(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "000"));
    let mut parts = clock.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| digits(second, 2))?;
    let valid = hour < 24 && minute < 60 && second < 60 && parts.next().is_none();
    let seconds = (hour * 60 + minute) * 60 + second;
    valid.then_some(seconds * 1000 + digits(fraction, 3)?)
}

fn digits(text: &str, length: usize) -> Option<i64> {
    let valid = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| valid)
}

/// Year, month and day of a day since 1970 (Howard Hinnant's `civil_from_days`: years begin in
/// March, so that the leap day is the last of its year).
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, date)
}

/// The day since 1970 of a date, if there is such a date.
fn days(year: i64, month: i64, date: i64) -> Option<i64> {
    let shifted_year = year - i64::from(month <= 2);
    let (era, year_of_era) = (shifted_year.div_euclid(400), shifted_year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + date - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    let day = era * 146_097 + of_era - 719_468;
    (civil(day) == (year, month, date)).then_some(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable() {
        assert_eq!(render(0), "1970-01-01 00:00:00");
        assert_eq!(render(1_469_922_850_259), "2016-07-30 23:54:10.259");
        assert_eq!(render(-1), "1969-12-31 23:59:59.999");
        assert_eq!(render(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(render(i64::MAX), i64::MAX.to_string());
    }

    #[test]
    fn d1_what_is_shown_can_be_written() {
        for step in -2000..2000 {
            let millis = step * 15_778_476_123_i64;
            assert_eq!(parse(&render(millis)), Some(millis), "{}", render(millis));
        }
    }

    #[test]
    fn a_time_may_be_short_or_a_number() {
        assert_eq!(parse("2000-02-29"), Some(951_782_400_000));
        assert_eq!(parse("2000-02-29 01:00"), Some(951_786_000_000));
        assert_eq!(parse("2000-02-29T00:00:01Z"), Some(951_782_401_000));
        assert_eq!(parse("-5"), Some(-5));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "yesterday", "2001-02-29", "2000-13-01", "2000-1-01", "2000-01-01-01"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in ["2000-01-01 24:00", "2000-01-01 00:60", "2000-01-01 1:00", "2000-01-01 "] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
