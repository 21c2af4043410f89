//! Classes as they are in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyloom_key::limits::STRING_ID_LIMIT_MAX;

use super::compile::check_name;
use super::record::ClassRecord;
use crate::error::Error;
use crate::limits::{
    FUNCTION_NAME_BYTES_MAX, FUNCTION_TIMEOUT_MS_MAX, FUNCTIONS_MAX, PARTITIONS_MAX, URL_BYTES_MAX,
};
use crate::schema::{ClassSchema, Event, FunctionSchema};

/// One class as it is in force.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) id: u16,
    /// What it was compiled from; the keys of its event are normalized.
    pub(crate) schema: Arc<ClassSchema>,
}

/// All classes, by name.
pub(crate) type Classes = BTreeMap<String, Arc<Class>>;

/// Compiles all classes and checks what they say of each other.
pub(super) fn compile_classes(records: &[ClassRecord]) -> Result<Classes, Error> {
    let mut classes = Classes::new();
    for ClassRecord { name, id, schema } in records {
        check_name(name).map_err(|detail| wrong(name, "", detail))?;
        let schema = Arc::new(checked(name, schema)?);
        classes.insert(name.clone(), Arc::new(Class { name: name.clone(), id: *id, schema }));
    }
    for class in classes.values() {
        check_targets(&classes, &class.schema.event)
            .map_err(|detail| wrong(&class.name, "event", detail))?;
    }
    Ok(classes)
}

/// Refuses an event that invokes what does not exist.
pub(crate) fn check_targets(classes: &Classes, event: &Event) -> Result<(), String> {
    for target in event.targets() {
        let Some(class) = classes.get(&target.class) else {
            return Err(format!("there is no class `{}`", target.class));
        };
        if !class.schema.functions.contains_key(&target.function) {
            return Err(format!("class `{}` has no function `{}`", class.name, target.function));
        }
        class.partition(target.partition)?;
    }
    Ok(())
}

impl Class {
    /// A partition of this class.
    pub(crate) fn partition(&self, number: u32) -> Result<u16, String> {
        let count = self.schema.partitions;
        let known = u16::try_from(number).ok().filter(|_| number < count);
        known.ok_or_else(|| {
            let last = count - 1;
            format!("class `{}` has no partition {number}: there are 0 to {last}", self.name)
        })
    }
}

/// Refuses functions at addresses that are none. Those that are stored already stay, so that a
/// database that has one can be opened.
pub(super) fn check_addresses(
    name: &str,
    stored: Option<&ClassSchema>,
    wanted: &ClassSchema,
) -> Result<(), Error> {
    for (function, FunctionSchema { url, .. }) in &wanted.functions {
        let before = stored.and_then(|stored| stored.functions.get(function));
        if before.is_none_or(|before| before.url != *url) && !is_address(url) {
            let at = format!("functions.{function}");
            let detail = "its url is http:// or https://, a host, and perhaps a port and a path";
            return Err(wrong(name, &at, detail));
        }
    }
    Ok(())
}

/// Whether a text is an address of HTTP: what a client makes of anything else nobody knows.
fn is_address(url: &str) -> bool {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let Some(rest) = rest else { return false };
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=%".contains(&byte);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_name),
    };
    let is_port = port.is_none_or(|port| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
    });
    is_host && is_port && rest.bytes().all(is_plain)
}

fn checked(name: &str, schema: &ClassSchema) -> Result<ClassSchema, Error> {
    if !(1..=PARTITIONS_MAX).contains(&schema.partitions) {
        let detail = format!("a class has 1 to {PARTITIONS_MAX} partitions");
        return Err(wrong(name, "partitions", detail));
    }
    if schema.functions.len() > FUNCTIONS_MAX {
        return Err(wrong(name, "functions", format!("more than {FUNCTIONS_MAX} functions")));
    }
    for (function, FunctionSchema { url, timeout_ms }) in &schema.functions {
        let at = format!("functions.{function}");
        let is_plain = !function.is_empty() && !function.chars().any(char::is_control);
        if !is_plain || function.len() > FUNCTION_NAME_BYTES_MAX {
            let max = FUNCTION_NAME_BYTES_MAX;
            let detail = format!("its name has 1 to {max} bytes and no control characters");
            return Err(wrong(name, &at, detail));
        }
        let is_address = url.starts_with("http://") || url.starts_with("https://");
        if !is_address || url.len() > URL_BYTES_MAX {
            return Err(wrong(name, &at, "its url begins with http:// or https://"));
        }
        if timeout_ms.is_some_and(|millis| !(1..=FUNCTION_TIMEOUT_MS_MAX).contains(&millis)) {
            let detail = format!("timeout_ms is 1 to {FUNCTION_TIMEOUT_MS_MAX}");
            return Err(wrong(name, &at, detail));
        }
    }
    let event = schema.event.clone().normalized(STRING_ID_LIMIT_MAX);
    let event = event.map_err(|error| wrong(name, "event", error.to_string()))?;
    Ok(ClassSchema { event, ..schema.clone() })
}

/// An [`Error::Schema`] somewhere in a class.
pub(super) fn wrong(class: &str, at: &str, detail: impl Into<String>) -> Error {
    let at =
        if at.is_empty() { format!("classes.{class}") } else { format!("classes.{class}.{at}") };
    Error::Schema { at, detail: detail.into() }
}
