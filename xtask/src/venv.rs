//! Packages of Python that a check needs.
//!
//! I1: They are pinned with hashes in `tests`, and live in `target`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::process;

/// Which packages, and where they live.
pub(super) struct Packages {
    /// The file that lists them, with hashes.
    pub(super) list: &'static str,
    /// The folder that they are installed in.
    pub(super) folder: &'static str,
}

/// Where the packages are, installed if they are not there yet.
pub(super) fn installed(root: &Path, packages: &Packages) -> Result<PathBuf, Failure> {
    let Packages { list, folder } = packages;
    let requirements = fs::read_to_string(root.join(list))
        .map_err(|error| Failure::Failed(format!("{list} cannot be read: {error}")))?;
    let folder = root.join(folder);
    let installed = folder.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == requirements) {
        return Ok(folder);
    }
    let python = "Python 3.10 or later with venv is needed to check the server from outside";
    let mut command = Command::new("python3");
    command.current_dir(root).args(["-m", "venv", "--clear"]).arg(&folder);
    process::run(&mut command).map_err(|failure| because(python, &failure))?;
    let registry = format!("the packages of {list} have to be installed from PyPI");
    let mut command = Command::new(folder.join("bin/pip"));
    command.current_dir(root).args(["install", "--quiet", "--disable-pip-version-check"]);
    command.args(["--require-hashes", "-r", list]);
    process::run(&mut command).map_err(|failure| because(&registry, &failure))?;
    fs::write(&installed, requirements)
        .map_err(|error| Failure::Failed(format!("{}: {error}", installed.display())))?;
    Ok(folder)
}

fn because(need: &str, failure: &Failure) -> Failure {
    Failure::Failed(format!("{need}: {failure}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Every package of the list has a hash, and one of them begins so (I1).
    pub(crate) fn check_pinned(packages: &Packages, first: &str) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fs::read_to_string(root.join(packages.list)).unwrap();
        let packages = text.lines().filter(|line| line.contains("=="));
        assert!(packages.clone().any(|line| line.starts_with(first)));
        assert!(packages.clone().all(|line| line.ends_with('\\')), "a line without a hash");
    }

    #[test]
    fn i1_what_is_installed_from_this_list_is_not_installed_again() {
        let root = tempfile::tempdir().unwrap();
        let packages = Packages { list: "list.txt", folder: "target/some" };
        for path in [packages.list, "target/some/installed.txt"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "some==1\n").unwrap();
        }
        let folder = installed(root.path(), &packages).unwrap();
        assert_eq!(folder, root.path().join(packages.folder));
    }
}
