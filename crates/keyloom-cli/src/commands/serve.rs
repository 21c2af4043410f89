//! `keyloom serve`: the database over HTTP, until the process is told to stop.
//!
//! S1: One line on standard output says the address, once requests are taken.
//! S2: `SIGTERM` and `SIGINT` end it with 0, after all that was acknowledged is durable.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keyloom_engine::{Engine, Retention, Rollout};
use keyloom_server::{Config, LogFormat, Service, TlsFiles, ZenohEndpoints};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use super::{demo, schema};
use crate::args::{Global, Serve};
use crate::open::{Missing, StoreUrl, open};
use crate::output::Output;
use crate::problem::Failure;

/// Runs the server on a runtime of its own: the other commands need none.
pub(super) async fn run(
    options: Serve,
    global: &Global,
    output: &mut Output,
) -> Result<(), Failure> {
    let format = if options.log_json { LogFormat::Json } else { LogFormat::Text };
    // Dropped last: the traces of the last requests are sent when all of them are finished.
    let _traces = keyloom_server::log(&options.log, format)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::file("the runtime"))?;
    runtime.block_on(serve(options, global, output))
}

async fn serve(options: Serve, global: &Global, output: &mut Output) -> Result<(), Failure> {
    let config = config(&options)?;
    // Dropped last, after the database in it is closed.
    let temporary = temporary(&options, global)?;
    let url = match &temporary {
        Some(folder) => StoreUrl::in_folder(folder.path().to_owned()),
        None => global.store(),
    };
    let mut engine_options = global.options();
    if let Some(mode) = options.mode {
        engine_options.mode = mode.into();
    }
    let engine = open(&url, engine_options, Missing::Create).await?;
    if !options.schema.is_empty() {
        engine.apply_schema(&schema::read_checked(&options.schema).await?, &mut |_| {}).await?;
    }
    // The variables are where a rollout begins; from then on it is moved at run time.
    if engine.rollout() == Rollout::default() {
        let initial = initial_rollout(|name| std::env::var(name).ok())?;
        if initial != Rollout::default() {
            engine.set_rollout(initial).await?;
        }
    }
    let guide = if options.demo { Some(demo::load(&engine).await?) } else { None };
    run_until_stopped(
        engine,
        config,
        |output, address| tell(output, &options, address, guide.as_ref()),
        output,
    )
    .await
}

async fn run_until_stopped(
    engine: Engine,
    config: Config,
    tell: impl FnOnce(&mut Output, SocketAddr) -> Result<(), Failure>,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::file("SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::file("SIGINT"))?;
    let service = Arc::new(Service::new(Arc::new(engine)));
    let server = keyloom_server::bind(service, config).await?;
    tell(output, server.address())?;
    output.flush()?;
    let stopped = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    server.run(stopped).await;
    Ok(())
}

/// A folder for a demo that is not told where to live.
fn temporary(options: &Serve, global: &Global) -> Result<Option<TempDir>, Failure> {
    if !options.demo || global.names_a_store() {
        return Ok(None);
    }
    tempfile::tempdir().map(Some).map_err(Failure::file("the temporary folder"))
}

fn config(options: &Serve) -> Result<Config, Failure> {
    let standard = Config::default();
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(TlsFiles { certificate: certificate.clone(), key: key.clone() })
        }
        _ => None,
    };
    let (zenoh_listen, zenoh_connect) = (&options.zenoh_listen, &options.zenoh_connect);
    let is_zenoh = !zenoh_listen.is_empty() || !zenoh_connect.is_empty();
    let zenoh = is_zenoh
        .then(|| ZenohEndpoints { listen: zenoh_listen.clone(), connect: zenoh_connect.clone() });
    Ok(Config {
        zenoh,
        listen: options.listen,
        tls,
        cors_origins: options.cors.clone(),
        rate_limit: options.rate_limit,
        retention: options.keep_changes.as_deref().map_or(Ok(standard.retention), retention)?,
        requests_max: options.requests_max.unwrap_or(standard.requests_max),
        connections_max: options.connections_max.unwrap_or(standard.connections_max),
        deadline: options.deadline.map_or(standard.deadline, Duration::from_secs),
        long_deadline: options.long_deadline.map_or(standard.long_deadline, Duration::from_secs),
        ..standard
    })
}

