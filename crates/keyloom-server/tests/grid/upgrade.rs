//! A rolling upgrade through sockets: a folder of the numeric era, and an old and a new client
//! whose load goes on while the phases move.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use hyper::Method;
use keyloom_api::grid::{self, data_service_client::DataServiceClient};
use keyloom_engine::{Engine, ObjectId, Options, Repair};
use keyloom_key::ObjectKey;
use keyloom_server::Config;
use keyloom_store::{Commit, OrderedStore, Write};
use keyloom_store_redb::RedbStore;
use prost::Message;
use serde_json::json;
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::server::{GRID, Server};

/// How many calls a client makes in each phase; the phase moves in their midst.
const CALLS: u32 = 60;

/// Objects of the numeric era that the clients write, and those that nobody does.
const KNOWN: u64 = 5;
const FORGOTTEN: u64 = 3;

/// What a client was told is stored, by object.
type Told = BTreeMap<String, String>;

/// What a client of the numeric era was generated from: it knows no strings.
#[derive(Clone, PartialEq, Message)]
struct OldSetKey {
    #[prost(string, tag = "1")]
    cls_id: String,
    #[prost(int32, tag = "2")]
    partition_id: i32,
    #[prost(uint64, tag = "3")]
    object_id: u64,
    #[prost(uint32, tag = "4")]
    key: u32,
    #[prost(message, optional, tag = "5")]
    value: Option<OldValue>,
}

#[derive(Clone, PartialEq, Message)]
struct OldValue {
    #[prost(bytes = "vec", tag = "1")]
    data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct OldEmpty {}

/// The phases between which a call may have happened: the least when it began, and the most when it
/// ended.
struct Phases {
    least: AtomicU8,
    most: AtomicU8,
}

/// Calls that are under way while the phase moves.
struct Load {
    channel: Channel,
    phases: Arc<Phases>,
    /// How many calls were made.
    calls: watch::Sender<u32>,
    told: Told,
    /// How many numeric creates were refused.
    refused: Arc<AtomicU32>,
}

impl Load {
    /// Whether an outcome is that of any phase in which the call may have happened.
    fn assert_fits(&self, least: u8, outcome: Code, expected: fn(u8) -> Code) {
        let most = self.phases.most.load(Ordering::SeqCst);
        let fits = (least..=most).any(|phase| expected(phase) == outcome);
        assert!(fits, "{outcome:?} between the phases {least} and {most}");
    }

    fn least(&self) -> u8 {
        self.phases.least.load(Ordering::SeqCst)
    }

    /// Sets an entry of a numeric object as the old client does.
    async fn set_old(&self, object_id: u64, value: &str) -> Result<(), Status> {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        client.ready().await.unwrap();
        let value = Some(OldValue { data: value.as_bytes().to_vec() });
        let request =
            OldSetKey { cls_id: "order".to_owned(), partition_id: 3, object_id, key: 7, value };
        let codec = tonic_prost::ProstCodec::<OldSetKey, OldEmpty>::default();
        let path = "/oprc.DataService/SetValue".parse().unwrap();
        client.unary(Request::new(request), path, codec).await.map(drop)
    }

    /// Changes the objects of the numeric era, and creates new ones while they are taken.
    async fn old_client(mut self, round: u32) -> Told {
        for call in 0..CALLS {
            let value = format!("old {round} {call}");
            let known = u64::from(call) % KNOWN + 1;
            self.set_old(known, &value).await.expect("stored objects can be changed for ever");
            self.told.insert(known.to_string(), value.clone());
            let new = u64::from(1000 * (round + 1) + call);
            let least = self.least();
            let set = self.set_old(new, &value).await;
            let outcome = set.as_ref().err().map_or(Code::Ok, Status::code);
            self.assert_fits(least, outcome, |phase| {
                if phase < 5 { Code::Ok } else { Code::InvalidArgument }
            });
            match set {
                Ok(()) => drop(self.told.insert(new.to_string(), value)),
                Err(_) => drop(self.refused.fetch_add(1, Ordering::SeqCst)),
            }
            self.calls.send_modify(|calls| *calls += 1);
        }
        self.told
    }

