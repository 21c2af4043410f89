//! The service `DataService`: reads a message, asks the service, answers with a message.

use std::sync::Arc;

use futures_util::stream::{self, Iter};
use keyloom_api::grid::data_service_server::DataService;
use keyloom_api::grid::{self, EmptyResponse};
use keyloom_engine::{EntryList, ObjectId, ObjectList, ObjectOrder, OutboxAt, Precondition};
use tonic::{Request, Response, Status};

use super::call::{Answer, Call};
use super::status::{invalid, status};
use crate::app::App;
use crate::grid as convert;

/// One page, message by message.
type Page<T> = Iter<std::vec::IntoIter<Result<T, Status>>>;

/// The objects and entries of the grid.
pub(super) struct Data {
    pub(super) app: Arc<App>,
}

#[async_trait::async_trait]
impl DataService for Data {
    type ListObjectsStream = Page<grid::ObjectMetaEnvelope>;
    type ListValuesStream = Page<grid::ValueEnvelope>;

    async fn get(
        &self,
        request: Request<grid::SingleObjectRequest>,
    ) -> Answer<grid::ObjectResponse> {
        let call = Call::read(request, |message| message.partition_id)?;
        let asked = &call.message;
        let id = self.id(asked.object_id, asked.object_id_str.as_deref())?;
        let at = call.at(&asked.cls_id, &id);
        let object = self.app.service.object(&call.caller, at).await.map_err(status)?;
        Ok(Response::new(grid::ObjectResponse { obj: Some(convert::object(at, object)) }))
    }

    async fn set(&self, request: Request<grid::SetObjectRequest>) -> Answer<EmptyResponse> {
        let mut call = Call::read(request, |message| message.partition_id)?;
        let data = call.message.object.take().ok_or_else(|| invalid("the object is missing"))?;
        let asked = &call.message;
        let id = self.id(asked.object_id, asked.object_id_str.as_deref())?;
        let at = call.at(&asked.cls_id, &id);
        let content = convert::content(&self.app.service, at, data).map_err(status)?;
        let set = self.app.service.set_object(
            &call.caller,
            at,
            content,
            call.terms(Precondition::Unsaid),
        );
        Ok(Response::new(convert::written(set.await.map_err(status)?)))
    }

    async fn merge(
        &self,
        request: Request<grid::SetObjectRequest>,
    ) -> Answer<grid::ObjectResponse> {
        let mut call = Call::read(request, |message| message.partition_id)?;
        let data = call.message.object.take().ok_or_else(|| invalid("the object is missing"))?;
        let asked = &call.message;
        let id = self.id(asked.object_id, asked.object_id_str.as_deref())?;
        let at = call.at(&asked.cls_id, &id);
        let content = convert::content(&self.app.service, at, data).map_err(status)?;
        let service = &self.app.service;
        let terms = call.terms(Precondition::Unsaid);
        let object = service.merged_object(&call.caller, at, content, terms).await;
        let object = object.map_err(status)?;
        Ok(Response::new(grid::ObjectResponse { obj: Some(convert::object(at, object)) }))
    }

    async fn delete(&self, request: Request<grid::SingleObjectRequest>) -> Answer<EmptyResponse> {
        let call = Call::read(request, |message| message.partition_id)?;
        let asked = &call.message;
        let id = self.id(asked.object_id, asked.object_id_str.as_deref())?;
        let at = call.at(&asked.cls_id, &id);
        let deleted =
            self.app.service.delete_object(&call.caller, at, call.terms(Precondition::Unsaid));
        Ok(Response::new(convert::written(deleted.await.map_err(status)?)))
    }

    async fn get_value(
        &self,
        request: Request<grid::SingleKeyRequest>,
    ) -> Answer<grid::ValueResponse> {
        let call = Call::read(request, |message| message.partition_id)?;
        let asked = &call.message;
        let id = self.id(asked.object_id, asked.object_id_str.as_deref())?;
        let service = &self.app.service;
        let key = service.entry_key(asked.key, asked.key_str.as_deref()).map_err(status)?;
        let at = call.at(&asked.cls_id, &id);
        let read = service.entry(&call.caller, at, &key).await.map_err(status)?;
        Ok(Response::new(grid::ValueResponse {
            value: Some(convert::value(read.val)),
            object_version: Some(read.version),
            key: Some(key.to_string()),
            deleted: None,
        }))
    }

    async fn get_values(
        &self,
        request: Request<grid::GetValuesRequest>,
    ) -> Answer<grid::GetValuesResponse> {
        let call = Call::read(request, |message| message.partition_id)?;
        let asked = &call.message;
        let id = self.id(asked.object_id, asked.object_id_str.as_deref())?;
        let service = &self.app.service;
        let keys = asked.keys.iter().map(|text| service.entry_segment(text));
        let keys = keys.collect::<Result<Vec<_>, _>>().map_err(status)?;
        let at = call.at(&asked.cls_id, &id);
        let read = service.entries(&call.caller, at, &keys).await.map_err(status)?;
        let found = keys.iter().zip(read.values);
        let found = found.filter_map(|(key, val)| Some((key.to_string(), convert::value(val?))));
        let values = found.collect();
        Ok(Response::new(grid::GetValuesResponse { values, object_version: read.version }))
    }