/// `all`, a number of changes, or an age as in `7d`, `12h`, `30m`.
fn retention(text: &str) -> Result<Retention, Failure> {
    let wrong = || {
        Failure::Usage(format!("--keep-changes: `{text}` is not all, a number, or 7d, 12h, 30m"))
    };
    if text == "all" {
        return Ok(Retention::All);
    }
    let unit = match text.bytes().last() {
        Some(b'd') => 86_400,
        Some(b'h') => 3600,
        Some(b'm') => 60,
        _ => return text.parse().map(Retention::Count).map_err(|_| wrong()),
    };
    let number = text.get(..text.len() - 1).and_then(|digits| digits.parse::<u64>().ok());
    let seconds = number.and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)?;
    Ok(Retention::Age(Duration::from_secs(seconds)))
}

/// How far string identities are rolled out, as the variables of the grid say.
fn initial_rollout(variable: impl Fn(&str) -> Option<String>) -> Result<Rollout, Failure> {
    let mut rollout = Rollout::default();
    for (name, flag) in [
        ("ODGM_ENABLE_STRING_IDS", &mut rollout.string_ids),
        ("ODGM_ENABLE_STRING_KEYS", &mut rollout.string_keys),
        ("ODGM_STRING_IDS_WRITE_ONLY", &mut rollout.write_only),
    ] {
        if let Some(text) = variable(name) {
            *flag = text
                .parse()
                .map_err(|_| Failure::Usage(format!("{name} is true or false, not `{text}`")))?;
        }
    }
    if let Some(text) = variable("ODGM_MAX_STRING_ID_LEN") {
        rollout.id_len_max = text.parse().map_err(|_| {
            Failure::Usage(format!("ODGM_MAX_STRING_ID_LEN is a number of bytes, not `{text}`"))
        })?;
    }
    Ok(rollout)
}

fn tell(
    output: &mut Output,
    options: &Serve,
    address: SocketAddr,
    guide: Option<&demo::Served>,
) -> Result<(), Failure> {
    let scheme = if options.tls_cert.is_some() { "https" } else { "http" };
    output.line(format_args!("keyloom serves {scheme}://{address}"))?;
    match guide {
        Some(guide) => guide.tell(output, address),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn o12_the_variables_of_the_grid_are_where_a_rollout_begins() {
        let read = |pairs: &[(&str, &str)]| {
            let find = |name: &str| pairs.iter().find(|(known, _)| *known == name);
            initial_rollout(|name| find(name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(read(&[]).ok(), Some(Rollout::default()));
        let given = [("ODGM_ENABLE_STRING_IDS", "true"), ("ODGM_MAX_STRING_ID_LEN", "64")];
        let rollout = read(&given).ok().unwrap();
        assert!(rollout.string_ids && !rollout.string_keys && !rollout.write_only);
        assert_eq!((rollout.phase, rollout.id_len_max), (0, 64));
        for wrong in [("ODGM_ENABLE_STRING_KEYS", "yes"), ("ODGM_MAX_STRING_ID_LEN", "-1")] {
            assert!(read(&[wrong]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn changes_are_kept_by_number_or_by_age() {
        let read = |text: &str| retention(text).ok();
        assert_eq!(read("all"), Some(Retention::All));
        assert_eq!(read("5000"), Some(Retention::Count(5000)));
        assert_eq!(read("7d"), Some(Retention::Age(Duration::from_secs(604_800))));
        assert_eq!(read("12h"), Some(Retention::Age(Duration::from_secs(43_200))));
        for wrong in ["", "d", "7w", "-1", "1.5d", "99999999999999999999d"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
