//! How many requests a caller may send in a second.

use std::net::IpAddr;
use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// Counts the requests of each caller.
pub(crate) struct Rates {
    limiter: DefaultKeyedRateLimiter<Counted>,
}

/// By what a caller is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    /// The subject of a token.
    Subject(String),
    /// Where a caller without one comes from.
    Address(IpAddr),
    /// All callers without one who come over Zenoh, which does not tell where from.
    Zenoh,
}

impl Rates {
    /// So many requests in a second, and as many at once.
    pub(crate) fn new(per_second: NonZeroU32) -> Rates {
        Rates { limiter: RateLimiter::keyed(Quota::per_second(per_second)) }
    }

    /// Whether one more request is within the limit.
    pub(crate) fn allows(&self, caller: &Counted) -> bool {
        self.limiter.check_key(caller).is_ok()
    }

    /// Forgets callers that were quiet, so that they do not add up.
    pub(crate) fn sweep(&self) {
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_a_limit_of_its_own() {
        let rates = Rates::new(NonZeroU32::new(2).unwrap());
        let [ann, bob] = ["ann", "bob"].map(|name| Counted::Subject(name.to_owned()));
        assert!(rates.allows(&ann) && rates.allows(&ann));
        assert!(!rates.allows(&ann));
        assert!(rates.allows(&bob));
        assert!(rates.allows(&Counted::Address(IpAddr::from([127, 0, 0, 1]))));
    }
}
