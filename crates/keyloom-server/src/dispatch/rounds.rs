//! Which partition is gone to next: the order of deliveries without the deliveries.
//!
//! R1: A partition is at one place: ready, on the way, or resting. So nobody overtakes its events.
//! R2: Who was served goes behind those who wait.
//! R3: What is triggered while somebody is on the way is looked at once more.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::service::events::Place;

/// The partitions that have something to deliver, or may have.
#[derive(Default)]
pub(super) struct Rounds {
    ready: VecDeque<Place>,
    /// On the way; `true` if something was triggered there meanwhile (R3).
    away: HashMap<Place, bool>,
    resting: BTreeSet<(Instant, Place)>,
    /// All that are ready or resting.
    known: HashSet<Place>,
}

/// When to go to a partition again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// When something is triggered there.
    WhenFired,
    /// After this time, whatever happens.
    After(Duration),
}

impl Rounds {
    /// There may be something to deliver here.
    pub(super) fn add(&mut self, places: impl IntoIterator<Item = Place>) {
        for place in places {
            match self.away.get_mut(&place) {
                Some(again) => *again = true,
                None if self.known.insert(place.clone()) => self.ready.push_back(place),
                None => {}
            }
        }
    }

    /// Sends somebody to a partition; he comes back with [`Rounds::end`].
    pub(super) fn next(&mut self, now: Instant) -> Option<Place> {
        while self.wake_at().is_some_and(|at| at <= now)
            && let Some((_, place)) = self.resting.pop_first()
        {
            self.ready.push_back(place);
        }
        let place = self.ready.pop_front()?;
        self.known.remove(&place);
        self.away.insert(place.clone(), false);
        Some(place)
    }

    /// Somebody came back from a partition.
    pub(super) fn end(&mut self, place: Place, then: Then, now: Instant) {
        let again = self.away.remove(&place).unwrap_or(false);
        match then {
            Then::WhenFired if !again => {}
            Then::WhenFired | Then::After(Duration::ZERO) => self.add([place]),
            Then::After(time) => {
                self.known.insert(place.clone());
                self.resting.insert((now + time, place));
            }
        }
    }

    /// When somebody has rested enough.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.resting.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(partition: u16) -> Place {
        ("c".to_owned(), partition)
    }

    #[test]
    fn r1_a_partition_is_gone_to_once_however_often_it_fires() {
        let (mut rounds, now) = (Rounds::default(), Instant::now());
        rounds.add([place(1), place(1), place(2)]);
        assert_eq!((rounds.next(now), rounds.next(now)), (Some(place(1)), Some(place(2))));
        rounds.add([place(1)]);
        assert_eq!(rounds.next(now), None, "somebody is on the way");
    }

    #[test]
    fn r2_who_was_served_goes_behind_those_who_wait() {
        let (mut rounds, now) = (Rounds::default(), Instant::now());
        rounds.add([place(1), place(2)]);
        rounds.next(now);
        rounds.end(place(1), Then::After(Duration::ZERO), now);
        assert_eq!((rounds.next(now), rounds.next(now)), (Some(place(2)), Some(place(1))));
    }

    #[test]
    fn r3_what_fires_on_the_way_is_looked_at_once_more() {
        let (mut rounds, now) = (Rounds::default(), Instant::now());
        rounds.add([place(1)]);
        rounds.next(now);
        rounds.add([place(1)]);
        rounds.end(place(1), Then::WhenFired, now);
        assert_eq!(rounds.next(now), Some(place(1)));
        rounds.end(place(1), Then::WhenFired, now);
        assert_eq!(rounds.next(now), None);
    }

    #[test]
    fn who_rests_is_not_woken_by_what_fires() {
        let (mut rounds, now) = (Rounds::default(), Instant::now());
        let wait = Duration::from_secs(5);
        rounds.add([place(1)]);
        rounds.next(now);
        rounds.end(place(1), Then::After(wait), now);
        rounds.add([place(1)]);
        assert_eq!((rounds.next(now), rounds.wake_at()), (None, Some(now + wait)));
        assert_eq!(rounds.next(now + wait), Some(place(1)));
        assert_eq!((rounds.next(now + wait), rounds.wake_at()), (None, None));
    }
}
