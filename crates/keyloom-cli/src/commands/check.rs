//! `keyloom check`: all documents and keys, compared both ways.

use keyloom_api::CheckProblem;
use keyloom_engine::Repair;

use super::Session;
use crate::args::Check;
use crate::output::{Format, counted, visible};
use crate::problem::Failure;
use crate::progress::Progress;

pub(super) async fn run(session: &mut Session<'_>, check: &Check) -> Result<(), Failure> {
    let repair = if check.repair { Repair::Yes } else { Repair::No };
    let mut progress = Progress::start("check");
    let mut documents = 0;
    let mut step = |more: u64| {
        documents += more;
        progress.step(documents, None);
    };
    let checked = session.backend.check(repair, &mut step).await;
    progress.finish();
    let report = checked?;
    let output = &mut *session.output;
    let found = u64::try_from(report.problems.len()).unwrap_or(u64::MAX);
    match output.format() {
        Format::Json => output.json(&report)?,
        Format::Text => {
            // Lines and no table: nothing of a key may be cut here.
            for CheckProblem { collection, path, key, what } in &report.problems {
                let told = format!("{collection}: {path} {key}: {what}");
                output.line(visible(&told))?;
            }
            let objects = match report.objects {
                0 => String::new(),
                objects => format!(", {}", counted(objects, "object")),
            };
            output.line(format_args!(
                "checked {}{objects} and {}: {}",
                counted(report.documents, "document"),
                counted(report.keys, "key"),
                verdict(found, report.repaired),
            ))?;
        }
    }
    if found > report.repaired {
        return Err(Failure::Damaged(counted(found - report.repaired, "problem")));
    }
    Ok(())
}

fn verdict(found: u64, repaired: u64) -> String {
    match (found, repaired) {
        (0, _) => "all agree".to_owned(),
        (found, 0) => counted(found, "problem"),
        (found, repaired) => format!("{}, {repaired} mended", counted(found, "problem")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_says_what_is_left() {
        assert_eq!(verdict(0, 0), "all agree");
        assert_eq!(verdict(1, 0), "1 problem");
        assert_eq!(verdict(3, 2), "3 problems, 2 mended");
    }
}
