//! Waits for what others hold for some microseconds only.
//!
//! To be put to sleep and woken costs more than such a wait: tens of microseconds, most of all on
//! virtual machines. So who waits looks again and again, lets other threads run in between, and
//! gives up in time for longer waits to cost no more than before.

use std::hint;
use std::thread;

/// All of it together is the time of a few commits: some fifty microseconds.
const ROUNDS: usize = 20;
const LOOKS: usize = 10;
const PAUSES: usize = 10;

/// Looks for something until it is there; `None` if that takes too long.
pub(crate) fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..ROUNDS {
        for _ in 0..LOOKS {
            if let Some(found) = look() {
                return Some(found);
            }
            // Looking takes the memory from the one who holds it, so not all the time.
            for _ in 0..PAUSES {
                hint::spin_loop();
            }
        }
        thread::yield_now();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_taken_at_once() {
        let mut looks = 0;
        let found = wait_for(|| {
            looks += 1;
            Some("found")
        });
        assert_eq!((found, looks), (Some("found"), 1));
    }

    #[test]
    fn what_comes_in_time_is_taken_and_the_rest_is_given_up() {
        for (comes_at, taken) in [(ROUNDS * LOOKS, true), (ROUNDS * LOOKS + 1, false)] {
            let mut looks = 0;
            let found = wait_for(|| {
                looks += 1;
                (looks == comes_at).then_some(())
            });
            assert_eq!(found.is_some(), taken);
        }
    }
}
