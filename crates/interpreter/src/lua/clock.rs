//! The `os` library: `time` and `date`.

use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use mlua::{Lua, Table, Value};

use super::meter::Meter;

/// All times are UTC: a script's result must not depend on the machine.
pub fn library(lua: &Lua, meter: &Arc<Meter>) -> mlua::Result<Table> {
    let lib = lua.create_table()?;
    let m = meter.clone();
    lib.raw_set(
        "time",
        lua.create_function(move |_, table: Option<Table>| {
            let Some(table) = table else { return Ok(m.now().as_second() as f64) };
            seconds(&table)
        })?,
    )?;
    let m = meter.clone();
    lib.raw_set(
        "date",
        lua.create_function(move |lua, (format, time): (Option<String>, Option<f64>)| {
            let at = match time {
                None => m.now(),
                Some(seconds) => jiff::Timestamp::from_second(seconds as i64)
                    .map_err(|_| mlua::Error::runtime("time is out of range"))?,
            };
            let at = at.to_zoned(TimeZone::UTC).datetime();
            let format = format.unwrap_or_else(|| "%c".to_owned());
            let format = format.strip_prefix('!').unwrap_or(&format);
            if format.starts_with("*t") {
                return fields(lua, at).map(Value::Table);
            }
            let text = printed(format, at)?;
            m.charge(text.len() as u64)?;
            lua.create_string(text).map(Value::String)
        })?,
    )?;
    Ok(lib)
}

fn seconds(table: &Table) -> mlua::Result<f64> {
    let field = |name: &str, absent: Option<i64>| -> mlua::Result<i64> {
        let value: Option<f64> = table.raw_get(name)?;
        value
            .map(|value| value as i64)
            .or(absent)
            .ok_or_else(|| mlua::Error::runtime(format!("field '{name}' missing in date table")))
    };
    let (year, month, day) = (field("year", None)?, field("month", None)?, field("day", None)?);
    let (hour, minute, second) = (field("hour", Some(12))?, field("min", Some(0))?, field("sec", Some(0))?);
    let wrong = |_| mlua::Error::runtime("date is out of range");
    // Months and days beyond their range roll over, as in mktime.
    let months = year.saturating_mul(12).saturating_add(month - 1);
    let start = i16::try_from(months.div_euclid(12)).map_err(|_| mlua::Error::runtime("date is out of range"))?;
    let first = DateTime::new(start, months.rem_euclid(12) as i8 + 1, 1, 0, 0, 0, 0).map_err(wrong)?;
    let start = first.to_zoned(TimeZone::UTC).map_err(wrong)?.timestamp().as_second();
    let rest = (day - 1).saturating_mul(86400) as f64 + hour as f64 * 3600.0 + minute as f64 * 60.0 + second as f64;
    Ok(start as f64 + rest)
}

fn fields(lua: &Lua, at: DateTime) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in [
        ("year", i64::from(at.year())),
        ("month", at.month().into()),
        ("day", at.day().into()),
        ("hour", at.hour().into()),
        ("min", at.minute().into()),
        ("sec", at.second().into()),
        ("wday", i64::from(at.weekday().to_sunday_zero_offset()) + 1),
        ("yday", at.day_of_year().into()),
    ] {
        table.raw_set(name, value as f64)?;
    }
    table.raw_set("isdst", false)?;
    Ok(table)
}

fn printed(format: &str, at: DateTime) -> mlua::Result<String> {
    if format.len() > 1000 {
        return Err(mlua::Error::runtime("date format is too long"));
    }
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some(verb @ ('a' | 'A' | 'b' | 'B' | 'd' | 'F' | 'H' | 'I' | 'm' | 'M' | 'p' | 'S' | 'y' | 'Y' | 'w')) => {
                out.push_str(&at.strftime(&format!("%{verb}")).to_string());
            }
            Some('c') => out.push_str(&at.strftime("%d %b %y %H:%M UTC").to_string()),
            Some('x') => out.push_str(&at.strftime("%m/%d/%y").to_string()),
            Some('X') => out.push_str(&at.strftime("%H:%M:%S").to_string()),
            Some('P') => out.push_str(if at.hour() < 12 { "am" } else { "pm" }),
            Some('z') => out.push_str("+0000"),
            Some('Z') => out.push_str("UTC"),
            Some(other) => {
                out.push('%');
                out.push(other);
            }
            None => out.push('%'),
        }
    }
    Ok(out)
}