    /// Creates string objects as soon as they are taken.
    async fn new_client(mut self, round: u32) -> Told {
        let mut client = DataServiceClient::new(self.channel.clone());
        for call in 0..CALLS {
            let (name, value) = (format!("s-{round}-{call}"), format!("new {round} {call}"));
            let least = self.least();
            let set = client.set_value(grid::SetKeyRequest {
                cls_id: "order".to_owned(),
                partition_id: 3,
                object_id_str: Some(name.clone()),
                key_str: Some("k".to_owned()),
                value: Some(grid::ValData { data: value.clone().into_bytes(), r#type: 0 }),
                ..grid::SetKeyRequest::default()
            });
            let set = set.await;
            let outcome = set.as_ref().err().map_or(Code::Ok, Status::code);
            self.assert_fits(least, outcome, |phase| {
                if phase >= 2 { Code::Ok } else { Code::InvalidArgument }
            });
            if set.is_ok() {
                self.told.insert(name, value);
            }
            self.calls.send_modify(|calls| *calls += 1);
        }
        self.told
    }
}

/// Objects as they were stored before there were entries.
async fn numeric_era(store: Arc<RedbStore>) {
    let engine = Engine::open(store.clone(), Options::default()).await.unwrap();
    let schema = keyloom_engine::schema::Schema::from_toml(GRID).unwrap();
    engine.apply_schema(&schema, &mut |_| {}).await.unwrap();
    let mut value = vec![1];
    value.extend_from_slice(&7_u64.to_be_bytes());
    value.extend_from_slice(&5_u64.to_be_bytes());
    value.extend_from_slice(&1_u32.to_be_bytes());
    value.extend_from_slice(&10_u32.to_be_bytes());
    value.extend_from_slice(b"\0long ago!");
    let writes = (1..=KNOWN + FORGOTTEN).map(|number| {
        // The first class of a database.
        let key = ObjectKey::new(1, 3, &ObjectId::Numeric(number));
        Write::Put { key: key.legacy().unwrap(), value: value.clone() }
    });
    let commit = Commit { writes: writes.collect(), ..Commit::default() };
    store.commit(Arc::new(commit)).await.unwrap();
    engine.check(Repair::Yes, &mut |_| {}).await.unwrap();
}

/// The value of a metric without labels, or with these.
async fn metric(server: &Server, name: &str) -> f64 {
    let text = String::from_utf8(server.get("/metrics").await.body.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("");
    line.trim().parse().unwrap_or_else(|_| panic!("{name}:\n{text}"))
}

async fn count(server: &Server, variant: &str) -> usize {
    let name = format!("keyloom_objects{{class=\"order\",variant=\"{variant}\"}}");
    metric(server, &name).await as usize
}

async fn check_counters(server: &Server, phase: u8, told: &Told) {
    let strings = told.keys().filter(|name| name.starts_with('s')).count();
    let all = told.len() + FORGOTTEN as usize;
    let numbers = all - strings;
    assert_eq!(count(server, "string").await, strings, "phase {phase}");
    assert_eq!(count(server, "numeric").await, numbers, "phase {phase}");
    let adoption = metric(server, "keyloom_string_id_adoption_percent").await;
    assert!((adoption - 100.0 * strings as f64 / all as f64).abs() < 0.001, "{adoption}");
    let list = "/api/class/order/3/objects?prefix=s-&limit=1000";
    let listed = server.get(list).await.read()["items"].as_array().unwrap().len();
    assert_eq!(listed, if phase == 2 { 0 } else { strings }, "phase {phase}");
    let able = server.get("/api/capabilities").await.read();
    assert_eq!(able["string_ids"], phase >= 1, "phase {phase}: {able}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn o13_o17_nothing_is_lost_while_the_phases_move_under_an_old_and_a_new_client() {
    let folder = tempfile::tempdir().unwrap();
    numeric_era(Arc::new(RedbStore::open(folder.path()).unwrap())).await;
    let store = Arc::new(RedbStore::open(folder.path()).unwrap());
    let server = Server::on(store, Config::default()).await.unwrap();
    let long_ago = server.get("/api/class/order/3/objects/5").await.read();
    assert_eq!(long_ago["entries"]["1"]["data"], "bG9uZyBhZ28h", "{long_ago}");
    assert!(metric(&server, "keyloom_object_legacy_reads_total").await >= 1.0);

    let phases = Arc::new(Phases { least: AtomicU8::new(0), most: AtomicU8::new(0) });
    let mut told = Told::new();
    let calls_refused = Arc::new(AtomicU32::new(0));
    for next in 0..=5_u8 {
        let (calls, mut made) = watch::channel(0);
        let load = || {
            let (channel, phases) = (server.channel.clone(), Arc::clone(&phases));
            let (told, refused) = (Told::new(), Arc::clone(&calls_refused));
            Load { channel, phases, calls: calls.clone(), told, refused }
        };
        let old = tokio::spawn(load().old_client(u32::from(next)));
        let new = tokio::spawn(load().new_client(u32::from(next)));
        made.wait_for(|made| *made >= CALLS / 2).await.unwrap();
        phases.most.store(next, Ordering::SeqCst);
        let moved = server.json(Method::PUT, "/api/rollout", &json!({ "phase": next })).await;
        assert_eq!(moved.status, 200, "{moved:?}");
        phases.least.store(next, Ordering::SeqCst);
        if next == 3 {
            let rewritten = server.post("/api/class/order/rewrite", b"").await;
            assert_eq!(rewritten.read()["objects"], FORGOTTEN, "the others were written since");
        }
        told.extend(old.await.unwrap());
        told.extend(new.await.unwrap());
        check_counters(&server, next, &told).await;
    }
    let refused = calls_refused.load(Ordering::SeqCst);
    assert!(refused > 0, "numeric objects were created until the end");

    for (name, value) in &told {
        let is_new = name.starts_with('s');
        let wanted = grid::SingleKeyRequest {
            cls_id: "order".to_owned(),
            partition_id: 3,
            object_id_str: Some(name.clone()),
            key: (!is_new).then_some(7),
            key_str: is_new.then(|| "k".to_owned()),
            ..grid::SingleKeyRequest::default()
        };
        let read = server.data().get_value(wanted).await.unwrap().into_inner().value.unwrap();
        assert_eq!(read.data, value.as_bytes(), "{name}");
    }
    for number in 1..=KNOWN + FORGOTTEN {
        let object = server.get(&format!("/api/class/order/3/objects/{number}")).await.read();
        assert_eq!(object["entries"]["1"]["data"], "bG9uZyBhZ28h", "{object}");
    }
    let again = server.post("/api/class/order/rewrite", b"").await.read();
    assert_eq!(again["objects"], 0, "nothing lies in an older layout any more");
    let sound = server.post("/v1/check", b"{}").await.read();
    assert_eq!(sound["problems"], json!([]), "{sound}");
    server.stop().await;
}
