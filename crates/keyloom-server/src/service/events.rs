//! Events that wait for delivery, dead letters, and results of invocations.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use keyloom_engine::{Ended, Error, EventPage, Failed, Identity, OutboxAt, OutboxEvent, Right};
use tokio::sync::Notify;

use super::objects::{reading, writing};
use super::{Service, administering, with_right};

/// A class and one of its partitions.
pub(crate) type Place = (String, u16);

/// Where something was triggered since this was last asked.
#[derive(Default)]
pub(super) struct Fired {
    places: Mutex<BTreeSet<Place>>,
    signal: Notify,
}

impl Fired {
    /// Something was triggered here.
    pub(super) fn add(&self, class: &str, partition: u16) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.insert((class.to_owned(), partition));
        self.signal.notify_one();
    }

    async fn take(&self) -> BTreeSet<Place> {
        self.signal.notified().await;
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *places)
    }
}

impl Service {
    /// The partitions with events that wait for delivery.
    pub(crate) async fn partitions_with_events(&self) -> Result<Vec<Place>, Error> {
        self.engine.partitions_with_events().await
    }

    /// Where changes have triggered something since this was last asked; done when there is any.
    pub(crate) async fn fired(&self) -> BTreeSet<Place> {
        self.fired.take().await
    }

    /// The first events of a partition that wait for delivery.
    pub(crate) async fn outbox(
        &self,
        at: OutboxAt<'_>,
        limit: usize,
    ) -> Result<Vec<OutboxEvent>, Error> {
        self.engine.outbox(at, limit).await
    }

    /// An event was delivered, and its function has ended.
    pub(crate) async fn delivered(
        &self,
        at: OutboxAt<'_>,
        sequence: u64,
        ended: Ended<'_>,
    ) -> Result<(), Error> {
        if self.engine.delivered(at, sequence, Some(ended)).await? > 0 {
            self.fire(&ended);
        }
        self.metrics.event("delivered");
        Ok(())
    }

    /// An event was not delivered; if that was the last attempt, its function has ended.
    pub(crate) async fn failed(
        &self,
        at: OutboxAt<'_>,
        sequence: u64,
        reason: &str,
        ended: Ended<'_>,
    ) -> Result<Failed, Error> {
        let failed = self.engine.failed(at, sequence, reason, Some(ended)).await?;
        if failed == Failed::Dead {
            self.fire(&ended);
        }
        self.metrics.event(if failed == Failed::Dead { "dead" } else { "failed" });
        Ok(failed)
    }

    /// A function has ended.
    pub(crate) async fn ended(&self, ended: Ended<'_>) -> Result<(), Error> {
        if self.engine.record_completion(ended).await? > 0 {
            self.fire(&ended);
        }
        Ok(())
    }

    /// What the end of a function triggers lies where it was called.
    fn fire(&self, ended: &Ended<'_>) {
        if let Ok(partition) = u16::try_from(ended.partition) {
            self.fired.add(ended.class, partition);
        }
    }

    /// Refuses whoever may not follow the changes of a collection or a class. Who may not is not
    /// told whether there is one, and others are told only of those that they may follow.
    pub fn check_followed(&self, caller: &Identity, name: &str) -> Result<(), Error> {
        with_right(caller, name, Right::Read)?;
        let mut known = self.engine.collections();
        known.extend(self.engine.classes());
        if known.iter().any(|known| known == name) {
            return Ok(());
        }
        known.retain(|name| caller.scopes.allow(name, Right::Read));
        Err(Error::UnknownCollection { collection: name.to_owned(), known: known.join(", ") })
    }

    /// Forgets the results of invocations that nobody has asked for in time.
    pub async fn expire_invocations(&self) -> Result<(), Error> {
        self.engine.expire_invocations().await.map(|_| ())
    }

    /// Lets results that an older version has kept expire, too.
    pub async fn adopt_invocations(&self) -> Result<(), Error> {
        self.engine.adopt_invocations().await.map(|_| ())
    }

    /// Events of a partition that could not be delivered, from a number on.
    pub async fn dead_letters(
        &self,
        caller: &Identity,
        at: OutboxAt<'_>,
        from: u64,
        limit: usize,
    ) -> Result<EventPage, Error> {
        reading(caller, at.class)?;
        self.engine.dead_letters(at, from, limit).await
    }

    /// Puts a dead letter back into the outbox.
    pub async fn replay(
        &self,
        caller: &Identity,
        at: OutboxAt<'_>,
        sequence: u64,
    ) -> Result<(), Error> {
        writing(caller, at.class)?;
        if !self.engine.replay(at, sequence).await? {
            return Err(no_letter(at, sequence));
        }
        self.fired.add(at.class, at.partition);
        Ok(())
    }

    /// Forgets a dead letter.
    pub async fn delete_letter(
        &self,
        caller: &Identity,
        at: OutboxAt<'_>,
        sequence: u64,
    ) -> Result<(), Error> {
        administering(caller)?;
        match self.engine.delete_letter(at, sequence).await? {
            true => Ok(()),
            false => Err(no_letter(at, sequence)),
        }
    }

    /// Forgets the dead letters that a partition has now; how many.
    pub async fn delete_letters(&self, caller: &Identity, at: OutboxAt<'_>) -> Result<u64, Error> {
        administering(caller)?;
        self.engine.delete_letters(at).await
    }
}

fn no_letter(at: OutboxAt<'_>, sequence: u64) -> Error {
    Error::NotFound { collection: at.class.to_owned(), key: format!("dead letter {sequence}") }
}
