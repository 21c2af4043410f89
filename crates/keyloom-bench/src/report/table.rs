//! Tables in Markdown, aligned so that they also read well in a terminal.

use std::fmt;

/// A table; the first column is text, the others are figures.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    columns: usize,
}

impl Table {
    /// A table with these heads.
    pub(crate) fn new(heads: Vec<String>) -> Table {
        Table { columns: heads.len(), rows: vec![heads] }
    }

    /// Adds a row; what is missing at its end stays empty.
    pub(crate) fn add(&mut self, mut row: Vec<String>) {
        row.resize(self.columns, String::new());
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |cell: &String| cell.chars().count();
        let mut widths = vec![1; self.columns];
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = width(cell).max(*widest);
            }
        }
        for (number, row) in self.rows.iter().enumerate() {
            for (place, (cell, width)) in row.iter().zip(&widths).enumerate() {
                match place {
                    0 => write!(f, "| {cell:<width$} ")?,
                    _ => write!(f, "| {cell:>width$} ")?,
                }
            }
            writeln!(f, "|")?;
            if number == 0 {
                for (place, width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(*width + 1);
                    write!(f, "|{}", if place == 0 { dashes + "-" } else { dashes + ":" })?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

/// A number with three significant digits or, if it is large, none behind the point; thousands are
/// set apart.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        below if below < 10.0 => 2,
        below if below < 100.0 => 1,
        _ => 0,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(vec!["".into(), "µs".into()]);
        table.add(vec!["get".into(), "12,345".into()]);
        table.add(vec!["list".into()]);
        let expected = "\
|      |     µs |
|------|-------:|
| get  | 12,345 |
| list |        |
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn numbers_keep_three_digits_and_set_thousands_apart() {
        let shown = [0.123, 9.876, 12.34, 123.4, 1234.5, 1_234_567.0].map(number);
        assert_eq!(shown, ["0.12", "9.88", "12.3", "123", "1,234", "1,234,567"]);
    }
}
