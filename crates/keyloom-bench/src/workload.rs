//! The documents of the benchmark and the questions about them, computed from a number.
//!
//! W1: The same number always gives the same approval and the same question, in every process: so
//!     all contenders hold the same documents, and none has to be told of them.
//! W2: Identities and codes never repeat.
//! W3: Every user asks for [`APPROVALS_PER_USER`] approvals and decides as many, spread over the
//!     time in which his users' [`Tier`] was written: the documents of a list lie apart.
//! W4: The users of a tier have nothing in later tiers, so their lists stay the same as the
//!     database grows.

use std::ops::Range;

use keyloom_key::Ulid;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// How many approvals a user asks for.
pub(crate) const APPROVALS_PER_USER: u64 = 50;

/// The results of every list.
pub(crate) const LIST_LIMIT: usize = 20;

/// Every so many approvals one is pending, and can be decided.
const PENDING_EVERY: u64 = 4;

/// 14 November 2023; one approval follows the other after about a second.
const FIRST_MILLIS: u64 = 1_700_000_000_000;
const STEP_MILLIS: u64 = 997;

/// The characters of a code, as Keyloom generates them.
const CODE_ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
const CODE_CHARACTERS: u32 = 6;

/// One approval, as a document and as columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Approval {
    pub(crate) id: Ulid,
    pub(crate) code: String,
    pub(crate) requester: String,
    pub(crate) approver: String,
    pub(crate) status: &'static str,
    pub(crate) created_at: i64,
    pub(crate) decided_at: Option<i64>,
    /// The whole document.
    pub(crate) json: String,
}

/// The documents of a run: how many are loaded, and how their users are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Workload {
    /// How many documents are loaded before anything is measured but the load itself.
    pub(crate) documents: u64,
}

/// Documents that share a set of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tier {
    from: u64,
    first_user: u64,
    users: u64,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Reading {
    /// One document by its key.
    Get,
    /// One document by its code.
    Lookup,
    /// The newest approvals of one requester.
    Newest,
    /// The same, but only what an index holds of them: identity and time.
    Covered,
    /// The newest approvals of which a user is requester or approver.
    Merged,
}

impl Workload {
    /// The sizes at which growth is measured.
    pub(crate) fn sizes(self) -> [u64; 3] {
        [self.documents / 100, self.documents / 10, self.documents]
    }

    /// One approval.
    pub(crate) fn approval(self, number: u64) -> Approval {
        let tier = self.tier_of(number);
        let place = number - tier.from;
        let requester = tier.first_user + place % tier.users;
        // Another user of the same tier, a different one each time the requester comes around.
        let shift = 1 + (place / tier.users) % (tier.users - 1);
        let approver = tier.first_user + (place % tier.users + shift) % tier.users;
        let decided = !number.is_multiple_of(PENDING_EVERY);
        let created_at = FIRST_MILLIS + number * STEP_MILLIS;
        let status = if decided { "approved" } else { "pending" };
        build(number, &user(requester), &user(approver), created_at, status)
    }

    /// The approvals with these numbers.
    pub(crate) fn approvals(self, numbers: Range<u64>) -> Vec<Approval> {
        numbers.map(|number| self.approval(number)).collect()
    }

    /// A pending approval that nobody has decided yet: a different one for each turn.
    pub(crate) fn undecided(self, turn: u64) -> Approval {
        let pending = self.documents.div_ceil(PENDING_EVERY);
        // A prime step walks through all of them before it meets one again.
        self.approval((turn * 7919 % pending) * PENDING_EVERY)
    }

    /// `count` things to ask about among the first `documents` documents: their numbers for
    /// [`Reading::Get`] and [`Reading::Lookup`], and numbers of users otherwise.
    pub(crate) fn questions(self, reading: Reading, among: u64, seed: u64, count: u64) -> Vec<u64> {
        let population = match reading {
            Reading::Get | Reading::Lookup => among,
            Reading::Newest | Reading::Covered | Reading::Merged => self.users_among(among),
        };
        (0..count).map(|turn| mix(seed ^ mix(turn)) % population).collect()
    }

    fn users_among(self, documents: u64) -> u64 {
        let last = self.tier_of(documents - 1);
        last.first_user + last.users
    }

    fn tier_of(self, number: u64) -> Tier {
        let mut tier = Tier { from: 0, first_user: 0, users: 0 };
        // What is created after the load is one more tier, as large as all before.
        for to in self.sizes().into_iter().chain([2 * self.documents]) {
            tier.first_user += tier.users;
            tier.users = ((to - tier.from) / APPROVALS_PER_USER).max(2);
            if number < to {
                return tier;
            }
            tier.from = to;
        }
        Tier { from: 2 * self.documents, ..tier }
    }
}

impl Approval {
    /// The same approval after it was approved.
    pub(crate) fn approved(&self, number: u64) -> Approval {
        let created_at = self.created_at.unsigned_abs();
        build(number, &self.requester, &self.approver, created_at, "approved")
    }

    /// The document key in text spelling.
    pub(crate) fn key(&self) -> String {
        format!("approval:record:{}", self.id)
    }

    /// The number that it was made from.
    pub(crate) fn number(&self) -> u64 {
        (self.created_at.unsigned_abs() - FIRST_MILLIS) / STEP_MILLIS
    }
}

/// The name of a user. Neighbours in number are no neighbours in name.
pub(crate) fn user(number: u64) -> String {
    format!("user-{:08x}-{number}", mix(number) >> 32)
}

