//! What the server promises, seen through a real socket.
//!
//! Every test runs a server on a port of its own and speaks HTTP with it. Test names begin with the
//! row of the behaviour that they show, where there is one.

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod conventions;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod server;
#[cfg(test)]
mod status;
