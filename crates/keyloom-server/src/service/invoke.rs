//! Invocations: who may call which function, and where it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use keyloom_api::grid::{
    InvocationRequest, InvocationResponse, ObjectInvocationRequest, ResponseStatus,
};
use keyloom_engine::schema::FunctionSchema;
use keyloom_engine::{Completion, Ended, Error, Identity, ObjectAt, ObjectId, OutboxAt, Partition};
use prost::Message as _;
use tracing::warn;

use super::Service;
use super::objects::{reading, writing};
use crate::functions::{Invocation, failed, is_okay, refused};
use crate::grid::{PARTITION, identity};
use crate::limits::{FUNCTION_TIMEOUT, INVOCATION_KEPT, INVOCATION_SLACK, INVOCATIONS_MAX};
use crate::problem::problem;

/// The option, and the header, that says how many events led to a call or a write.
pub const DEPTH: &str = "keyloom-depth";

/// The option that asks for the answer later.
pub const ASYNC: &str = "async";

/// A call of a function.
#[derive(Clone, Debug)]
pub struct Invoke {
    /// The class that has it.
    pub class: String,
    /// The partition that it is called in.
    pub partition: Partition,
    /// The object that it is called on, if it is called on one.
    pub object: Option<ObjectId>,
    /// Its name.
    pub function: String,
    /// What it is given beside the payload.
    pub options: BTreeMap<String, String>,
    /// What it works on.
    pub payload: Vec<u8>,
}

impl Invoke {
    /// The same, by somebody to whom so many events led.
    #[must_use]
    pub fn deeper(mut self, depth: u32) -> Invoke {
        if depth > 0 {
            self.options.insert(DEPTH.to_owned(), depth.to_string());
        }
        self
    }
}

