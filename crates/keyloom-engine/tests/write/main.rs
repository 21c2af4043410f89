//! What writes promise, seen through the public surface of the engine.
//!
//! One test program, so that what the tests share is compiled and linked once. Test names begin
//! with the row of the behaviour that they show, where there is one.

#[cfg(test)]
mod access;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod capacity;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod evolution;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod feed;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod object;
#[cfg(test)]
mod retries;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod schema_errors;
#[cfg(test)]
mod stickers;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod users;
#[cfg(test)]
mod versions;
#[cfg(test)]
mod votes;

#[cfg(test)]
#[path = "../support/mod.rs"]
mod support;
