//! What objects of the grid promise.

mod classes;
mod damage;
mod grid;
mod invocations;
mod layouts;
mod letters;
mod lists;
mod objects;
mod races;
mod restarts;
mod rollout;
mod triggers;
mod upgrade;
