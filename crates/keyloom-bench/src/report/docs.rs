//! Puts a report into a document, between two marks; what stands around them stays.

/// The line before the report.
const BEGIN: &str = "<!-- begin: written by `cargo xtask bench core --write-docs` -->";
/// The line behind it.
const END: &str = "<!-- end -->";

/// The document with a new report; `None` if it does not have the two marks in order.
pub(crate) fn replace_report(document: &str, report: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", report.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_the_marks_stays() {
        let document = format!("# Title\n{BEGIN}\nold\n{END}\nprose\n");
        let replaced = replace_report(&document, "new\n").unwrap();
        assert_eq!(replaced, format!("# Title\n{BEGIN}\n\nnew\n\n{END}\nprose\n"));
        assert_eq!(replace_report(&replaced, "new").as_deref(), Some(replaced.as_str()));
    }

    #[test]
    fn a_document_without_marks_is_not_touched() {
        assert_eq!(replace_report("# Title\n", "new"), None);
        assert_eq!(replace_report(&format!("{END}\n{BEGIN}"), "new"), None);
    }
}
