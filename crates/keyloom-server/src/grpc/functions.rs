//! The service `OprcFunction`: calls are passed on to the functions that classes name.

use std::sync::Arc;

use keyloom_api::grid::oprc_function_server::OprcFunction;
use keyloom_api::grid::{InvocationRequest, InvocationResponse, ObjectInvocationRequest};
use tonic::{Request, Response, Status};

use super::call::{Answer, Call};
use super::status::status;
use crate::app::App;
use crate::service::Invoke;

/// The functions of all classes.
pub(super) struct Functions {
    pub(super) app: Arc<App>,
}

#[async_trait::async_trait]
impl OprcFunction for Functions {
    async fn invoke_fn(&self, request: Request<InvocationRequest>) -> Answer<InvocationResponse> {
        let call = Call::read(request, |message| message.partition_id)?;
        let depth = call.depth;
        let InvocationRequest { partition_id: _, cls_id, fn_id, options, payload } = call.message;
        let (class, function) = (cls_id, fn_id);
        let partition = call.partition;
        let invoke = Invoke { class, partition, object: None, function, options, payload };
        self.answer(&call.caller, invoke.deeper(depth)).await
    }

    async fn invoke_obj(
        &self,
        request: Request<ObjectInvocationRequest>,
    ) -> Answer<InvocationResponse> {
        let call = Call::read(request, |message| message.partition_id)?;
        let ObjectInvocationRequest {
            partition_id: _,
            object_id,
            cls_id: class,
            fn_id: function,
            options,
            payload,
            object_id_str,
        } = call.message;
        let object = self.app.service.object_id(object_id, object_id_str.as_deref());
        let object = Some(object.map_err(status)?);
        let partition = call.partition;
        let invoke = Invoke { class, partition, object, function, options, payload };
        self.answer(&call.caller, invoke.deeper(call.depth)).await
    }
}

impl Functions {
    async fn answer(
        &self,
        caller: &keyloom_engine::Identity,
        invoke: Invoke,
    ) -> Result<Response<InvocationResponse>, Status> {
        let answer = Arc::clone(&self.app.service).invoke(caller, invoke).await;
        answer.map(Response::new).map_err(status)
    }
}
