//! What can be said about the machine, and about the memory and the disk that a process takes.
//!
//! Everything is read from where Linux says it; elsewhere the answer is "unknown".

use std::fs;
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::outcome::Outcome;

/// The size of the blocks that a file system counts in.
const BLOCK_BYTES: u64 = 512;

/// How long processes do nothing before they are quiet: Linux counts in steps of 10 ms.
const QUIET: Duration = Duration::from_millis(25);

/// How often it is looked at most whether they are: a minute in all.
const LOOKS_MAX: usize = 2400;

/// One line about the machine.
pub(crate) fn describe() -> String {
    let cores = thread::available_parallelism().map_or_else(|_| "?".into(), |n| n.to_string());
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = match kib_of(&memory, "MemTotal:") {
        Some(kib) => format!("{} GiB of memory", (kib + (1 << 19)) >> 20),
        None => "unknown memory".to_owned(),
    };
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name))
        .map_or("unknown processor", str::trim);
    format!("{processor}, {cores} cores, {memory}, {}", std::env::consts::OS)
}

/// The memory that a process has in use now, in bytes: this one, or another by its number.
pub(crate) fn resident_bytes(process: Option<u32>) -> u64 {
    let process = process.map_or_else(|| "self".to_owned(), |number| number.to_string());
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    kib_of(&status, "VmRSS:").map_or(0, |kib| kib * 1024)
}

/// Waits until none of these processes takes time of a processor, or for a minute.
#[expect(clippy::disallowed_methods, reason = "other processes tell nobody that they are done")]
pub(crate) fn await_quiet(processes: &[u32]) {
    let looks = iter::repeat_with(|| {
        thread::sleep(QUIET);
        processes.iter().map(|process| ticks(*process)).sum()
    });
    await_steady(looks.take(LOOKS_MAX));
}

/// Looks until a number is the same twice, or there is none left.
fn await_steady(looks: impl IntoIterator<Item = u64>) {
    let mut before = None;
    for now in looks {
        if before == Some(now) {
            return;
        }
        before = Some(now);
    }
}

/// The time of processors that a process has taken, in steps of the system.
fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    ticks_of(&stat).unwrap_or_default()
}

/// User and system time; the name of the process, in parentheses, may hold anything.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

/// What a folder takes on its disk, in bytes.
pub(crate) fn disk_bytes(folder: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            metadata.blocks() * BLOCK_BYTES
        };
    }
    Ok(bytes)
}

fn kib_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_system_is_read_as_kibibytes() {
        let text = "MemTotal:       24100000 kB\nMemFree:  5 kB\n";
        assert_eq!(kib_of(text, "MemTotal:"), Some(24_100_000));
        assert_eq!(kib_of(text, "MemFree:"), Some(5));
        assert_eq!(kib_of(text, "VmRSS:"), None);
    }

    #[test]
    fn the_times_of_a_process_are_found_behind_its_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 100 0 0 0 150 25 9 9 20 0 4 0 1000 1 1";
        assert_eq!(ticks_of(stat), Some(175));
        assert_eq!(ticks_of("7 (a) S 1"), None);
    }

    #[test]
    fn a_number_that_still_grows_is_looked_at_again() {
        let mut looks = [5, 6, 8, 8, 9].into_iter();
        await_steady(&mut looks);
        assert_eq!(looks.next(), Some(9));
        await_steady(1..100);
    }

    #[test]
    fn files_in_folders_below_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/file"), vec![7; 100_000]).unwrap();
        assert!(disk_bytes(folder.path()).unwrap() >= 100_000);
    }
}
