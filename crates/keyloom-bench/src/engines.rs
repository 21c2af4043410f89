//! The versions of the engines that are compared, as they were built in.

/// The lock file of the workspace says which versions were built.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// Names and versions in one line.
pub(crate) fn describe() -> String {
    let locked = ["redb", "fjall", "rusqlite"]
        .map(|name| format!("{name} {}", version_in(LOCK, name).unwrap_or("?")));
    format!("{} with SQLite {}", locked.join(", "), rusqlite::version())
}

fn version_in<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = lock.split_once(&format!("\nname = \"{name}\"\nversion = \""))?;
    rest.split_once('"').map(|(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_by_the_whole_name() {
        let lock = "\n[[package]]\nname = \"redb-x\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \
                    \"redb\"\nversion = \"4.4.0\"\n";
        assert_eq!(version_in(lock, "redb"), Some("4.4.0"));
        assert_eq!(version_in(lock, "fjall"), None);
    }

    #[test]
    fn all_engines_are_locked() {
        assert!(!describe().contains('?'));
    }
}