    async fn set_value(&self, request: Request<grid::SetKeyRequest>) -> Answer<EmptyResponse> {
        let mut call = Call::read(request, |message| message.partition_id)?;
        let value = call.message.value.take().ok_or_else(|| invalid("the value is missing"))?;
        let val = convert::val(value).map_err(status)?;
        let asked = &call.message;
        let id = self.id(asked.object_id, asked.object_id_str.as_deref())?;
        let service = &self.app.service;
        let key = service.entry_key(asked.key, asked.key_str.as_deref()).map_err(status)?;
        let at = call.at(&asked.cls_id, &id);
        let set = service.set_entry(&call.caller, at, (key, val), call.terms(Precondition::Unsaid));
        Ok(Response::new(convert::written(set.await.map_err(status)?)))
    }

    async fn delete_value(
        &self,
        request: Request<grid::SingleKeyRequest>,
    ) -> Answer<EmptyResponse> {
        let call = Call::read(request, |message| message.partition_id)?;
        let asked = &call.message;
        let id = self.id(asked.object_id, asked.object_id_str.as_deref())?;
        let service = &self.app.service;
        let key = service.entry_key(asked.key, asked.key_str.as_deref()).map_err(status)?;
        let at = call.at(&asked.cls_id, &id);
        let deleted = service.delete_entry(&call.caller, at, key, call.terms(Precondition::Unsaid));
        Ok(Response::new(convert::written(deleted.await.map_err(status)?)))
    }

    async fn batch_set_values(
        &self,
        request: Request<grid::BatchSetValuesRequest>,
    ) -> Answer<EmptyResponse> {
        let mut call = Call::read(request, |message| message.partition_id)?;
        let values = std::mem::take(&mut call.message.values);
        let asked = &call.message;
        let id = self.id(asked.object_id, asked.object_id_str.as_deref())?;
        let service = &self.app.service;
        let batch = convert::batch(service, values, &asked.delete_keys).map_err(status)?;
        let precondition =
            asked.expected_object_version.map_or(Precondition::Unsaid, Precondition::Version);
        let at = call.at(&asked.cls_id, &id);
        let done = service.batch_entries(&call.caller, at, batch, call.terms(precondition));
        Ok(Response::new(convert::written(done.await.map_err(status)?)))
    }

    async fn list_objects(
        &self,
        request: Request<grid::ListObjectsRequest>,
    ) -> Answer<Self::ListObjectsStream> {
        let call = Call::read(request, |message| message.partition_id)?;
        let asked = &call.message;
        let list = ObjectList {
            class: &asked.cls_id,
            partition: convert::listed(call.partition).map_err(status)?,
            prefix: asked.object_id_prefix.as_deref().unwrap_or_default(),
            order: ObjectOrder::Bytes,
            limit: convert::limit(asked.limit),
            after: convert::cursor(asked.cursor.as_deref()).map_err(status)?,
        };
        let page = self.app.service.list_objects(&call.caller, list).await.map_err(status)?;
        Ok(streamed(convert::object_items(page)))
    }

    async fn list_values(
        &self,
        request: Request<grid::ListValuesRequest>,
    ) -> Answer<Self::ListValuesStream> {
        let call = Call::read(request, |message| message.partition_id)?;
        let asked = &call.message;
        let id = self.id(asked.object_id, asked.object_id_str.as_deref())?;
        let list = EntryList {
            prefix: asked.key_prefix.as_deref().unwrap_or_default(),
            limit: convert::limit(asked.limit),
            after: convert::cursor(asked.cursor.as_deref()).map_err(status)?,
        };
        let at = call.at(&asked.cls_id, &id);
        let page = self.app.service.list_entries(&call.caller, at, list).await.map_err(status)?;
        Ok(streamed(convert::entry_items(page)))
    }

    async fn invocation_result(
        &self,
        request: Request<grid::InvocationResultRequest>,
    ) -> Answer<grid::InvocationResponse> {
        let call = Call::read(request, |message| message.partition_id)?;
        let partition = convert::listed(call.partition).map_err(status)?;
        let partition = u16::try_from(partition)
            .map_err(|_| invalid(format!("there is no partition {partition}")))?;
        let grid::InvocationResultRequest { cls_id, invocation_id, .. } = call.message;
        let at = OutboxAt { class: &cls_id, partition };
        let service = &self.app.service;
        let found = service.invocation_result(&call.caller, at, &invocation_id).await;
        let still = || Status::unavailable("the function still runs: ask again");
        found.map_err(status)?.map(Response::new).ok_or_else(still)
    }

    async fn stats(&self, request: Request<grid::StatsRequest>) -> Answer<grid::StatsResponse> {
        let call = Call::read(request, |_| 0)?;
        let service = &self.app.service;
        let mut shards = Vec::new();
        for class in service.classes(&call.caller) {
            let stats = service.class_stats(&call.caller, &class).await.map_err(status)?;
            let shard = |(partition, stats)| convert::shard(&class, partition, stats);
            shards.extend(stats.into_iter().map(shard));
        }
        Ok(Response::new(grid::StatsResponse { shards }))
    }

    async fn capabilities(
        &self,
        _: Request<grid::CapabilitiesRequest>,
    ) -> Answer<grid::CapabilitiesResponse> {
        Ok(Response::new(convert::capabilities(&self.app.service.rollout())))
    }
}

/// A page, message by message.
fn streamed<T>(items: Vec<T>) -> Response<Page<T>> {
    Response::new(stream::iter(items.into_iter().map(Ok).collect::<Vec<_>>()))
}

impl Data {
    fn id(&self, number: Option<u64>, text: Option<&str>) -> Result<ObjectId, Status> {
        self.app.service.object_id(number, text).map_err(status)
    }
}
