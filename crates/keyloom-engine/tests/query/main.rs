//! Queries and lists through the public surface of the engine.
//!
//! One test program, so that what the tests share is compiled and linked once. Test names begin
//! with the row of the behaviour that they show, where there is one.

#[cfg(test)]
mod approvals;
#[cfg(test)]
mod database;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod own;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod random;
#[cfg(test)]
mod reputation;
#[cfg(test)]
mod stickers;
