//! Objects and entries over gRPC.

use std::collections::BTreeMap;

use keyloom_api::grid::{self, data_service_client::DataServiceClient};
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::server::{GRID, Server};

type Client = DataServiceClient<Channel>;

#[tokio::test]
async fn o01_one_object_is_put_read_merged_and_deleted_by_number_and_by_name() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    for (number, text) in [(Some(42), None), (None, Some("User-ABC_01"))] {
        let object = object(&[(1, b"one")], &[("Name", b"ann")]);
        let set = client.set(set_object(number, text, object)).await.unwrap().into_inner();
        let found = client.get(one(number, text)).await.unwrap().into_inner().obj.unwrap();
        let metadata = found.metadata.unwrap();
        assert_eq!(metadata.version, set.object_version);
        assert_eq!((metadata.cls_id.as_str(), metadata.object_id), ("order", number));
        assert_eq!(metadata.object_id_str, text.map(str::to_lowercase));
        assert_eq!(found.entries[&1].data, b"one");
        assert_eq!(found.entries_str["name"].data, b"ann");

        let more = object_of(&[(2, b"two")]);
        let merged = client.merge(set_object(number, text, more)).await.unwrap().into_inner();
        assert_eq!(merged.obj.unwrap().entries.into_keys().collect::<Vec<_>>(), [1, 2]);
        client.delete(one(number, text)).await.unwrap();
        assert_eq!(code(client.get(one(number, text)).await), Code::NotFound);
        assert_eq!(code(client.delete(one(number, text)).await), Code::NotFound);
    }
    server.stop().await;
}

#[tokio::test]
async fn o02_ids_are_normalized_or_refused() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    for (sent, stored) in [("User-ABC_01", "user-abc_01"), ("e\u{301}", "é")] {
        client.set(set_object(None, Some(sent), object_of(&[]))).await.unwrap();
        let found = client.get(one(None, Some(stored))).await.unwrap().into_inner();
        let metadata = found.obj.unwrap().metadata.unwrap();
        assert_eq!(metadata.object_id_str.as_deref(), Some(stored));
    }
    for wrong in ["a\u{7}b", "a\0b", "", "007", &"x".repeat(161)] {
        let set = client.set(set_object(None, Some(wrong), object_of(&[]))).await;
        assert_eq!(code(set), Code::InvalidArgument, "{wrong:?}");
    }
    client.set(set_object(None, Some(&"x".repeat(160)), object_of(&[]))).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn o04_a_request_with_both_forms_or_neither_is_an_argument_error() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    for (number, text) in [(Some(1), Some("a")), (None, None)] {
        assert_eq!(code(client.get(one(number, text)).await), Code::InvalidArgument);
        let set = client.set(set_object(number, text, object_of(&[(1, b"x")]))).await;
        assert_eq!(code(set), Code::InvalidArgument);
    }
    for (key, key_str) in [(Some(1), Some("a".to_owned())), (None, None)] {
        let mut request = set_value("7", "k", b"x");
        (request.key, request.key_str) = (key, key_str);
        assert_eq!(code(client.set_value(request).await), Code::InvalidArgument);
    }
    assert_eq!(code(client.get(one(Some(7), None)).await), Code::NotFound, "nothing was written");
    server.stop().await;
}

#[tokio::test]
async fn o05_set_replaces_and_merge_keeps() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    client.set(set_object(Some(1), None, object_of(&[(1, b"a"), (2, b"b")]))).await.unwrap();
    client.merge(set_object(Some(1), None, object_of(&[(3, b"c")]))).await.unwrap();
    assert_eq!(keys(&mut client, 1).await, [1, 2, 3]);
    client.set(set_object(Some(1), None, object_of(&[(9, b"z")]))).await.unwrap();
    assert_eq!(keys(&mut client, 1).await, [9]);
    server.stop().await;
}