/// The id of an approval; see [`Workload::approval`].
pub(crate) fn id(number: u64) -> Ulid {
    let random = (u128::from(mix(number)) << 64 | u128::from(number)).to_be_bytes();
    let mut tail = [0; 10];
    for (to, from) in tail.iter_mut().zip(random) {
        *to = from;
    }
    Ulid::from_parts(FIRST_MILLIS + number * STEP_MILLIS, tail)
}

/// The code of an approval: a multiplication by an odd number meets every code once.
pub(crate) fn code(number: u64) -> String {
    let codes = 1_u64 << (5 * CODE_CHARACTERS);
    let mut left = number.wrapping_mul(0x2545_F491_4F6C_DD1D) % codes;
    let mut text = String::from("A-");
    for _ in 0..CODE_CHARACTERS {
        let place = usize::try_from(left % 32).unwrap_or(0);
        text.push(CODE_ALPHABET.get(place).map_or('2', |byte| char::from(*byte)));
        left /= 32;
    }
    text
}

/// A schema is the one in the repository, not a copy of it.
pub(crate) fn schema() -> Outcome<keyloom_engine::schema::Schema> {
    let text = include_str!("../../../schemas/approvals.toml");
    Ok(keyloom_engine::schema::Schema::from_toml(text)?)
}

fn build(
    number: u64,
    requester: &str,
    approver: &str,
    created_at: u64,
    status: &'static str,
) -> Approval {
    let (id, code) = (id(number), code(number));
    let decided_at = (status != "pending").then_some(created_at + 60_000);
    let decision = decided_at.map_or_else(String::new, |at| {
        format!(r#","decided_at":{at},"comment":"fine with me, as discussed""#)
    });
    let json = format!(
        r#"{{"id":"{id}","code":"{code}","requester":"{requester}","approver":"{approver}","#
    ) + &format!(
        r#""description":"access to project {} for the review of release {}","#,
        number % 1009,
        number % 97
    ) + &format!(
        r#""created_at":{created_at},"status":"{status}","requester_notified":true,"#
    ) + &format!(r#""approver_notified":true{decision}}}"#);
    let millis = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    Approval {
        id,
        code,
        requester: requester.to_owned(),
        approver: approver.to_owned(),
        status,
        created_at: millis(created_at),
        decided_at: decided_at.map(millis),
        json,
    }
}

/// Spreads a number over all 64 bits (the finish of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const WORKLOAD: Workload = Workload { documents: 20_000 };

    fn all() -> impl Iterator<Item = Approval> {
        (0..WORKLOAD.documents).map(|number| WORKLOAD.approval(number))
    }

    #[test]
    fn w1_a_number_always_gives_the_same_approval() {
        assert_eq!(WORKLOAD.approval(7), WORKLOAD.approval(7));
        assert_eq!(WORKLOAD.approval(19_999).number(), 19_999);
    }

    #[test]
    fn w2_identities_and_codes_never_repeat() {
        let ids: BTreeSet<_> = all().map(|approval| approval.id.to_bytes()).collect();
        let codes: BTreeSet<_> = all().map(|approval| approval.code).collect();
        assert_eq!((ids.len(), codes.len()), (20_000, 20_000));
    }

    #[test]
    fn w3_every_user_asks_for_and_decides_fifty_approvals_of_others() {
        let mut requested: BTreeMap<String, u64> = BTreeMap::new();
        let mut decided: BTreeMap<String, u64> = BTreeMap::new();
        for approval in all() {
            assert_ne!(approval.requester, approval.approver);
            *requested.entry(approval.requester).or_default() += 1;
            *decided.entry(approval.approver).or_default() += 1;
        }
        assert_eq!(requested.len(), 400);
        assert!(requested.values().chain(decided.values()).all(|n| *n == APPROVALS_PER_USER));
    }

    #[test]
    fn w4_the_users_of_a_size_have_nothing_beyond_it() {
        for size in WORKLOAD.sizes() {
            let users = (0..WORKLOAD.users_among(size)).map(user);
            let before: BTreeSet<_> = users.collect();
            let after = (size..2 * WORKLOAD.documents).map(|number| WORKLOAD.approval(number));
            assert!(after.into_iter().all(|approval| !before.contains(&approval.requester)));
        }
    }

    #[test]
    fn a_pending_approval_is_handed_out_once() {
        let turns = WORKLOAD.documents / PENDING_EVERY;
        let handed_out: BTreeSet<_> = (0..turns)
            .map(|turn| WORKLOAD.undecided(turn))
            .inspect(|approval| assert_eq!(approval.status, "pending"))
            .map(|approval| approval.number())
            .collect();
        assert_eq!(handed_out.len() as u64, turns);
    }

    #[test]
    fn an_approved_approval_differs_in_its_decision_only() {
        let pending = WORKLOAD.approval(8);
        let approved = pending.approved(8);
        assert_eq!((pending.status, approved.status), ("pending", "approved"));
        assert_eq!(pending.id, approved.id);
        assert_eq!(pending.key(), approved.key());
        assert!(approved.json.contains("\"decided_at\":"));
    }

    #[test]
    fn questions_stay_among_what_is_loaded() {
        for size in WORKLOAD.sizes() {
            let documents = WORKLOAD.questions(Reading::Get, size, 1, 1000);
            assert!(documents.iter().all(|number| *number < size));
            let users = WORKLOAD.questions(Reading::Newest, size, 1, 1000);
            assert!(users.iter().all(|number| *number < size / APPROVALS_PER_USER));
        }
    }
}
