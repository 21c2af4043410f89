//! How documents, plans and costs are shown to people.

use keyloom_api::{Cost, Direction, Document, Plan};
use keyloom_engine::schema::CollectionSchema;

use crate::members::{members, shown};
use crate::output::{Output, counted, visible};
use crate::problem::Failure;
use crate::table::Table;
use keyloom_server::times;
use keyloom_server::typed::kind_of;

/// A table of documents: their keys and the members of their data.
pub(super) fn documents<'d>(
    schema: &CollectionSchema,
    documents: impl Iterator<Item = (&'d str, &'d [u8])>,
) -> Table {
    let mut columns: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for (key, data) in documents {
        let members = members(data);
        for (name, _) in &members {
            if !columns.contains(name) {
                columns.push(name.clone());
            }
        }
        rows.push((key, members));
    }
    let mut table = Table::new(
        std::iter::once("key".to_owned()).chain(columns.iter().map(|name| visible(name))),
    );
    for (key, members) in rows {
        let cell = |name: &String| {
            let value = members.iter().find(|(member, _)| member == name);
            value.map(|(_, value)| shown(value, kind_of(schema, name))).unwrap_or_default()
        };
        table.row(std::iter::once(visible(key)).chain(columns.iter().map(cell)));
    }
    table
}

/// One document, line by line.
pub(super) fn document(
    output: &mut Output,
    schema: &CollectionSchema,
    document: &Document,
) -> Result<(), Failure> {
    let Document { key, version, created_at, updated_at, owner, description, data } = document;
    output.bold(visible(key))?;
    let mut about = vec![
        format!("version {version}"),
        format!("created {}", time(*created_at)),
        format!("updated {}", time(*updated_at)),
    ];
    about.extend(owner.as_ref().map(|owner| format!("owner {}", visible(owner))));
    output.dim(about.join(" · "))?;
    if let Some(description) = description {
        output.line(visible(description))?;
    }
    let members = members(data.get().as_bytes());
    let width = members.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in &members {
        let value = shown(value, kind_of(schema, name));
        output.line(format_args!("  {:width$}  {value}", visible(name)))?;
    }
    Ok(())
}

/// The plan, in front of what it found.
pub(super) fn plan(output: &mut Output, plan: Option<&Plan>) -> Result<(), Failure> {
    let Some(Plan { path, ranges, direction, covering, keys_read_max, probe, scan }) = plan else {
        return Ok(());
    };
    let mut line = path.clone();
    if let [range] = ranges.as_slice() {
        line.push_str(&format!("  {} .. {}", range.from, range.to));
    }
    line.push_str(match direction {
        Direction::Forward => "  forward",
        Direction::Reverse => "  reverse",
    });
    line.push_str(if *covering { "  covering" } else { "" });
    line.push_str(&format!("  ≤ {}", counted(*keys_read_max, "key")));
    line.extend(probe.iter().map(|probe| format!("  first of each group by {probe}")));
    let filtered = scan.iter().map(|scan| scan.filtered.join("; "));
    line.extend(filtered.map(|filtered| format!("  scan, filtered by {filtered}")));
    output.line(format_args!("plan  {}", visible(&line)))?;
    if ranges.len() > 1 {
        for range in ranges {
            let path = range.path.as_ref().map_or(String::new(), |path| format!("{path}  "));
            let line = format!("{path}{} .. {}", range.from, range.to);
            output.line(format_args!("      {}", visible(&line)))?;
        }
    }
    Ok(())
}

/// What was found and what it has cost, in one line behind it.
pub(super) fn summary(
    output: &mut Output,
    found: &str,
    plan: Option<&Plan>,
    spent: &Cost,
) -> Result<(), Failure> {
    let Some(plan) = plan else { return cost(output, found, spent) };
    let scan = if plan.scan.is_some() { " · a scan" } else { "" };
    cost(output, &format!("{found} · {}{scan}", plan.path), spent)
}

/// What something has cost, behind what it is.
pub(super) fn cost(output: &mut Output, what: &str, cost: &Cost) -> Result<(), Failure> {
    let Cost { keys_read, documents_read, ranges } = *cost;
    output.dim(format_args!(
        "{what} · {} read, {} read · {}",
        counted(keys_read, "key"),
        counted(documents_read, "document"),
        counted(ranges, "range"),
    ))
}

/// How to get the next page.
pub(super) fn next_page(
    output: &mut Output,
    option: &str,
    next: Option<&str>,
) -> Result<(), Failure> {
    next.map_or(Ok(()), |next| output.dim(format_args!("there is more: add {option} {next}")))
}

fn time(millis: u64) -> String {
    i64::try_from(millis).map_or_else(|_| millis.to_string(), times::render)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_column_for_every_member_that_any_document_has() {
        let text = "[collections.a]\nkey = \"{id}\"\n[collections.a.fields]\n\
                    at = { type = \"millis\" }\n";
        let schema = keyloom_engine::schema::Schema::from_toml(text).unwrap();
        let table = documents(
            &schema.collections["a"],
            [("k1", &br#"{"b":1,"at":0}"#[..]), ("k2", br#"{"a":"x","b":[2]}"#)].into_iter(),
        );
        expect_test::expect![[r"
            key  b    at                   a
            k1   1    1970-01-01 00:00:00
            k2   [2]                       x"]]
        .assert_eq(&table.lines(None).join("\n"));
    }
}
