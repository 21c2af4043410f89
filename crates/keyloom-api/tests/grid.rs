//! The numbers of the object grid's messages, as clients of every generation know them (G1).

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use keyloom_api::grid;
    use prost::Message as _;
    use prost_types::{DescriptorProto, FileDescriptorSet};

    /// `Message{field=number …}` for each message, as the API is written down.
    const NUMBERS: &[&str] = &[
        "BatchSetValuesRequest{cls_id=1 partition_id=2 object_id=3 object_id_str=4 values=5 \
         delete_keys=6 expected_object_version=7}",
        "CapabilitiesResponse{string_ids=1 string_entry_keys=2 granular_entry_storage=3 \
         event_pipeline_v2=4}",
        "DataTrigger{on_create=1 on_update=2 on_delete=3}",
        "EmptyResponse{object_version=1 warning=2}",
        "EventInfo{source_cls_id=1 source_partition_id=2 source_object_id=3 event_type=4 fn_id=5 \
         key=6 timestamp=7 context=8 source_object_id_str=9 key_str=10 object_version=11 \
         sequence=12 depth=13}",
        "FuncTrigger{on_complete=1 on_error=2}",
        "InvocationRequest{partition_id=1 cls_id=3 fn_id=4 options=5 payload=6}",
        "InvocationResponse{payload=1 status=2 headers=3 invocation_id=4}",
        "ListObjectsRequest{cls_id=1 partition_id=2 object_id_prefix=3 limit=4 cursor=5}",
        "ListValuesRequest{cls_id=1 partition_id=2 object_id=3 object_id_str=4 key_prefix=5 \
         limit=6 cursor=7}",
        "ObjData{metadata=1 entries=2 event=3 entries_str=4}",
        "ObjMeta{cls_id=1 partition_id=2 object_id=3 object_id_str=4 version=5}",
        "ObjectEvent{func_trigger=1 data_trigger=2 data_trigger_str=3}",
        "ObjectInvocationRequest{partition_id=1 object_id=2 cls_id=3 fn_id=4 options=5 payload=6 \
         object_id_str=7}",
        "ObjectMetaEnvelope{object_id=1 version=2 entry_count=3 next_cursor=4}",
        "ObjectResponse{obj=1}",
        "SetKeyRequest{cls_id=1 partition_id=2 object_id=3 key=4 value=5 key_str=6 \
         object_id_str=7}",
        "SetObjectRequest{cls_id=1 partition_id=2 object_id=3 object=4 object_id_str=5}",
        "SingleKeyRequest{cls_id=1 partition_id=2 object_id=3 key=4 key_str=5 object_id_str=6}",
        "SingleObjectRequest{cls_id=1 partition_id=2 object_id=3 object_id_str=4}",
        "TriggerPayload{event_info=1 original_payload=3}",
        "TriggerTarget{cls_id=1 partition_id=2 object_id=3 fn_id=4 req_options=5 object_id_str=6}",
        "ValData{data=1 type=2}",
        "ValueEnvelope{key=1 value=2 version=3 next_cursor=4}",
        "ValueResponse{value=1 object_version=2 key=3 deleted=4}",
    ];

    #[test]
    fn g1_every_field_has_the_number_that_clients_know() {
        let messages = messages();
        for expected in NUMBERS {
            let name = expected.split('{').next().unwrap();
            assert_eq!(messages.get(name).map(String::as_str), Some(*expected));
        }
    }

    #[test]
    fn o17_a_number_that_an_old_client_sends_is_read_by_this_one() {
        // `SingleObjectRequest{cls_id: "order", partition_id: 1, object_id: 42}` without presence.
        let old = [0x0A, 5, b'o', b'r', b'd', b'e', b'r', 0x10, 1, 0x18, 42];
        let read = grid::SingleObjectRequest::decode(old.as_slice()).unwrap();
        assert_eq!((read.object_id, read.object_id_str.clone()), (Some(42), None));
        assert_eq!(read.encode_to_vec(), old);
    }

    #[test]
    fn the_services_have_the_methods_that_clients_call() {
        let set = FileDescriptorSet::decode(grid::DESCRIPTORS).unwrap();
        let services = set.file.iter().flat_map(|file| &file.service);
        let names: BTreeMap<&str, Vec<&str>> = services
            .map(|service| (service.name(), service.method.iter().map(|m| m.name()).collect()))
            .collect();
        assert_eq!(names["OprcFunction"], ["InvokeFn", "InvokeObj"]);
        let data = &names["DataService"];
        for method in ["Get", "Set", "Merge", "Delete", "ListObjects", "GetValue", "SetValue"] {
            assert!(data.contains(&method), "{method}");
        }
        for method in ["DeleteValue", "BatchSetValues", "ListValues", "Stats", "Capabilities"] {
            assert!(data.contains(&method), "{method}");
        }
    }

    fn messages() -> BTreeMap<String, String> {
        let set = FileDescriptorSet::decode(grid::DESCRIPTORS).unwrap();
        let messages = set.file.iter().flat_map(|file| &file.message_type);
        messages.map(|message| (message.name().to_owned(), spelled(message))).collect()
    }

    fn spelled(message: &DescriptorProto) -> String {
        let fields = message.field.iter();
        let fields: Vec<String> =
            fields.map(|field| format!("{}={}", field.name(), field.number())).collect();
        format!("{}{{{}}}", message.name(), fields.join(" "))
    }
}