#[tokio::test]
async fn o06_entry_keys_are_normalized_alike_in_every_call() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    client.set_value(set_value("o", "Profile.É", b"1")).await.unwrap();
    let read = client.get_value(value_of("o", "profile.É")).await.unwrap().into_inner();
    assert_eq!(read.value.unwrap().data, b"1");
    assert_eq!(read.key.as_deref(), Some("profile.É"));
    let mut batch = batch_of("o");
    batch.delete_keys = vec!["PROFILE.E\u{301}".to_owned()];
    batch.values = BTreeMap::from([("CART".to_owned(), bytes(b"2"))]);
    client.batch_set_values(batch).await.unwrap();
    assert_eq!(code(client.get_value(value_of("o", "profile.É")).await), Code::NotFound);
    let many = grid::GetValuesRequest {
        cls_id: "order".to_owned(),
        object_id_str: Some("o".to_owned()),
        keys: vec!["cart".to_owned(), "none".to_owned()],
        ..grid::GetValuesRequest::default()
    };
    let many = client.get_values(many).await.unwrap().into_inner();
    assert_eq!(many.values.keys().collect::<Vec<_>>(), ["cart"]);
    // Digits are a number, whichever field they come in.
    client.set_value(set_value("o", "7", b"7")).await.unwrap();
    let mut by_number = value_of("o", "");
    (by_number.key, by_number.key_str) = (Some(7), None);
    let read = client.get_value(by_number).await.unwrap().into_inner();
    assert_eq!(read.value.unwrap().data, b"7");
    client.delete_value(value_of("o", "7")).await.unwrap();
    let refused = client.set_value(set_value("o", "007", b"1")).await;
    assert_eq!(code(refused), Code::InvalidArgument, "a number and not one");
    client.set_value(set_value("o", "4294967296", b"1")).await.unwrap();
    client.delete_value(value_of("o", "Cart")).await.unwrap();
    assert_eq!(code(client.delete_value(value_of("o", "cart")).await), Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn o07_a_batch_is_one_version_step_and_a_wrong_version_is_aborted() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    let first = client.set_value(set_value("o", "a", b"1")).await.unwrap().into_inner();
    let mut batch = batch_of("o");
    batch.values = BTreeMap::from([("b".to_owned(), bytes(b"2")), ("7".to_owned(), bytes(b"3"))]);
    batch.delete_keys = vec!["a".to_owned()];
    batch.expected_object_version = first.object_version;
    let second = client.batch_set_values(batch.clone()).await.unwrap().into_inner();
    assert!(second.object_version > first.object_version);
    let object = client.get(one(None, Some("o"))).await.unwrap().into_inner().obj.unwrap();
    assert_eq!(object.metadata.unwrap().version, second.object_version);
    assert_eq!(object.entries.into_keys().collect::<Vec<_>>(), [7]);
    assert_eq!(object.entries_str.into_keys().collect::<Vec<_>>(), ["b"]);

    batch.values = BTreeMap::from([("c".to_owned(), bytes(b"4"))]);
    batch.delete_keys.clear();
    let refused = client.batch_set_values(batch).await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted, "{refused:?}");
    assert_eq!(code(client.get_value(value_of("o", "c")).await), Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn o08_of_a_hundred_writers_with_one_expected_version_one_succeeds() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    let first = client.set_value(set_value("o", "a", b"0")).await.unwrap().into_inner();
    let mut writers = JoinSet::new();
    for writer in 0..100 {
        let mut client = client.clone();
        let mut batch = batch_of("o");
        batch.expected_object_version = first.object_version;
        batch.values = BTreeMap::from([("a".to_owned(), bytes(format!("{writer}").as_bytes()))]);
        writers.spawn(async move { client.batch_set_values(batch).await.map(|_| writer) });
    }
    let (won, lost): (Vec<_>, Vec<_>) =
        writers.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 99));
    assert!(lost.iter().all(|lost| lost.as_ref().unwrap_err().code() == Code::Aborted));
    let value = client.get_value(value_of("o", "a")).await.unwrap().into_inner().value.unwrap();
    assert_eq!(value.data, format!("{}", won[0].as_ref().unwrap()).as_bytes());
    server.stop().await;
}

#[tokio::test]
async fn o09_a_deleted_object_comes_back_with_a_higher_version() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    let first = client.set_value(set_value("o", "a", b"1")).await.unwrap().into_inner();
    let gone = client.delete(one(None, Some("o"))).await.unwrap().into_inner();
    let again = client.set_value(set_value("o", "b", b"2")).await.unwrap().into_inner();
    assert!(first.object_version < gone.object_version, "{first:?} {gone:?}");
    assert!(gone.object_version < again.object_version, "{gone:?} {again:?}");
    let object = client.get(one(None, Some("o"))).await.unwrap().into_inner().obj.unwrap();
    assert_eq!(object.entries_str.into_keys().collect::<Vec<_>>(), ["b"]);
    server.stop().await;
}