impl Service {
    /// Calls a function. With the option `async` the answer only says how to ask for the result.
    pub async fn invoke(
        self: Arc<Service>,
        caller: &Identity,
        mut invoke: Invoke,
    ) -> Result<InvocationResponse, Error> {
        writing(caller, &invoke.class)?;
        let is_async = invoke.options.remove(ASYNC).is_some_and(|value| value == "true");
        let (_, partition) = self.located(&invoke)?;
        let place = Arc::clone(&self.invocations).try_acquire_owned();
        let place = place.map_err(|_| Error::LimitExceeded {
            what: "functions that run at once".to_owned(),
            found: INVOCATIONS_MAX + 1,
            max: INVOCATIONS_MAX,
        })?;
        if !is_async {
            // Who goes away before the end does not keep others from hearing of it.
            let called = tokio::spawn(async move {
                let _place = place;
                self.call_and_tell(invoke).await
            });
            return called.await.expect("a call is not cancelled, and does not panic");
        }
        let id = self.engine.invocation_id();
        self.keep_place(&invoke, partition, &id).await?;
        let (service, invocation) = (Arc::clone(&self), id.clone());
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = service.call_and_keep(invoke, partition, &invocation).await {
                warn!(invocation, %error, "the result of an invocation is lost");
            }
        });
        // Where to ask for the result: who called may have said auto.
        let headers = [(PARTITION.to_owned(), partition.to_string())].into();
        Ok(InvocationResponse { invocation_id: Some(id), headers, ..InvocationResponse::default() })
    }

    /// Calls a function in the name of an invocation whose id the caller has chosen; one that is in
    /// use is refused. The result is kept, too.
    pub async fn invoke_as(
        &self,
        caller: &Identity,
        invoke: Invoke,
        invocation: &str,
    ) -> Result<InvocationResponse, Error> {
        writing(caller, &invoke.class)?;
        let (_, partition) = self.located(&invoke)?;
        self.keep_place(&invoke, partition, invocation).await?;
        self.call_and_keep(invoke, partition, invocation).await
    }

    /// The result of an asynchronous invocation, which is then forgotten; `None` while it runs.
    pub async fn invocation_result(
        &self,
        caller: &Identity,
        at: OutboxAt<'_>,
        invocation: &str,
    ) -> Result<Option<InvocationResponse>, Error> {
        reading(caller, at.class)?;
        let found = self.engine.invocation(at, invocation).await?;
        let bytes = found.ok_or_else(|| Error::NotFound {
            collection: at.class.to_owned(),
            key: format!("invocation {invocation}"),
        })?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let answer = InvocationResponse::decode(bytes.as_slice())
            .map_err(|error| Error::Corrupt { detail: format!("a result: {error}") })?;
        self.engine.delete_invocation(at, invocation).await?;
        Ok(Some(answer))
    }

    /// Calls a function and keeps its answer, whatever it is.
    async fn call_and_keep(
        &self,
        invoke: Invoke,
        partition: u16,
        invocation: &str,
    ) -> Result<InvocationResponse, Error> {
        let class = invoke.class.clone();
        let answer = self.call_and_tell(invoke).await;
        let answer = answer.unwrap_or_else(|error| refused(&problem(&error)));
        let named =
            |answer| InvocationResponse { invocation_id: Some(invocation.to_owned()), ..answer };
        let answer = named(answer);
        let kept = self.keep_result(&class, partition, invocation, &answer.encode_to_vec()).await;
        let Err(Error::LimitExceeded { .. }) = &kept else { return kept.map(|()| answer) };
        // It would seem to run until it is forgotten.
        let answer =
            named(failed(ResponseStatus::SystemError, "the answer is too large".to_owned()));
        self.keep_result(&class, partition, invocation, &answer.encode_to_vec()).await?;
        Ok(answer)
    }

    /// Calls a function, and triggers what its end triggers.
    async fn call_and_tell(&self, invoke: Invoke) -> Result<InvocationResponse, Error> {
        let depth = invoke.options.get(DEPTH).and_then(|text| text.parse().ok()).unwrap_or(0);
        let (class, function) = (invoke.class.clone(), invoke.function.clone());
        let object = invoke.object.clone();
        let (_, partition) = self.located(&invoke)?;
        let answer = self.call(invoke).await?;
        let is_okay = is_okay(&answer);
        self.ended(Ended {
            class: &class,
            partition: u32::from(partition),
            object: object.as_ref(),
            function: &function,
            completion: if is_okay { Completion::Complete } else { Completion::Error },
            payload: answer.payload.as_deref().unwrap_or_default(),
            depth,
        })
        .await?;
        Ok(answer)
    }

    /// Calls a function, whoever asks.
    pub(crate) async fn call(&self, invoke: Invoke) -> Result<InvocationResponse, Error> {
        let (function, partition) = self.located(&invoke)?;
        Ok(self.functions.call(&function, request(invoke, partition)).await)
    }

    /// Keeps the place of a result while the function may run: if the server is killed meanwhile,
    /// it does not seem to run for ever.
    async fn keep_place(&self, invoke: &Invoke, partition: u16, id: &str) -> Result<(), Error> {
        let (function, _) = self.located(invoke)?;
        let time = function.timeout_ms.map_or(FUNCTION_TIMEOUT, Duration::from_millis);
        let at = OutboxAt { class: &invoke.class, partition };
        self.engine.begin_invocation(at, id, time.saturating_add(INVOCATION_SLACK)).await
    }

    async fn keep_result(
        &self,
        class: &str,
        partition: u16,
        id: &str,
        result: &[u8],
    ) -> Result<(), Error> {
        let at = OutboxAt { class, partition };
        self.engine.finish_invocation(at, id, INVOCATION_KEPT, result).await
    }

    /// Where a function is, and the number of the partition.
    fn located(&self, invoke: &Invoke) -> Result<(FunctionSchema, u16), Error> {
        let Invoke { class, partition, object, function, .. } = invoke;
        let schema = self.engine.class(class)?;
        let found = schema.functions.get(function).cloned();
        let found = found.ok_or_else(|| {
            let known: Vec<&str> = schema.functions.keys().map(String::as_str).collect();
            let known = known.join(", ");
            Error::NotFound {
                collection: class.clone(),
                key: format!("function {function} (there are: {known})"),
            }
        })?;
        // A call on no object is in the partition that it names; the first stands for any.
        let none = ObjectId::Numeric(0);
        let id = object.as_ref().unwrap_or(&none);
        let partition = self.engine.partition(ObjectAt { class, partition: *partition, id })?;
        Ok((found, partition))
    }
}

/// The message of a call.
fn request(invoke: Invoke, partition: u16) -> Invocation {
    let Invoke { class: cls_id, partition: _, object, function: fn_id, options, payload } = invoke;
    let partition_id = u32::from(partition);
    match object {
        None => {
            Invocation::Class(InvocationRequest { partition_id, cls_id, fn_id, options, payload })
        }
        Some(id) => {
            let (object_id, object_id_str) = identity(&id);
            Invocation::Object(ObjectInvocationRequest {
                partition_id,
                object_id,
                cls_id,
                fn_id,
                options,
                payload,
                object_id_str,
            })
        }
    }
}
