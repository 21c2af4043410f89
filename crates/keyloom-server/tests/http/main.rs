//! The server from outside: everything here goes through HTTP.
//!
//! One test program, so that what the tests share is compiled and linked once. Test names begin
//! with the row of the behaviour that they show, where there is one.

#[cfg(test)]
mod approvals;
#[cfg(test)]
mod attacks;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod conventions;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod feed;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod reputation;
#[cfg(test)]
mod room;
#[cfg(test)]
mod scopes;
#[cfg(test)]
mod server;
#[cfg(test)]
mod status;
#[cfg(test)]
mod stickers;
