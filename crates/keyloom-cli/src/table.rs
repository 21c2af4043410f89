//! Tables for people: columns side by side, as wide as what stands in them.
//!
//! T1: Columns line up by display width, not by bytes or characters.
//! T2: Where the width is bounded, no line is longer: the widest columns are cut first, marked with
//!     `…`. The first column says which row it is and stays whole, unless it takes more than two
//!     thirds; the last ones for which no room is left are not shown, and their number is told.

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
        let mut left_out = String::new();
        if let Some(width) = width {
            let shown = fitting(&widths, width);
            left_out = more(widths.len() - shown);
            widths.truncate(shown);
            shrink(&mut widths, width.saturating_sub(left_out.width()));
        }
        let header = line(&self.headers, &widths) + &left_out;
        let rows = self.rows.iter().map(|row| line(row, &widths));
        let lines = std::iter::once(header).chain(rows).map(|line| line.trim_end().to_owned());
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

/// How many columns find room: the first one as wide as it may insist on, the others as narrow as
/// they may be.
fn fitting(widths: &[usize], available: usize) -> usize {
    let needed = |shown: usize| {
        let others = widths.iter().take(shown).skip(1);
        let others: usize = others.map(|width| GAP + COLUMN_WIDTH_MIN.min(*width)).sum();
        let first = widths.first().map_or(0, |first| (*first).min(available * 2 / 3));
        first + others + more(widths.len() - shown).width()
    };
    (1..=widths.len()).rev().find(|shown| needed(*shown) <= available).unwrap_or(1)
}

/// What stands at the end of the header if there is no room for all columns.
fn more(columns: usize) -> String {
    if columns == 0 { String::new() } else { format!("{}… {columns} more", " ".repeat(GAP)) }
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
    fn t2_columns_without_room_are_counted_and_the_first_stays_whole() {
        let mut table = Table::new(["key", "requester", "approver", "status", "code"]);
        table.row(["order:01M7J1AQXXXXXXXXXXXXXXXXXX", "ann", "bob", "pending", "A-SLQ9ZL"]);
        let shown = |width| table.lines(Some(width)).join("\n");
        expect_test::expect![[r"
            key                               requester  … 3 more
            order:01M7J1AQXXXXXXXXXXXXXXXXXX  ann"]]
        .assert_eq(&shown(55));
        expect_test::expect![[r"
            key                               … 4 more
            order:01M7J1AQXXXXXXXXXXXXXXXXXX"]]
        .assert_eq(&shown(42));
        assert_eq!(table.lines(Some(72)), table.lines(None));
        assert!((1..80).all(|width| table.lines(Some(width)).iter().all(|it| it.width() <= width)));
    }

    #[test]
    fn a_wide_character_is_not_cut_in_half() {
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("日本語", 6), "日本語");
    }

    #[test]
    fn t2_a_narrow_terminal_shows_the_beginning_of_every_line() {
        let lines = table().lines(Some(12));
        assert_eq!(lines, ["key   … 1 m…", "a", "日本"]);
        assert_eq!(table().lines(Some(3)), ["ke…", "a", "日…"]);
    }

    #[test]
    fn a_table_without_rows_is_nothing() {
        assert!(Table::new(["key"]).lines(None).is_empty());
    }
}
