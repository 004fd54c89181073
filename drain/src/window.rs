//! `--window` and `spec.schedule`: when a maintenance may evict pods, by the calendar.

use std::str::FromStr;

use jiff::civil::{Time, Weekday};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Between two times of day, on some days of the week or on any.
#[derive(Clone, Debug)]
pub struct CalendarWindow {
    /// Empty: any.
    days: Vec<Weekday>,
    from: Time,
    to: Time,
    zone: TimeZone,
}

impl FromStr for CalendarWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace().peekable();
        let days = words.next_if(|word| !word.contains(':'));
        let times = words.next().and_then(|word| word.split_once('-'));
        let zone = words.next();
        let (Some((from, to)), None) = (times, words.next()) else {
            return Err(
                "give [DAYS] HH:MM-HH:MM [ZONE], as in \"sat,sun 22:00-02:00 Europe/Berlin\""
                    .to_owned(),
            );
        };
        let time = |text: &str| {
            let time = strtime::parse("%H:%M", text).and_then(|time| time.to_time());
            time.map_err(|_| format!("{text} is no time of day, as 22:00 is"))
        };
        let days = days.into_iter().flat_map(|days| days.split(','));
        let days = days.map(|day| {
            let read = ["%a", "%A"].map(|format| strtime::parse(format, day).ok()?.weekday());
            let read = read.into_iter().flatten().next();
            read.ok_or_else(|| format!("{day} is no day of the week, as sat or Saturday is"))
        });
        Ok(Self {
            days: days.collect::<Result<_, _>>()?,
            from: time(from)?,
            to: time(to)?,
            zone: match zone {
                Some(name) => TimeZone::get(name).map_err(|error| error.to_string())?,
                None => TimeZone::system(),
            },
        })
    }
}

