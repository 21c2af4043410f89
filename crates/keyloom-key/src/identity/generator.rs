//! Makes ULIDs that grow, whatever the clock does.
//!
//! I1: Each ULID of one generator is larger than the one before.
//! I2: The time in a ULID is the time handed in, unless I1 needs a later one.

use super::{IdentityError, Ulid};
use crate::limits::ULID_MILLIS_MAX;

/// Makes ULIDs from a time and randomness that the caller hands in.
#[derive(Debug, Default)]
pub struct UlidGenerator {
    last: Option<Ulid>,
}

impl UlidGenerator {
    /// A generator that has made nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// The next ULID. `random` fills the bytes it is given; it should be a secure source.
    ///
    /// While the clock stands still or goes back, the last ULID is counted up; when its random part
    /// is used up, the next millisecond begins.
    pub fn next(
        &mut self,
        now_millis: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Ulid, IdentityError> {
        let ulid = match self.last {
            Some(last) if last.millis() >= now_millis => match last.successor() {
                Some(next) => next,
                None => fresh(last.millis() + 1, random)?,
            },
            _ => fresh(now_millis, random)?,
        };
        self.last = Some(ulid);
        Ok(ulid)
    }
}

fn fresh(millis: u64, random: &mut dyn FnMut(&mut [u8])) -> Result<Ulid, IdentityError> {
    if millis > ULID_MILLIS_MAX {
        return Err(IdentityError::ClockOutOfRange { millis });
    }
    let mut bytes = [0; 10];
    random(&mut bytes);
    Ok(Ulid::from_parts(millis, bytes))
}