#[tokio::test]
async fn bad_input_is_refused_with_the_documented_status_and_changes_nothing() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    let mut unknown = one(Some(1), None);
    unknown.cls_id = "nothing".to_owned();
    assert_eq!(code(client.get(unknown).await), Code::NotFound);
    for partition in [4, 65_536, u32::MAX] {
        let mut request = set_object(Some(1), None, object_of(&[]));
        request.partition_id = partition;
        assert_eq!(code(client.set(request).await), Code::InvalidArgument, "{partition}");
    }
    let large = set_value("o", "large", &vec![0; (1 << 20) + 1]);
    assert_eq!(code(client.set_value(large).await), Code::ResourceExhausted);
    let mut batch = batch_of("o");
    batch.values = (0..1001).map(|key| (format!("k{key}"), bytes(b""))).collect();
    assert_eq!(code(client.batch_set_values(batch).await), Code::ResourceExhausted);
    let mut kind = set_value("o", "kind", b"");
    kind.value.as_mut().unwrap().r#type = 9;
    assert_eq!(code(client.set_value(kind).await), Code::InvalidArgument);
    let mut nothing = set_value("o", "nothing", b"");
    nothing.value = None;
    assert_eq!(code(client.set_value(nothing).await), Code::InvalidArgument);
    let mut trigger = set_object(None, Some("o"), object_of(&[(1, b"x")]));
    let target = grid::TriggerTarget {
        cls_id: "order".to_owned(),
        fn_id: "missing".to_owned(),
        ..grid::TriggerTarget::default()
    };
    let data = grid::DataTrigger { on_create: vec![target], ..grid::DataTrigger::default() };
    let data_trigger = BTreeMap::from([(1, data)]);
    let event = grid::ObjectEvent { data_trigger, ..grid::ObjectEvent::default() };
    trigger.object.as_mut().unwrap().event = Some(event);
    assert_eq!(code(client.set(trigger).await), Code::InvalidArgument);
    assert_eq!(code(client.get(one(None, Some("o"))).await), Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn o21_the_partition_is_chosen_by_the_server_if_it_is_told_to() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    let mut request = tonic::Request::new(set_object(None, Some("o"), object_of(&[(1, b"x")])));
    request.metadata_mut().insert("keyloom-partition", "auto".parse().unwrap());
    client.set(request).await.unwrap();
    let mut request = tonic::Request::new(one(None, Some("O")));
    request.metadata_mut().insert("keyloom-partition", "auto".parse().unwrap());
    let found = client.get(request).await.unwrap().into_inner().obj.unwrap();
    let expected = keyloom_engine::ObjectId::string("o", 160).unwrap().partition(4);
    assert_eq!(found.metadata.unwrap().partition_id, u32::from(expected));
    server.stop().await;
}

#[tokio::test]
async fn statistics_and_capabilities_are_told() {
    let server = Server::start(GRID).await;
    let mut client = server.data();
    client.set(set_object(Some(1), None, object_of(&[(1, b"x")]))).await.unwrap();
    client.set_value(set_value("o", "a", b"1")).await.unwrap();
    let stats = client.stats(grid::StatsRequest {}).await.unwrap().into_inner();
    let shard = &stats.shards[0];
    assert_eq!((shard.count, shard.string_objects), (2, 1));
    assert_eq!((shard.numeric_entries, shard.string_entries), (1, 1));
    let able = client.capabilities(grid::CapabilitiesRequest {}).await.unwrap().into_inner();
    assert!(able.string_ids && able.string_entry_keys && able.granular_entry_storage);
    server.stop().await;
}

async fn keys(client: &mut Client, number: u64) -> Vec<u32> {
    let object = client.get(one(Some(number), None)).await.unwrap().into_inner().obj.unwrap();
    object.entries.into_keys().collect()
}

fn one(object_id: Option<u64>, text: Option<&str>) -> grid::SingleObjectRequest {
    let (cls_id, object_id_str) = ("order".to_owned(), text.map(str::to_owned));
    grid::SingleObjectRequest { cls_id, partition_id: 0, object_id, object_id_str }
}

fn set_object(
    number: Option<u64>,
    text: Option<&str>,
    object: grid::ObjData,
) -> grid::SetObjectRequest {
    let one = one(number, text);
    grid::SetObjectRequest {
        cls_id: one.cls_id,
        partition_id: 0,
        object_id: one.object_id,
        object: Some(object),
        object_id_str: one.object_id_str,
    }
}

fn set_value(id: &str, key: &str, data: &[u8]) -> grid::SetKeyRequest {
    grid::SetKeyRequest {
        cls_id: "order".to_owned(),
        object_id_str: Some(id.to_owned()),
        key_str: Some(key.to_owned()),
        value: Some(bytes(data)),
        ..grid::SetKeyRequest::default()
    }
}

fn value_of(id: &str, key: &str) -> grid::SingleKeyRequest {
    grid::SingleKeyRequest {
        cls_id: "order".to_owned(),
        object_id_str: Some(id.to_owned()),
        key_str: Some(key.to_owned()),
        ..grid::SingleKeyRequest::default()
    }
}

fn batch_of(id: &str) -> grid::BatchSetValuesRequest {
    grid::BatchSetValuesRequest {
        cls_id: "order".to_owned(),
        object_id_str: Some(id.to_owned()),
        ..grid::BatchSetValuesRequest::default()
    }
}

fn object_of(entries: &[(u32, &[u8])]) -> grid::ObjData {
    object(entries, &[])
}

fn object(entries: &[(u32, &[u8])], named: &[(&str, &[u8])]) -> grid::ObjData {
    grid::ObjData {
        entries: entries.iter().map(|(key, data)| (*key, bytes(data))).collect(),
        entries_str: named.iter().map(|(key, data)| ((*key).to_owned(), bytes(data))).collect(),
        ..grid::ObjData::default()
    }
}

fn bytes(data: &[u8]) -> grid::ValData {
    grid::ValData { data: data.to_vec(), r#type: 0 }
}

fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Code {
    answer.unwrap_err().code()
}