impl CalendarWindow {
    /// The one that is under way, or the next one. One that a change of the clocks leaves out is passed over.
    /// Fails at the end of the calendar.
    pub fn next(&self, now: Timestamp) -> Result<(Zoned, Zoned), jiff::Error> {
        let mut date = now.to_zoned(self.zone.clone()).date().yesterday()?;
        loop {
            let last = if self.to <= self.from {
                date.tomorrow()?
            } else {
                date
            };
            let start = date.to_datetime(self.from).to_zoned(self.zone.clone())?;
            let end = last.to_datetime(self.to).to_zoned(self.zone.clone())?;
            let is_day = self.days.is_empty() || self.days.contains(&date.weekday());
            if is_day && start < end && now < end.timestamp() {
                return Ok((start, end));
            }
            date = date.tomorrow()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, civil};
    use proptest::prelude::*;

    use super::*;

    fn next(text: &str, now: &str) -> String {
        let window: CalendarWindow = text.parse().unwrap();
        let (start, end) = window.next(now.parse().unwrap()).unwrap();
        format!(
            "{} {}",
            start.strftime("%a %F %R"),
            end.strftime("%F %R %Z")
        )
    }

    #[test]
    fn it_is_the_one_under_way_or_the_next_one() {
        let text = "sat 22:00-02:00 Europe/Berlin";
        let saturday = "Sat 2026-11-28 22:00 2026-11-29 02:00 CET";
        assert_eq!(next(text, "2026-11-25T12:00:00Z"), saturday);
        assert_eq!(next(text, "2026-11-29T00:59:59Z"), saturday);
        let week_after = "Sat 2026-12-05 22:00 2026-12-06 02:00 CET";
        assert_eq!(next(text, "2026-11-29T01:00:00Z"), week_after);
        let twice = next(
            "tue,Friday 22:00-02:00 Europe/Berlin",
            "2026-11-25T12:00:00Z",
        );
        assert_eq!(twice, "Fri 2026-11-27 22:00 2026-11-28 02:00 CET");
        let each_night = next("23:00-01:00 America/New_York", "2026-11-29T03:00:00Z");
        assert_eq!(each_night, "Sat 2026-11-28 23:00 2026-11-29 01:00 EST");
        let whole_day = next("Sunday 00:00-00:00 UTC", "2026-11-28T10:00:00Z");
        assert_eq!(whole_day, "Sun 2026-11-29 00:00 2026-11-30 00:00 UTC");
        // At 02:00 the clocks go to 03:00: the window is an hour later, or none at all.
        let gap = next("02:00-02:30 Europe/Berlin", "2026-03-28T23:30:00Z");
        assert_eq!(gap, "Sun 2026-03-29 03:00 2026-03-29 03:30 CEST");
        let gap = next("02:30-03:00 Europe/Berlin", "2026-03-28T23:30:00Z");
        assert_eq!(gap, "Mon 2026-03-30 02:30 2026-03-30 03:00 CEST");
        // At 03:00 they go back to 02:00: the window has an hour more.
        let fold = next("02:00-04:00 Europe/Berlin", "2026-10-24T23:30:00Z");
        assert_eq!(fold, "Sun 2026-10-25 02:00 2026-10-25 04:00 CET");
    }

    #[test]
    fn what_it_cannot_be_is_named() {
        let error = |text: &str| text.parse::<CalendarWindow>().unwrap_err();
        for text in ["", "sat", "22:00", "sat 22:00-02:00 UTC x"] {
            assert!(
                error(text).starts_with("give [DAYS] HH:MM-HH:MM [ZONE]"),
                "{text}"
            );
        }
        assert_eq!(error("22:00-25:00"), "25:00 is no time of day, as 22:00 is");
        assert!(error("samstag 22:00-02:00").starts_with("samstag is no day of the week"));
        assert!(error("22:00-02:00 Europe/Bonn").contains("Europe/Bonn"));
    }

    proptest! {
        /// Against a search through each half hour, over changes of the clocks.
        #[test]
        fn it_is_what_a_search_through_the_hours_finds(
            hours in 0..24 * 800_i64,
            (change, before) in (any::<Option<prop::sample::Index>>(), 0..24 * 8_i64),
            zone in prop::sample::select(vec![
                "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Santiago",
            ]),
            (from, to) in (0..48_i8, 0..48_i8),
            days in prop::collection::vec(1..=7_i8, 0..3),
        ) {
            let time = |half: i8| civil::time(half / 2, half % 2 * 30, 0, 0);
            let zone = TimeZone::get(zone).unwrap();
            let days = days.into_iter().map(|day| Weekday::from_monday_one_offset(day).unwrap());
            let days: Vec<Weekday> = days.collect();
            let is_day = |date: civil::Date| days.is_empty() || days.contains(&date.weekday());
            let (from, to) = (time(from), time(to));
            let window = CalendarWindow { days: days.clone(), from, to, zone: zone.clone() };
            let epoch: Timestamp = "2025-01-01T00:00:00Z".parse().unwrap();
            let mut now = epoch + SignedDuration::from_hours(hours);
            let changes: Vec<Timestamp> = zone.following(epoch).map(|one| one.timestamp()).take(5).collect();
            if let Some(change) = change.filter(|_| !changes.is_empty()) {
                now = *change.get(&changes) - SignedDuration::from_hours(before);
            }
            let (start, end) = window.next(now).unwrap();
            prop_assert!(start < end && now < end.timestamp());
            prop_assert!(is_day(start.date()));

            let half_hours: Vec<Zoned> = (-96..48 * 17)
                .map(|step| (now + SignedDuration::from_mins(30 * step)).to_zoned(zone.clone()))
                .collect();
            let first = |date: civil::Date, time: Time| {
                half_hours.iter().find(|one| one.date() == date && one.time() == time)
            };
            let found = half_hours.iter().skip(40).find_map(|begin| {
                let last = if to <= from { begin.date().tomorrow().unwrap() } else { begin.date() };
                let end = first(last, to)?;
                let is_begin = first(begin.date(), from)? == begin && is_day(begin.date());
                (is_begin && begin < end && now < end.timestamp()).then_some((begin, end))
            });
            // What a change of the clocks leaves out has no name that could be found.
            if start.time() == from && end.time() == to {
                prop_assert_eq!(found, Some((&start, &end)));
            } else {
                prop_assert!(found.is_none_or(|(begin, _)| start <= *begin));
            }
        }
    }
}
