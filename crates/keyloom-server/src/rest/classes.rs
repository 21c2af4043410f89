//! Classes, how far string identities are rolled out, and where identities fall.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::routing::{get, post};
use keyloom_api as api;
use keyloom_engine::schema::ClassSchema;
use keyloom_engine::{ObjectId, Partition, Rollout};

use super::answer::{self, Answer, JSON};
use super::objects::Address;
use super::read::{At, Json, check_media};
use super::route::Route;
use crate::app::App;
use crate::caller::Caller;
use crate::{grid as convert, wire};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new("/api/class", &[Method::GET], get(list)),
        Route::new("/api/class/{class}", &[Method::GET, Method::PUT], get(show).put(put)),
        Route::new("/api/class/{class}/rewrite", &[Method::POST], post(rewrite)).long(),
        Route::new("/api/capabilities", &[Method::GET], get(capabilities)),
        Route::new("/api/rollout", &[Method::GET, Method::PUT], get(rollout).put(set_rollout)),
        Route::new("/debug/object-hash/{class}/{partition}/{id}", &[Method::GET], get(hash)),
    ]
}

async fn list(State(app): State<Arc<App>>, Caller(caller): Caller) -> Answer {
    answer::json(&api::ClassNames { classes: app.service.classes(&caller) })
}

async fn show(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(class): At<String>,
) -> Answer {
    let schema = app.service.class(&caller, &class)?;
    let mut partitions = Vec::new();
    for (partition, stats) in app.service.class_stats(&caller, &class).await? {
        partitions.push(api::PartitionStats {
            partition_id: u32::from(partition),
            objects: stats.numeric_objects + stats.string_objects,
            string_objects: stats.string_objects,
            numeric_entries: stats.numeric_entries,
            string_entries: stats.string_entries,
            waiting_events: stats.waiting_events,
            dead_letters: stats.dead_letters,
        });
    }
    answer::json(&api::Class { name: class, schema: wire::class_schema(&schema)?, partitions })
}

async fn put(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(class): At<String>,
    Json(schema): Json<ClassSchema>,
) -> Answer {
    let change = app.service.put_class(&caller, &class, schema).await?;
    answer::json(&wire::schema_change(change, true))
}

async fn rewrite(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(class): At<String>,
    headers: HeaderMap,
) -> Answer {
    // There is nothing to send; the type shows that no form of a web page did.
    check_media(&headers, &[JSON])?;
    let objects = app.service.rewrite_objects(&caller, &class).await?;
    answer::json(&api::Rewritten { objects })
}

async fn capabilities(State(app): State<Arc<App>>) -> Answer {
    let found = convert::capabilities(&app.service.rollout());
    answer::json(&api::Capabilities {
        string_ids: found.string_ids,
        string_entry_keys: found.string_entry_keys,
        granular_entry_storage: found.granular_entry_storage,
        event_pipeline_v2: found.event_pipeline_v2,
    })
}

async fn rollout(State(app): State<Arc<App>>, Caller(_): Caller) -> Answer {
    answer::json(&shown(app.service.rollout()))
}

async fn set_rollout(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    Json(body): Json<api::Rollout>,
) -> Answer {
    let api::Rollout { phase, string_ids, string_keys, write_only, id_len_max } = body;
    let given = Rollout::phase(phase);
    let rollout = Rollout {
        phase,
        string_ids: string_ids.unwrap_or(given.string_ids),
        string_keys: string_keys.unwrap_or(given.string_keys),
        write_only: write_only.unwrap_or(given.write_only),
        // A phase says nothing of it.
        id_len_max: id_len_max.unwrap_or(app.service.rollout().id_len_max),
    };
    app.service.set_rollout(&caller, rollout).await?;
    answer::json(&shown(app.service.rollout()))
}

fn shown(rollout: Rollout) -> api::Rollout {
    let Rollout { phase, string_ids, string_keys, write_only, id_len_max } = rollout;
    api::Rollout {
        phase,
        string_ids: Some(string_ids),
        string_keys: Some(string_keys),
        write_only: Some(write_only),
        id_len_max: Some(id_len_max),
    }
}

async fn hash(
    State(app): State<Arc<App>>,
    Caller(caller): Caller,
    At(segments): At<(String, String, String)>,
) -> Answer {
    let Address { class, partition, id } = Address::read(&app.service, segments)?;
    let at = |partition| keyloom_engine::ObjectAt { class: &class, partition, id: &id };
    let variant = if matches!(id, ObjectId::Numeric(_)) { "numeric" } else { "string" };
    answer::json(&api::ObjectHash {
        object_id: id.to_string(),
        variant: variant.to_owned(),
        hash: format!("{:016x}", id.hash64()),
        auto_partition: u32::from(app.service.partition(&caller, at(Partition::Auto))?),
        partition_id: u32::from(app.service.partition(&caller, at(partition))?),
    })
}
