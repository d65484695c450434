//! Reads and writes sizes in bytes: `64KiB`, or a plain number.

/// Units from large to small, in bytes.
const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Parses a size. Returns `None` if the unit is unknown or the size does not fit in 64 bits.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "" => 1,
        name => UNITS.iter().find(|(unit, _)| *unit == name)?.1,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Writes a size in the largest unit of which it is a multiple.
pub(crate) fn format(len: u64) -> String {
    match UNITS.iter().find(|(_, unit)| len > 0 && len.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", len / unit),
        None => len.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn size_is_parsed_and_formatted() {
        let cases: &[(&str, Option<(u64, &str)>)] = &[
            // text      bytes, formatted
            ("0",        Some((0, "0"))),
            ("500",      Some((500, "500"))),
            ("64KiB",    Some((65_536, "64KiB"))),
            ("65536",    Some((65_536, "64KiB"))),
            ("1024KiB",  Some((1 << 20, "1MiB"))),
            ("3GiB",     Some((3 << 30, "3GiB"))),
            ("2TiB",     Some((2 << 40, "2TiB"))),
            ("",         None),
            ("KiB",      None),
            // Ambiguous: 1000 or 1024.
            ("1k",       None),
            ("1kB",      None),
            ("64 KiB",   None),
            ("1.5MiB",   None),
            ("-1",       None),
            ("99999999999TiB", None),
        ];
        for &(text, want) in cases {
            assert_eq!(parse(text), want.map(|(len, _)| len), "{text}");
            let Some((len, want)) = want else { continue };
            assert_eq!(format(len), want, "{text}");
            assert_eq!(parse(want), Some(len), "{text}");
        }
    }
}
