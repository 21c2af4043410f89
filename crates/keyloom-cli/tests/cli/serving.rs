//! `keyloom serve` as an operator meets it: TLS and the end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use keyloom_api::grid::data_service_client::DataServiceClient;
use keyloom_api::grid::{CapabilitiesRequest, CapabilitiesResponse};
use tonic::transport::{ClientTlsConfig, Endpoint};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::program::{Database, keyloom};
use crate::server::Server;

const SCHEMA: &str = r#"
[collections.notes]
key = "note:{id}"
fields.id = { type = "id", required = true }
"#;

/// A certificate for this machine that nobody but itself has signed, and its key, in PEM.
struct Pair {
    certificate: String,
    key: String,
}

#[test]
fn tls_answers_who_trusts_the_certificate_and_nobody_else() {
    let pair = Pair::new();
    let files = Database::none();
    let (certificate, key) =
        (files.file("cert.pem", &pair.certificate), files.file("key.pem", &pair.key));
    let server = Server::start_with(SCHEMA, &["--tls-cert", &certificate, "--tls-key", &key]);
    assert!(server.url.starts_with("https://"), "{}", server.url);

    let health = format!("{}/healthz", server.url);
    let reply = trusting(&pair.certificate).get(&health).call().unwrap();
    assert_eq!(reply.status(), 200);

    let other = Pair::new();
    let refused = trusting(&other.certificate).get(&health).call().unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");

    // The command line trusts whom it is told to.
    let ask = |authority: &[&str]| {
        keyloom(&[&["count", "notes", "--url", &server.url][..], authority].concat(), b"")
    };
    let foreign = files.file("other.pem", &other.certificate);
    let nothing = files.file("nothing.pem", "");
    ask(&["--tls-ca", &certificate]).ok();
    ask(&["--tls-ca", &foreign]).refused("is not trusted");
    ask(&[]).refused("--tls-ca");
    ask(&["--tls-ca", &nothing]).refused("no certificate in PEM");
    let plain = server.url.replace("https://", "http://");
    keyloom(&["count", "notes", "--url", &plain], b"").refused("https has to stand in --url");

    let able = capabilities(&server.url, &pair.certificate).unwrap();
    assert!(able.granular_entry_storage, "{able:?}");
    assert!(capabilities(&server.url, &other.certificate).is_err());

    let said = said_in_plain_text(server.url.trim_start_matches("https://"));
    assert!(!said.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn a_demo_says_what_to_try_and_each_line_of_it_works() {
    let server = Server::start_with(SCHEMA, &["--demo"]);
    let said = server.said_until("All there is");
    let loaded = "loaded: 240 approvals, 6 users, 3 tags, 90 votes, 12 sticker tags, 4 objects";
    assert_eq!(said[0], loaded);
    let curls: Vec<&str> = said.iter().filter_map(|line| line.strip_prefix("curl ")).collect();
    assert_eq!(curls.len(), 7, "{said:?}");
    for curl in curls {
        let quoted: Vec<&str> = curl.split('\'').collect();
        let url = quoted[1];
        let agent = Agent::config_builder().http_status_as_error(false).build().new_agent();
        let reply = match quoted.get(3) {
            None => agent.get(url).call().unwrap(),
            Some(body) => agent.post(url).content_type("application/json").send(*body).unwrap(),
        };
        let expected = if url.contains("comment.prefix") { 400 } else { 200 };
        let expected = if quoted.len() > 3 { 201 } else { expected };
        assert_eq!(reply.status(), expected, "{curl}");
    }
}

#[test]
fn a_certificate_or_key_that_cannot_be_used_is_one_clear_line() {
    let (pair, other) = (Pair::new(), Pair::new());
    let files = Database::none();
    let certificate = files.file("cert.pem", &pair.certificate);
    let key = files.file("key.pem", &pair.key);
    let foreign = files.file("foreign.pem", &other.key);
    let empty = files.file("empty.pem", "");
    let half = pair.certificate.split_at(pair.certificate.len() / 2).0;
    let broken = files.file("broken.pem", half);
    let garbage =
        files.file("garbage.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let missing = files.path("missing.pem").display().to_string();
    for (certificate, key, named) in [
        (&missing, &key, "missing.pem"),
        (&empty, &key, "empty.pem"),
        (&broken, &key, "broken.pem"),
        (&garbage, &key, "garbage.pem"),
        (&certificate, &missing, "missing.pem"),
        (&certificate, &empty, "empty.pem"),
        (&certificate, &foreign, "cert.pem"),
    ] {
        let data = files.data().display().to_string();
        let line = ["serve", "--listen", "127.0.0.1:0", "--data", &data];
        let tls = ["--tls-cert", certificate, "--tls-key", key];
        let answer = keyloom(&[&line[..], &tls].concat(), b"");
        assert_eq!(answer.out, "", "it does not say that it serves");
        let error = answer.refused(named);
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn k3_sigterm_finishes_a_write_in_flight_and_ends_with_0() {
    let mut server = Server::start(SCHEMA);
    let address = server.url.trim_start_matches("http://").to_owned();
    let body = r#"{"data":{"id":"slow"}}"#;
    let (first, rest) = body.split_at(10);
    let mut stream = BufReader::new(TcpStream::connect(&address).unwrap());
    let head = format!(
        "POST /v1/collections/notes/documents HTTP/1.1\r\nHost: {address}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    stream.get_mut().write_all(head.as_bytes()).unwrap();
    // The server asks for the body: the request has reached its handler.
    assert_eq!(line(&mut stream), "HTTP/1.1 100 Continue");
    assert_eq!(line(&mut stream), "");
    stream.get_mut().write_all(first.as_bytes()).unwrap();

    server.terminate();
    // It is stopping once it takes nothing new.
    while TcpStream::connect(&address).is_ok() {}
    stream.get_mut().write_all(rest.as_bytes()).unwrap();
    assert_eq!(line(&mut stream), "HTTP/1.1 201 Created");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("note:slow"), "{answer}");
    assert_eq!(server.wait(), Some(0));

    let found = keyloom(&["get", "notes", "note:slow", "--data", &server.data()], b"");
    assert!(found.ok().contains("slow"));
}

impl Pair {
    fn new() -> Pair {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        Pair { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }
}

/// What a client of the grid that trusts this certificate only hears over gRPC.
fn capabilities(url: &str, certificate: &str) -> Result<CapabilitiesResponse, String> {
    let certificate = tonic::transport::Certificate::from_pem(certificate);
    let tls = ClientTlsConfig::new().ca_certificate(certificate);
    let asked = async {
        let endpoint = Endpoint::from_shared(url.to_owned())?.tls_config(tls)?;
        let mut client = DataServiceClient::new(endpoint.connect().await?);
        let answer = client.capabilities(CapabilitiesRequest {}).await;
        Ok::<_, tonic::transport::Error>(answer.unwrap().into_inner())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(asked).map_err(|error| error.to_string())
}

/// A client that trusts this certificate only.
fn trusting(certificate: &str) -> Agent {
    let certificate = Certificate::from_pem(certificate.as_bytes()).unwrap();
    let roots = RootCerts::new_with_certs(&[certificate]);
    let tls = TlsConfig::builder().root_certs(roots).build();
    Agent::config_builder().tls_config(tls).build().new_agent()
}

/// The next line that a server says.
fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// All that a server says to who does not speak TLS, until it hangs up.
fn said_in_plain_text(address: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: keyloom\r\n\r\n").unwrap();
    let mut said = Vec::new();
    // It may also be cut off, which says nothing more.
    let _ = stream.read_to_end(&mut said);
    said
}
