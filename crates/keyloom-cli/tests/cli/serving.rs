//! `keyloom serve` as an operator meets it: TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

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

    let said = said_in_plain_text(server.url.trim_start_matches("https://"));
    assert!(!said.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&said));
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

impl Pair {
    fn new() -> Pair {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        Pair { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }
}

/// A client that trusts this certificate only.
fn trusting(certificate: &str) -> Agent {
    let certificate = Certificate::from_pem(certificate.as_bytes()).unwrap();
    let roots = RootCerts::new_with_certs(&[certificate]);
    let tls = TlsConfig::builder().root_certs(roots).build();
    Agent::config_builder().tls_config(tls).build().new_agent()
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
