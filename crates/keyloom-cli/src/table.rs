//! Tables for people: columns side by side, as wide as what stands in them.
//!
//! T1: Columns line up by display width, not by bytes or characters.
//! T2: Where the width is bounded, no line is longer: the widest columns are cut first, then the
//!     line; a cut is marked with `…`. The first column says which row it is, and is cut last.

use unicode_width::UnicodeWidthStr;

/// The space between two columns.
const GAP: usize = 2;

/// No column is cut below this: a few characters tell more than none.
const COLUMN_WIDTH_MIN: usize = 8;

/// Rows under headers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    headers: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new<T: Into<String>>(headers: impl IntoIterator<Item = T>) -> Table {
        Table { headers: headers.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row; cells that it lacks are empty.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The header and the rows as lines of at most `width` columns; none if there are no rows.
    pub(crate) fn lines(&self, width: Option<usize>) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let mut widths = self.natural_widths();
        if let Some(width) = width {
            shrink(&mut widths, width);
        }
        let lines = std::iter::once(&self.headers).chain(&self.rows).map(|row| line(row, &widths));
        match width {
            Some(width) => lines.map(|line| cut(&line, width)).collect(),
            None => lines.collect(),
        }
    }

    fn natural_widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.headers.len()];
        for row in std::iter::once(&self.headers).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        widths
    }
}

/// Takes columns from the widest until all fit, or none can give any more (T2).
fn shrink(widths: &mut [usize], available: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > available {
        let Some((first, others)) = widths.split_first_mut() else { return };
        match others.iter_mut().max() {
            Some(widest) if *widest > COLUMN_WIDTH_MIN => *widest -= 1,
            _ if *first > COLUMN_WIDTH_MIN => *first -= 1,
            _ => return,
        }
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (place, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if place > 0 {
            line.push_str(&" ".repeat(GAP));
        }
        let shown = cut(cell, *width);
        line.push_str(&shown);
        line.push_str(&" ".repeat(width.saturating_sub(shown.width())));
    }
    line.truncate(line.trim_end().len());
    line
}

/// At most `width` columns of `text`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut buffer = [0; 4];
    let mut used = 1;
    for character in text.chars() {
        used += character.encode_utf8(&mut buffer).width();
        if used > width {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["key", "value"]);
        table.row(["a", "short"]);
        table.row(["日本", "a rather long text that has to give way"]);
        table
    }

    #[test]
    fn columns_line_up_by_display_width() {
        expect_test::expect![[r"
            key   value
            a     short
            日本  a rather long text that has to give way"]]
        .assert_eq(&table().lines(None).join("\n"));
    }

    #[test]
    fn the_widest_column_is_cut_to_the_width_of_the_terminal() {
        let lines = table().lines(Some(20));
        assert_eq!(lines, ["key   value", "a     short", "日本  a rather long…"]);
        assert!(lines.iter().all(|line| line.width() <= 20));
    }

    #[test]
    fn the_first_column_gives_way_when_no_other_can() {
        let mut table = Table::new(["key", "value"]);
        table.row(["order:01M7J1AQXXXXXXXXXXXXXXXXXX", "a rather long text"]);
        assert_eq!(
            table.lines(Some(42)).last().unwrap(),
            "order:01M7J1AQXXXXXXXXXXXXXXXXXX  a rathe…"
        );
        assert_eq!(table.lines(Some(30)).last().unwrap(), "order:01M7J1AQXXXXX…  a rathe…");
    }

    #[test]
    fn a_wide_character_is_not_cut_in_half() {
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("日本語", 6), "日本語");
    }

    #[test]
    fn t2_a_narrow_terminal_shows_the_beginning_of_every_line() {
        let lines = table().lines(Some(12));
        assert_eq!(lines, ["key   value", "a     short", "日本  a rat…"]);
        assert_eq!(table().lines(Some(3)), ["ke…", "a …", "日…"]);
    }

    #[test]
    fn a_table_without_rows_is_nothing() {
        assert!(Table::new(["key"]).lines(None).is_empty());
    }
}
