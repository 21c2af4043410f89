//! Puts a report into a document, between two marks; what stands around them stays.

/// The line behind a report.
const END: &str = "<!-- end -->";

/// The document with a new report of this name; `None` if it does not have the two marks in order.
pub(crate) fn replace_report(document: &str, name: &str, report: &str) -> Option<String> {
    let begin = begin(name);
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n\n{}\n\n{END}{after}", report.trim()))
}

/// The line before a report.
fn begin(name: &str) -> String {
    format!("<!-- begin: written by `cargo xtask bench {name} --write-docs` -->")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_the_marks_stays() {
        let [core, server] = ["core", "server"].map(begin);
        let document = format!("# A\n{core}\nold\n{END}\n# B\n{server}\nold\n{END}\nprose\n");
        let replaced = replace_report(&document, "server", "new\n").unwrap();
        let expected = format!("# A\n{core}\nold\n{END}\n# B\n{server}\n\nnew\n\n{END}\nprose\n");
        assert_eq!(replaced, expected);
        assert_eq!(replace_report(&replaced, "server", "new"), Some(replaced));
    }

    #[test]
    fn a_document_without_marks_is_not_touched() {
        assert_eq!(replace_report("# Title\n", "core", "new"), None);
        assert_eq!(replace_report(&format!("{END}\n{}", begin("core")), "core", "new"), None);
    }
}
